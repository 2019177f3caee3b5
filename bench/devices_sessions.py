"""Phones that run: real sessions with the broker, many of them in each of a few processes, which also record.

    parent    `Sessions`: starts the processes, tells them what to do, and reads what they recorded
    child     `python -m bench.devices_sessions`: one line of JSON says which phones it is; further lines change that

A row is written to the record before it is published, so nothing that was sent is unknown; when a process is killed,
the last row of each of its phones may or may not have been published.
"""

from __future__ import annotations

import heapq
import json
import math
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.devices_oracle import Published
from bench.devices_world import PROJECT_NAME, TEMPLATE, DevicesWorld
from bench.workloads.phones import Phones, Walk
from headrace.connect.device.many import ManyDevices
from headrace.run.device.agent import Result

PER_PROCESS, FEWEST_PROCESSES = 500, 2
CHECKIN_EVERY = 10
"""A phone checks in with every tenth row, where it is to."""
CONNECTED_WITHIN_S = 120.0
STOPPED_WITHIN_S = 60.0
TICK_S = 0.02
"""Rows that are due within this are published together."""


@dataclass(frozen=True, slots=True)
class Town:
    """Where phones walk: the smaller the town, the more friends meet."""

    side_m: float = 2_500.0
    step_m: float = 5.0


@dataclass(frozen=True, slots=True)
class Heard:
    """A change of a result on a phone, and when the phone heard of it; ms since 1970."""

    phone: int
    pair: tuple[int, int]
    weight: int
    row: tuple[int, int]
    heard_ms: float


@dataclass
class Record:
    """Everything that phones published and heard. `unsure` are rows of killed processes: published, or just not."""

    published: Published = field(default_factory=lambda: Published(("lat", "lng", "n")))
    checkins: Published = field(default_factory=lambda: Published(("n",)))
    heard: list[Heard] = field(default_factory=list)
    unsure: set[tuple[int, int]] = field(default_factory=set)
    unsure_checkins: set[tuple[int, int]] = field(default_factory=set)

    @property
    def at_ms(self) -> dict[tuple[int, int], int]:
        """When each row was made, by phone and number."""
        return {(device, n): at for device, _, at, _, _, n in self.published.rows}


# The parent


