"""Keeps the broker and the router of a project running, and tells what they do.

One thread starts them, looks at them, and starts again what has ended; nothing is deleted when one crashes. The broker
is told its users anew whenever the registry changes, so that a revoked device is signed out within a second. The router
says every few seconds how it does: one that no longer does is replaced, and so is a broker that does not answer it.
Both end with the service, even if that is killed.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.connect.files import open_private
from headrace.connect.mqtt.broker import BrokerSettings, EmbeddedBroker
from headrace.connect.mqtt.client import BrokerAccess
from headrace.connect.mqtt.external import look_at_broker
from headrace.connect.mqtt.users import PLACER, ROUTER, BrokerUser, cloud_user, device_user, refuse_id
from headrace.model.errors import HeadraceError
from headrace.model.push_events import DeviceProcessEnded
from headrace.site import troubles as kinds
from headrace.site.devices.registry import find_tokens, read_registry, registry_version
from headrace.site.devices.revoked import RevokedTokens
from headrace.site.devices.router_settings import BrokerFile, RouterFile, StreamFile, TemplateFile
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.process import module_command
from headrace.site.troubles import Troubles

__all__ = ["BrokerSettings", "DeviceProcessState", "DeviceProcessTold", "DeviceProcesses"]

log = logging.getLogger("headrace.devices")

MODULE = "headrace.site.devices.router"
FOLDER, ROUTER_LOG = "devices", "router.log"
BACKOFF_S = (0.2, 1.0, 2.0, 5.0, 15.0)
LASTED_S = 30.0
"""A process that ran for this long was well: its end counts as its first failure."""
START_WITHIN_S, SILENT_S = 60.0, 20.0
"""A router that reports nothing for so long, or not even once, hangs, and is replaced."""
UNANSWERED_S = 30.0
"""A broker that the router cannot reach for so long hangs, and is replaced."""
LOOK_EVERY_S = 0.25
END_WITHIN_S = 10.0
BROKER_NAME, ROUTER_NAME = "broker", "router"


class DeviceProcessState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"


@dataclass(frozen=True, slots=True)
class DeviceProcessTold:
    """`pid` is None while none runs; `restarts` is how often another took its place."""

    name: str
    pid: int | None
    state: DeviceProcessState
    restarts: int


@dataclass(slots=True)
class _Place:
    """A process and its history. Times are in seconds of the clock that nobody sets."""

    name: str
    trouble: str
    started_at: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    restarts: int = 0
    is_well: bool = False


@dataclass(slots=True)
class DeviceProcesses:
    """`external` is a broker of somebody else's, which is used in place of one of our own."""

    folder: Folder
    project: str
    settings: BrokerSettings
    journal: Journal
    troubles: Troubles
    external: BrokerAccess | None = None
    _streams: tuple[StreamFile, ...] = ()
    _templates: tuple[TemplateFile, ...] = ()
    _is_told: bool = False
    _passwords: Mapping[str, str] = field(
        default_factory=lambda: {name: secrets.token_urlsafe(24) for name in (ROUTER, PLACER)}
    )
    _embedded: EmbeddedBroker | None = None
    _users_of: tuple[int, int] | None = None
    _router: subprocess.Popen[bytes] | None = None
    _broker_place: _Place = field(default_factory=lambda: _Place(BROKER_NAME, kinds.BROKER))
    _router_place: _Place = field(default_factory=lambda: _Place(ROUTER_NAME, kinds.ROUTER))
    _beat: dict[str, Any] | None = None
    _beat_at: float | None = None
    _unreached_since: float | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keeps both until it is left. Raises `UsageError` for settings that would not be safe."""
        if self.external is None:
            self._embedded = EmbeddedBroker(self._place, self.settings)
        end = threading.Event()
        threads = [threading.Thread(target=self._watch, args=(end,), name="broker and router", daemon=True)]
        if self.external is not None:
            revoked = RevokedTokens(self.folder, self.project, self.external, self.troubles)
            threads.append(threading.Thread(target=revoked.run, args=(end,), name="revoked tokens", daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            end.set()
            for thread in threads:
                thread.join(2 * END_WITHIN_S + 5.0)

    @property
    def access(self) -> BrokerAccess | None:
        """How the placement loop reaches the broker; None until it runs."""
        return self._access_of(PLACER)

    @property
    def url(self) -> str | None:
        """Where devices find the broker; None until that is known."""
        found = self.access
        return None if found is None else found.url

    def use(self, streams: tuple[StreamFile, ...], templates: tuple[TemplateFile, ...]) -> None:
        """Has the router write these sources from now on."""
        with self._turn:
            if (streams, templates) != (self._streams, self._templates):
                self._streams, self._templates, self._is_told = streams, templates, False

    def tell(self) -> tuple[DeviceProcessTold, ...]:
        embedded, router = self._embedded, self._router
        found = [] if embedded is None else [_tell_one(self._broker_place, embedded.pid, embedded.is_ready)]
        is_heard = self._beat_at is not None
        return (*found, _tell_one(self._router_place, None if router is None else router.pid, is_heard))

    @property
    def _place(self) -> Path:
        return self.folder.root.absolute() / FOLDER

    def _access_of(self, user: str) -> BrokerAccess | None:
        if self.external is not None:
            return self.external
        broker = self._embedded
        if broker is None or broker.port == 0:
            return None
        return BrokerAccess(broker.url, user, self._passwords[user], self.settings.certificate)

    # The thread

    def _watch(self, end: threading.Event) -> None:
        try:
            self._look_at_external()
            while not end.wait(LOOK_EVERY_S):
                self._look(self._look_at_broker, self._broker_place)
                self._look(self._look_at_router, self._router_place)
        finally:
            self._end_all()

    def _look(self, look: Callable[[float], None], place: _Place) -> None:
        """Looks at one of them. Whatever fails is a trouble, and is tried again."""
        key = f"{place.trouble}watching"
        try:
            look(time.monotonic())
        except Exception as error:
            if not isinstance(error, HeadraceError | OSError):
                log.exception("looking at the %s failed", place.name)
            what = f"the {place.name} of devices cannot be looked after: {error}"
            self.troubles.report(key, what, "is there space on its disk? The service keeps trying")
            return
        self.troubles.clear(key)

    def _look_at_external(self) -> None:
        """Logs what one should know of a broker of somebody else's; whether it answers is the router's to tell."""
        if self.external is not None:
            with suppress(HeadraceError):
                one = self.external
                for problem in look_at_broker(one.url, one.user, one.password, one.certificate):
                    log.warning("%s", problem)

    def _look_at_broker(self, now: float) -> None:
        broker, place = self._embedded, self._broker_place
        if broker is None:
            return
        if broker.pid is None:
            if now >= place.retry_at:
                self._start_broker(broker)
        elif broker.poll() is not None:
            pid, status = broker.pid, broker.poll()
            broker.stop()
            self._note_end(place, pid, _say_ended(status or 0))
        elif self._unreached_since is not None and now - self._unreached_since > UNANSWERED_S:
            pid = broker.pid
            broker.kill()
            broker.stop()
            self._note_end(place, pid, f"it did not answer for {UNANSWERED_S:.0f} s")
        else:
            self._renew_users(broker)
            self._note_well(place, now)

    def _start_broker(self, broker: EmbeddedBroker) -> None:
        place = self._broker_place
        place.started_at, self._unreached_since = time.monotonic(), None
        try:
            version = registry_version(self.folder)
            broker.start(self._find_users())
            self._users_of = version
        except (HeadraceError, OSError) as error:
            broker.stop()
            self._note_end(place, 0, f"it could not be started: {error}")

    def _renew_users(self, broker: EmbeddedBroker) -> None:
        version = registry_version(self.folder)
        if version == self._users_of:
            return
        try:
            broker.reload(self._find_users())
        except (HeadraceError, OSError) as error:
            what = f"the broker has other users than it should: {error}"
            self.troubles.report(f"{kinds.BROKER}users", what, "devices that were revoked may still be signed in")
            return
        self._users_of = version
        self.troubles.clear(f"{kinds.BROKER}users")

    def _find_users(self) -> list[BrokerUser]:
        registry = read_registry(self.folder)
        devices = registry.devices
        refused = {device: why for device in devices if (why := refuse_id(device)) is not None}
        refused |= dict.fromkeys(registry.shared, "is that of devices of two groups")
        if refused:
            what = f"{len(refused)} devices cannot sign in; of one, the id {next(iter(refused.values()))}"
            self.troubles.report(f"{kinds.BROKER}ids", what, "give them other ids in their table")
        else:
            self.troubles.clear(f"{kinds.BROKER}ids")
        known = [device for device in devices if device not in refused]
        tokens = find_tokens(self.folder, self.project, known)
        cloud = [cloud_user(self.project, name, password) for name, password in self._passwords.items()]
        return [*cloud, *(device_user(self.project, one.device, one.token) for one in tokens)]

    def _look_at_router(self, now: float) -> None:
        router, place = self._router, self._router_place
        if router is None:
            if now >= place.retry_at and self._access_of(ROUTER) is not None and (self._streams or self._templates):
                self._start_router()
            return
        if router.poll() is not None:
            self._router = None
            self._note_end(place, router.pid, _say_ended(router.returncode))
            _close_pipes(router)
            return
        silent_s = now - (self._beat_at or place.started_at)
        if silent_s > (START_WITHIN_S if self._beat_at is None else SILENT_S):
            router.kill()
            router.wait()
            self._router = None
            self._note_end(place, router.pid, f"it reported nothing for {silent_s:.0f} s")
            _close_pipes(router)
            return
        self._tell_router(router)
        self._hear_beat(now)
        self._note_well(place, now)

    def _start_router(self) -> None:
        place = self._router_place
        place.started_at, self._beat, self._beat_at, self._is_told = time.monotonic(), None, None, False
        try:
            self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open_private(self._place / ROUTER_LOG, os.O_APPEND) as output:
                router = subprocess.Popen(
                    module_command(MODULE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, umask=0o077
                )
        except OSError as error:
            self._note_end(place, 0, f"it could not be started: {error}")
            return
        self._router = router
        threading.Thread(target=self._hear, args=(router,), name="router's reports", daemon=True).start()
        self._tell_router(router)

    def _tell_router(self, router: subprocess.Popen[bytes]) -> None:
        access = self._access_of(ROUTER)
        with self._turn:
            if self._is_told or access is None:
                return
            self._is_told = True
            said = self._router_file(access)
        assert router.stdin is not None
        with suppress(OSError):  # it has ended already, and is looked at next
            router.stdin.write(said.model_dump_json().encode() + b"\n")
            router.stdin.flush()

    def _router_file(self, access: BrokerAccess) -> RouterFile:
        log_file = None if self._embedded is None else self._embedded.log_file
        broker = BrokerFile(
            url=access.url, user=access.user, password=access.password, certificate=access.certificate, log=log_file
        )
        return RouterFile(
            project=self.project,
            directory=self.folder.project.absolute(),
            broker=broker,
            streams=self._streams,
            templates=self._templates,
        )

    def _hear(self, router: subprocess.Popen[bytes]) -> None:
        """What one router says, until it ends."""
        assert router.stdout is not None
        with suppress(OSError, ValueError):
            for line in router.stdout:
                said = json.loads(line)
                if self._router is not router:
                    return
                if said.get("event") == "beat":
                    self._beat, self._beat_at = said, time.monotonic()
                else:
                    log.warning("the router says: %s", said.get("message", said))

    def _hear_beat(self, now: float) -> None:
        beat = self._beat
        if beat is None:
            return
        self._beat = None
        found: dict[str, tuple[str, str]] = {}
        for name, what in beat["troubles"].items():
            hint = f"see .headrace/{FOLDER}/{ROUTER_LOG}"
            found[f"{kinds.ROUTER}{name}"] = f"the router of devices has a trouble: {what}", hint
        self._unreached_since = None if beat["connected"] else (self._unreached_since or now)
        own = f"{kinds.ROUTER}{ROUTER_NAME}", f"{kinds.ROUTER}watching"
        for key in [key for key in self.troubles.all() if key.startswith(kinds.ROUTER) and key not in (*found, *own)]:
            self.troubles.clear(key)
        for key, (what, hint) in found.items():
            self.troubles.report(key, what, hint)

    # What became of one

    def _note_end(self, place: _Place, pid: int, reason: str) -> None:
        lasted = time.monotonic() - place.started_at > LASTED_S
        place.failures = 1 if lasted else place.failures + 1
        place.restarts += 1
        place.is_well = False
        backoff_s = BACKOFF_S[min(place.failures, len(BACKOFF_S)) - 1]
        place.retry_at = time.monotonic() + backoff_s
        self.journal.emit(DeviceProcessEnded(time.time_ns() // 1000, place.name, pid, backoff_s, reason=reason))
        if place.failures > 1:
            file = "broker.log" if place is self._broker_place else ROUTER_LOG
            hint = f"see .headrace/{FOLDER}/{file}; the service keeps trying"
            self.troubles.report(f"{place.trouble}{place.name}", f"the {place.name} of devices ended: {reason}", hint)

    def _note_well(self, place: _Place, now: float) -> None:
        if not place.is_well and now - place.started_at > LASTED_S:
            place.is_well, place.failures = True, 0
            self.troubles.clear(f"{place.trouble}{place.name}")

    def _end_all(self) -> None:
        router = self._router
        if router is not None:
            if router.stdin is not None:
                with suppress(OSError):
                    router.stdin.close()
            try:
                router.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                router.kill()
                router.wait()
            _close_pipes(router)
            self._router = None
        if self._embedded is not None:
            self._embedded.stop()


def _tell_one(place: _Place, pid: int | None, is_ready: bool) -> DeviceProcessTold:
    state = DeviceProcessState.RUNNING
    if pid is None or not is_ready:
        state = DeviceProcessState.RESTARTING if place.failures else DeviceProcessState.STARTING
    return DeviceProcessTold(place.name, pid, state, place.restarts)


def _say_ended(status: int) -> str:
    return f"it was killed (signal {-status})" if status < 0 else f"it ended with status {status}"


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
