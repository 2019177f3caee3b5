"""The router as a process of its own: `python -m headrace.site.devices.router`. The service keeps it running.

Its settings are a line of JSON on standard input; each further line replaces them, and it ends when its input does. On
standard output it says every few seconds how it does, and what troubles it, as lines of JSON. What it does with
messages is in `router_core.py`; here are the broker, the clock and the order in which things happen.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field

from headrace.connect.input_lines import lines_of
from headrace.connect.lean_start import keep_pandas_out
from headrace.connect.mqtt.broker_log import GrowingLog, read_refusal
from headrace.connect.mqtt.client import BrokerAccess
from headrace.connect.mqtt.router_client import RouterClient
from headrace.connect.mqtt.router_store import RouterStore
from headrace.connect.mqtt.users import ROUTER
from headrace.connect.signals import note_signals
from headrace.model.cloud_messages import PARTS, TABLE
from headrace.model.device_messages import CLOUD, ROOT, client_id_of, quote_id
from headrace.model.errors import ConnectError, HeadraceError, UnreadableState, UsageError
from headrace.site.devices.registry import find_tokens, read_registry, registry_version
from headrace.site.devices.router_core import RouterCore
from headrace.site.devices.router_settings import RouterFile, parse_settings
from headrace.site.devices.tokens import find_device_key, make_client_id
from headrace.site.folder import Folder

log = logging.getLogger("headrace.router")

FOLDER, STORE = "devices", "router.db"
TICK_S = 0.05
COMMIT_S = 0.2
PUT_S = 0.5
COUNTS_S = 5.0
BEAT_S = 2.0
LOOK_S = 1.0
"""How often the registry and the broker's log are looked at."""
PRUNE_S, FORGET_MORE_S = 600.0, 1.0
AWAY_S = 5.0
"""A broker that is away for so long is a trouble."""
RETRY_S = 2.0


def subscriptions(project: str) -> dict[str, int]:
    """Topics that the router reads, and how surely. Streams and results come at most once: devices send again what is
    not acknowledged.
    """
    root = f"{ROOT}/{quote_id(project)}"
    return {
        f"{root}/up/+/s/+": 0,
        f"{root}/up/+/r/+": 0,
        f"{root}/up/+/+": 1,  # hello, gone and took: in one subscription, since a broker orders nothing between two
        **retained_topics(project),
    }


def retained_topics(project: str) -> dict[str, int]:
    """Topics of documents and tables, which the broker retains."""
    root = f"{ROOT}/{quote_id(project)}"
    return dict.fromkeys((f"{root}/down/+/plan", f"{root}/{CLOUD}/{TABLE}/+", f"{root}/{CLOUD}/{PARTS}/+/+"), 1)


@dataclass(slots=True)
class _Clock:
    """When each thing is done next."""

    commit_s: float = 0.0
    put_s: float = 0.0
    counts_s: float = 0.0
    beat_s: float = 0.0
    look_s: float = 0.0
    prune_s: float = 0.0