class Sessions:
    """All phones of a world. Use `start` once its service runs, and `stop` to get the record."""

    def __init__(self, world: DevicesWorld, phones: Phones, town: Town, seed: int, checkins: bool = False) -> None:
        self._world, self._town, self._seed, self._checkins = world, town, seed, checkins
        numbers = list(range(len(phones)))
        count = max(FEWEST_PROCESSES if len(phones) > 2 else 1, math.ceil(len(phones) / PER_PROCESS))
        self._parts = [numbers[at::count] for at in range(count)]
        self._children: list[_Child] = []
        self._rates = phones.rate.tolist()
        self._made: dict[int, int] = {}
        self.record = Record()

    @property
    def processes(self) -> int:
        return len(self._parts)

    def start(self, publish: bool = True) -> float:
        """The seconds until all are connected."""
        began = time.monotonic()
        tokens = self._world.tokens()
        self._children = [self._launch(number, tokens, publish) for number in range(len(self._parts))]
        for child in self._children:
            child.wait("connected", CONNECTED_WITHIN_S)
        return time.monotonic() - began

    def publish(self, rates: Sequence[float] | None = None) -> None:
        """Rows are made from now on, at these rates."""
        self._rates = self._rates if rates is None else list(rates)
        for child, part in zip(self._children, self._parts, strict=True):
            child.tell(rates={str(phone): self._rates[phone] for phone in part})

    def publish_evenly(self, seconds: float, counts: Mapping[int, int]) -> None:
        """So many rows of each phone, spread over some seconds; returns afterwards."""
        for child, part in zip(self._children, self._parts, strict=True):
            child.tell(evenly=[seconds, {str(phone): counts[phone] for phone in part if phone in counts}])
        for child in self._children:
            child.wait("done", seconds + STOPPED_WITHIN_S)

    def pause(self) -> None:
        """No more rows, and all that were made are recorded when this returns."""
        for child in self._children:
            child.tell(rates={})
        for child in self._children:
            child.tell(flush=True)
            child.wait("flushed", STOPPED_WITHIN_S)

    def unplug(self, phones: Iterable[int], is_away: bool = True) -> None:
        """Has phones lose their connection, or find it again."""
        chosen = set(phones)
        for child, part in zip(self._children, self._parts, strict=True):
            child.tell(**{"away" if is_away else "back": [phone for phone in part if phone in chosen]})

    def kill(self, number: int) -> None:
        """kill -9 of a process with all its phones, and starts it again."""
        child, part = self._children[number], set(self._parts[number])
        child.process.kill()
        child.process.wait()
        self._read(number)
        last = {device: n for device, _, _, _, _, n in self.record.published.rows if device in part}
        self.record.unsure |= set(last.items())
        checked_in = {device: n for device, _, _, n in self.record.checkins.rows if device in part}
        self.record.unsure_checkins |= set(checked_in.items())
        self._made.update(last)
        self._children[number] = self._launch(number, self._world.tokens(), publish=True)
        self._children[number].wait("connected", CONNECTED_WITHIN_S)

    def stop(self) -> Record:
        for child in self._children:
            child.end()
        for number in range(len(self._children)):
            self._read(number)
        self._children = []
        return self.record

    def look(self) -> Record:
        """The record until now; call `pause` before."""
        for number in range(len(self._children)):
            self._read(number)
        return self.record

    def _launch(self, number: int, tokens: Mapping[str, str], publish: bool) -> _Child:
        folder = self._world.root / "phones" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        part = self._parts[number]
        told = {
            "broker": self._world.broker_url,
            "folder": str(folder),
            "seed": self._seed,
            "town": [self._town.side_m, self._town.step_m],
            "checkins": self._checkins,
            "on_disk": self._checkins,
            "phones": [
                [phone, tokens[str(phone)], self._rates[phone] if publish else 0.0, self._made.get(phone, 0)]
                for phone in part
            ],
        }
        return _Child(told, folder / "log")

    def _read(self, number: int) -> None:
        """Adds what a process has recorded since it was read last."""
        folder = self._world.root / "phones" / str(number)
        for line in _take_lines(folder / "published"):
            device, n, at_ms, lat, lng = line.split(",")
            self.record.published.add(int(device), int(n), int(at_ms), (float(lat), float(lng), int(n)))
        for line in _take_lines(folder / "checkins"):
            phone, number, made_ms = map(int, line.split(","))
            self.record.checkins.add(phone, number, made_ms, (number,))
        for line in _take_lines(folder / "heard"):
            listener, a, b, weight, mine, theirs, heard_ms = map(int, line.split(","))
            self.record.heard.append(Heard(listener, (a, b), weight, (mine, theirs), heard_ms))


