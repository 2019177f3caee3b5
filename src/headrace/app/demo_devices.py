"""Runs the demo of devices: twenty phones walk about, and friends who are near each other are told.

    a folder of its own    a copy of the project `examples/friends`, with its database
    host                   as `headrace up` starts it: service, broker, router, placement
    phones                 twenty real sessions over MQTT, in threads of this process, that walk where people walked
    looks                  who runs what, who is near whom, and how many messages that takes
    closing report         the view against the last place of every phone, and what placing has saved

`close` ends all that was started, however far it got, and removes the folder.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.app.demo_phones import DemoPhones
from headrace.app.demo_service import DOCTOR, LOADED_WITHIN_S, LOOK_EVERY_S, DemoService, open_sample
from headrace.app.demo_tracks import NEAR_M, find_places
from headrace.app.preparing import AskSources, prepare, runnable
from headrace.app.running import Say, Serve
from headrace.declare.read import read_project
from headrace.meaning.scalar_number import find_distance
from headrace.model.errors import ConnectError
from headrace.model.options import ApplyWishes, RunEngine
from headrace.site.engine.settings import engine_to_start

TEMPLATE, VIEW, STREAM = "nearby", "nearby_friends", "location"
SETTLED_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class PhoneLook:
    """A phone now: rows that it made, and friends whose view with it runs there."""

    name: str
    is_here: bool
    rows: int
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DevicesLook:
    """`near` are friends who are near each other, with metres. Messages are per second, None before they are known."""

    phones: tuple[PhoneLook, ...]
    near: tuple[tuple[str, str, int], ...]
    on_devices: int
    pairs: int
    messages_s: float | None
    all_cloud_messages_s: float | None


@dataclass(frozen=True, slots=True)
class DevicesClosing:
    """`missing` and `extra` are rows of the view against the phones' last places. Messages are of rows and results."""

    seconds: float
    started_s: float
    origin: str
    rows: int
    near: int
    missing: tuple[tuple[Any, ...], ...]
    extra: tuple[tuple[Any, ...], ...]
    settled_s: float
    look: DevicesLook

    @property
    def ok(self) -> bool:
        return not self.missing and not self.extra


def open_devices_demo(serve: Serve, say: Say, tracks: Path | None = None) -> AbstractContextManager[DevicesDemo]:
    """`say` is told what goes on."""
    return open_sample("friends", lambda sample: DevicesDemo(sample, serve, say, tracks))


class DevicesDemo:
    """`start`, then look as long as you like, `finish`, and `close` in any case."""

    def __init__(self, sample: Path, serve: Serve, say: Say, tracks: Path | None) -> None:
        self._serve, self._say, self._tracks = serve, say, tracks
        self._began = time.monotonic()
        self._sample = DemoService(sample)
        self._phones: DemoPhones | None = None
        self.started_s = 0.0

    # Start

    def start(self) -> None:
        """Returns when the view is there and all phones walk."""
        sample = self._sample
        declared = read_project(sample.project, {}, None)
        engine = sample.start_engine(engine_to_start(declared.engine, RunEngine.LOCAL))
        self._say("starting PostgreSQL")
        environment = sample.databases.start()
        prepared = prepare(sample.project, environment, ApplyWishes(), AskSources.DECLARED)
        self._say("starting the service, its broker and its router")
        sample.serve(runnable(prepared, engine.kind), environment, self._serve, self._say, lambda phase: None)
        friends = self._sample.databases.friends()
        self.people, self.friends = friends.list_people(), friends.list_friends()
        self.places = find_places(len(self.people), self._tracks)
        self._say(f"{len(self.people)} phones connect; they go where {self.places.origin} go")
        self._phones = DemoPhones(self._sample.folder, declared.project, self._await_broker(), self.people, self.places)
        self._phones.start()
        self.started_s = time.monotonic() - self._began
        self._running_since = time.monotonic()

    def _await_broker(self) -> str:
        """Its address, once the service has started it."""
        file, began = self._sample.folder.root / "devices" / "broker.json", time.monotonic()
        while not file.exists():
            if time.monotonic() - began > LOADED_WITHIN_S:
                raise ConnectError(f"the broker did not start within {LOADED_WITHIN_S:.0f} s", DOCTOR)
            time.sleep(LOOK_EVERY_S)
        return f"mqtt://127.0.0.1:{json.loads(file.read_text())['port']}"

    # Look

    @property
    def _walking(self) -> DemoPhones:
        assert self._phones is not None, "call `start` first"
        return self._phones

    def look(self) -> DevicesLook:
        """Everything as it is now. Raises if the service has failed."""
        self._sample.check()
        templates = self._sample.host.status().get("templates", ())
        told: Mapping[str, Any] = next((one for one in templates if one["id"] == TEMPLATE), {})
        walking = self._walking
        phones = tuple(
            PhoneLook(name, uid not in walking.away, walking.rows[uid], self._find_partners(uid))
            for uid, name in self.people.items()
        )
        near = tuple((self.people[row["a"]], self.people[row["b"]], row["metres"]) for row in self._read(VIEW))
        return DevicesLook(
            phones,
            near,
            told.get("on_devices") or 0,
            told.get("pairs") or len(self.friends),
            told.get("messages_s"),
            told.get("all_cloud_messages_s"),
        )

    def _find_partners(self, uid: int) -> tuple[str, ...]:
        """Friends whose view with somebody runs on that phone."""
        told = self._sample.host.devices.tell_plan(str(uid))["run"]
        return tuple(sorted(self.people[int(partner)] for run in told for partner in run["partners"]))

    def _read(self, view: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._sample.host.reader().rows(view).rows.to_pylist()
        return found

    # Unplug

    def unplug(self) -> str:
        """Has the phone that runs the most views lose its connection; whose it is."""
        busiest = max(self.look().phones, key=lambda phone: (len(phone.runs), phone.rows))
        self._walking.unplug(self._find(busiest.name))
        return busiest.name

    def plug_in(self, name: str) -> None:
        self._walking.plug_in(self._find(name))

    def _find(self, name: str) -> int:
        return next(uid for uid, one in self.people.items() if one == name)

    # End

    def finish(self) -> DevicesClosing:
        """Phones stand still; then the view must be what their last places say."""
        seconds, walking = time.monotonic() - self._running_since, self._walking
        walking.stand_still()
        began, look = time.monotonic(), self.look()
        expected = Counter(self._find_near(walking.last))
        while True:
            found = Counter((row["a"], row["b"], row["metres"]) for row in self._read(VIEW))
            settled_s = time.monotonic() - began
            if found == expected or settled_s > SETTLED_WITHIN_S:
                break
            time.sleep(LOOK_EVERY_S)
        return DevicesClosing(
            seconds=seconds,
            started_s=self.started_s,
            origin=self.places.origin,
            rows=sum(walking.rows.values()),
            near=expected.total(),
            missing=tuple(expected - found),
            extra=tuple(found - expected),
            settled_s=settled_s,
            look=look,
        )

    def _find_near(self, last: Mapping[int, tuple[float, float]]) -> Iterator[tuple[int, int, int]]:
        """What the view says in SQL, computed from where the phones are."""
        for one, other in self.friends:
            if one in last and other in last:
                metres = find_distance(*last[one], *last[other])
                if metres < NEAR_M:
                    yield one, other, int(10 * -(-metres // 10))

    def close(self) -> None:
        self._sample.close(*(() if self._phones is None else (self._phones.stop,)))