@dataclass(slots=True)
class Router:
    """One thread; the client has another. `wanted` are the settings that were told last."""

    wanted: RouterFile
    _settings: RouterFile = field(init=False)
    _clock: _Clock = field(default_factory=_Clock)
    _troubles: dict[str, str] = field(default_factory=dict)
    _connections: int = 0
    _version: tuple[int, int] | None = None
    _clients: dict[str, str] = field(default_factory=dict)

    def use(self, settings: RouterFile) -> None:
        """Goes over to other settings soon. The broker and the project stay the same as long as this process lives."""
        self.wanted = settings

    def run(self, stop: threading.Event) -> None:
        """Returns when told to stop. Raises `ConnectError` if the store cannot be opened."""
        settings = self._settings = self.wanted
        with closing(RouterStore(settings.directory / ".headrace" / FOLDER / STORE)) as store:
            core = RouterCore(settings, store)
            broker = settings.broker
            access = BrokerAccess(broker.url, broker.user, broker.password, broker.certificate)
            name = make_client_id(find_device_key(Folder(settings.directory).root), settings.project, ROUTER)
            client = RouterClient(access, name, subscriptions(settings.project))
            broker_log = None if broker.log is None else GrowingLog(broker.log)
            client.start()
            try:
                self._look(core, broker_log, time.monotonic())
                while not stop.wait(TICK_S):
                    self._step(core, client, broker_log)
            finally:
                client.stop()
                self._end(core)
                if broker_log is not None:
                    broker_log.close()

    def _step(self, core: RouterCore, client: RouterClient, broker_log: GrowingLog | None) -> None:
        now_s, clock = time.monotonic(), self._clock
        if self.wanted is not self._settings:
            self._settings = self.wanted
            core.use(self._settings)
        if client.connections != self._connections:
            self._connections = client.connections
            core.begin_connection(now_s)
        for message in client.take():
            core.handle(message, now_s)
        if core.is_commit_due(now_s) and now_s >= clock.commit_s:
            clock.commit_s = now_s + (COMMIT_S if self._try("disk", lambda: core.commit(now_s)) else RETRY_S)
        if now_s >= clock.put_s:
            clock.put_s = now_s + (PUT_S if self._try("inbox", core.put) else RETRY_S)
        if client.away is None and not client.is_congested:
            self._try("history", lambda: core.send_due(now_s))
            self._publish(core, client)
            if core.retained.take_due(now_s):
                log.info("the broker is asked again for documents and tables")
                client.subscribe_again(retained_topics(self._settings.project))
        if now_s >= clock.look_s:
            clock.look_s = now_s + LOOK_S
            self._look(core, broker_log, now_s)
        if now_s >= clock.counts_s:
            clock.counts_s = now_s + COUNTS_S
            core.send_counts(time.time_ns() // 1_000_000)
        if now_s >= clock.beat_s:
            clock.beat_s = now_s + BEAT_S
            self._beat(core, client)
        if now_s >= clock.prune_s:
            clock.prune_s = now_s + PRUNE_S
            self._try("prune", lambda: self._forget_old(core, now_s))

    def _publish(self, core: RouterCore, client: RouterClient) -> None:
        """What cannot be sent is dropped: acknowledgements and rows are made again, since a new connection begins."""
        for message in core.take_out():
            if not client.publish(message.topic, message.body, message.qos) and message.qos:
                core.keep_back(message)

    def _try(self, what: str, act: Callable[[], None]) -> bool:
        try:
            act()
        except ConnectError as error:
            if what not in self._troubles:
                log.error("%s", error)
            self._troubles[what] = f"{error}"
            return False
        self._troubles.pop(what, None)
        return True

    def _look(self, core: RouterCore, broker_log: GrowingLog | None, now_s: float) -> None:
        """Who the devices are, and what the broker refused."""
        self._try_registry(core)
        if broker_log is not None:
            refusals = [found for line in broker_log.lines() if (found := read_refusal(line)) is not None]
            core.note_refusals((one, self._clients.get(one.client)) for one in refusals)

    def _try_registry(self, core: RouterCore) -> None:
        folder = Folder(self._settings.directory)
        version = registry_version(folder)
        if version == self._version:
            return
        try:
            registry = read_registry(folder)
            tokens = find_tokens(folder, self._settings.project, registry.devices)
        except UnreadableState as error:
            self._troubles["registry"] = str(error)
            return
        self._troubles.pop("registry", None)
        self._version = version
        self._clients = {client_id_of(one.token): one.device for one in tokens}
        core.use_members(registry.groups)

    def _forget_old(self, core: RouterCore, now_s: float) -> None:
        """A bit at a time: devices wait meanwhile."""
        keep_s: dict[str, float] = {}
        for one in self._settings.streams:
            keep_s[one.stream] = max(one.keep_s or 0.0, keep_s.get(one.stream, 0.0))
        if not core.forget_old(keep_s, time.time_ns() // 1_000_000):
            self._clock.prune_s = now_s + FORGET_MORE_S

    def _beat(self, core: RouterCore, client: RouterClient) -> None:
        troubles = dict(self._troubles)
        if client.away_s > AWAY_S:
            troubles["broker"] = f"the broker is away: {client.away}"
        if core.intake.set_aside:
            what = f"{core.intake.set_aside} rows of devices cannot be written, and are set aside; its log names them"
            troubles["set aside"] = what
        tell("beat", connected=client.away is None, waiting=core.intake.rows_waiting, refused=core.counts.refused,
             troubles=troubles)  # fmt: skip

    def _end(self, core: RouterCore) -> None:
        """What was taken is committed and put; what was not acknowledged comes again."""
        for act in (lambda: core.commit(time.monotonic()), core.put, lambda: core.commit(time.monotonic())):
            self._try("end", act)


def tell(event: str, **fields: object) -> None:
    with suppress(OSError):  # nobody listens any more
        print(json.dumps({"event": event, **fields}), flush=True)


def _follow(router: Router, lines: Iterable[str], stop: threading.Event) -> None:
    """The service holds the other end of our input: when it is gone, so are we."""
    for line in lines:
        try:
            router.use(parse_settings(line))
        except UsageError as error:
            log.error("%s", error)
    stop.set()


def main() -> int:
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {os.getpid()} %(levelname)s %(message)s")
    keep_pandas_out()
    stop = threading.Event()
    lines = lines_of(sys.stdin.fileno())
    try:
        router = Router(parse_settings(next(lines, "")))
        threading.Thread(target=_follow, args=(router, lines, stop), daemon=True).start()
        with note_signals(stop):
            router.run(stop)
    except HeadraceError as error:
        tell("failed", message=str(error), hint=getattr(error, "hint", None))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