class _Child:
    """A process with some phones."""

    def __init__(self, told: Mapping[str, Any], log: Path) -> None:
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bench.devices_sessions"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=Path(__file__).parents[1],
                text=True,
            )
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()
        self.tell(**told)

    def tell(self, **told: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()

    def wait(self, word: str, within_s: float) -> None:
        until = time.monotonic() + within_s
        while True:
            try:
                if self._said.get(timeout=max(0.0, until - time.monotonic())) == word:
                    return
            except queue.Empty:
                raise TimeoutError(f"phones did not say {word!r} within {within_s:g} s") from None

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(line.strip())


def _take_lines(file: Path) -> list[str]:
    """What was written since the last call, whole lines only; the file is begun anew."""
    if not file.exists():
        return []
    taken = file.with_suffix(".taken")
    done = int(taken.read_text()) if taken.exists() else 0
    with file.open("rb") as opened:
        opened.seek(done)
        text = opened.read()
    whole = text[: text.rfind(b"\n") + 1]
    taken.write_text(str(done + len(whole)))
    return whole.decode().splitlines()


# The child


class _PhonesProcess:
    """Some phones: makes their rows when they are due, writes them down, and publishes them."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        folder = Path(told["folder"])
        self._published, self._checkins, self._heard = (
            (folder / name).open("ab", buffering=0) for name in ("published", "checkins", "heard")
        )
        self._heard_lock = threading.Lock()
        self._checks_in = told["checkins"]
        self._walks: dict[int, Walk] = {}
        self._made: dict[int, int] = {}
        self._rates: dict[int, float] = {}
        self._due: list[tuple[float, int]] = []
        tokens: dict[str, str] = {}
        for phone, token, rate, made in told["phones"]:
            self._walks[phone], self._made[phone] = Walk(phone, told["seed"], *told["town"]), made
            for _ in range(made):  # where it was when its process was killed
                self._walks[phone].step()
            self._rates[phone] = rate
            tokens[str(phone)] = token
        state = folder / "state" if told["on_disk"] else None
        self._devices = ManyDevices(told["broker"], PROJECT_NAME, state, self._hear, _complain)
        for device, token in tokens.items():
            self._devices.add(device, token)

    def run(self) -> None:
        commands: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
        self._devices.start()
        if not self._devices.wait_connected(CONNECTED_WITHIN_S):
            sys.exit(f"not all phones were connected within {CONNECTED_WITHIN_S:g} s")
        _say("connected")
        self._set_rates(self._rates)
        while True:
            try:
                told = commands.get(timeout=self._find_wait_s())
            except queue.Empty:
                self._publish_due(time.monotonic())
                continue
            if told is None:
                break
            self._obey(told)
        self._devices.stop()

    def _obey(self, told: Mapping[str, Any]) -> None:
        if "rates" in told:
            self._set_rates({int(phone): rate for phone, rate in told["rates"].items()})
        if "evenly" in told:
            self._publish_evenly(*told["evenly"])
            _say("done")
        for phone in told.get("away", ()):
            self._devices.unplug(str(phone))
        for phone in told.get("back", ()):
            self._devices.plug_in(str(phone))
        if told.get("flush"):
            _say("flushed")

    def _set_rates(self, rates: Mapping[int, float]) -> None:
        """Each phone begins at a time of its own, so that rows come evenly."""
        self._rates = {phone: rate for phone, rate in rates.items() if rate > 0}
        now, chance = time.monotonic(), np.random.default_rng(len(rates))
        self._due = [(now + float(chance.random()) / rate, phone) for phone, rate in self._rates.items()]
        heapq.heapify(self._due)

    def _find_wait_s(self) -> float:
        return max(0.0, min(1.0, self._due[0][0] - time.monotonic() if self._due else 1.0))

    def _publish_due(self, now: float) -> None:
        phones: list[int] = []
        while self._due and self._due[0][0] <= now + TICK_S:
            due, phone = self._due[0]
            if phone in phones:  # it is late; only its last row may be recorded and not published
                self._publish(phones)
                phones = []
            phones.append(phone)
            # From when it was due: one that is late does not have fewer rows.
            heapq.heapreplace(self._due, (due + 1 / self._rates[phone], phone))
        self._publish(phones)

    def _publish(self, phones: Sequence[int]) -> None:
        """Everything is in the record before anything is published."""
        rows = []
        for phone in phones:
            self._made[phone] += 1
            rows.append((phone, self._made[phone], round(time.time() * 1000), *self._walks[phone].step()))
        self._published.write(b"".join(f"{','.join(map(repr, row))}\n".encode() for row in rows))
        checking_in = [row[:3] for row in rows if self._checks_in and row[1] % CHECKIN_EVERY == 0]
        self._checkins.write(b"".join(f"{phone},{n},{at_ms}\n".encode() for phone, n, at_ms in checking_in))
        for phone, n, at_ms, lat, lng in rows:
            self._devices.publish(str(phone), "location", {"lat": lat, "lng": lng, "n": n}, at_ms)
        for phone, n, at_ms in checking_in:
            self._devices.publish(str(phone), "checkin", {"n": n}, at_ms)

    def _publish_evenly(self, seconds: float, counts: Mapping[str, int]) -> None:
        due = sorted(
            ((number + 0.5) * seconds / count, int(phone)) for phone, count in counts.items() for number in range(count)
        )
        began = time.monotonic()
        for at, phone in due:
            time.sleep(max(0.0, began + at - time.monotonic()))
            self._publish([phone])
        time.sleep(max(0.0, began + seconds - time.monotonic()))

    def _hear(self, phone: str, result: Result) -> None:
        """Results of the view of two friends; what is only kept is looked at elsewhere."""
        if result.template != TEMPLATE:
            return
        mine, theirs = result.row
        line = f"{phone},{','.join(result.pair)},{result.weight},{mine!s},{theirs!s},{time.time() * 1000:.0f}\n"
        with self._heard_lock:
            self._heard.write(line.encode())


def _read_commands(commands: queue.Queue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    commands.put(None)


def _complain(device: str, text: str) -> None:
    print(f"{device}: {text}", file=sys.stderr, flush=True)


def _say(word: str) -> None:
    print(word, flush=True)


if __name__ == "__main__":
    _PhonesProcess(json.loads(sys.stdin.readline())).run()
