"""How many rows per second does a device take on one core, how soon is it ready, and what would plain SQLite do?

A `headrace device` of its own at our broker: how long until it says hello, and how much memory it has. Then rows come
on its stdin as fast as it reads them: all of its processor time counts, with JSON, its outbox on disk and the broker's
messages. One view filters its own rows, the other finds who of 50 partners is near. The same joins run in this process:
our engine alone, the evaluator that it must agree with, and SQLite, which has rows and partners in tables (in memory,
with an index) and is asked after every row for what holds now. Answers are compared after every row.

    headrace bench device-engine [--rows 20000] [--partners 50] [--seed 1]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from headrace.connect.mqtt.broker import EmbeddedBroker
from headrace.connect.mqtt.users import cloud_user, device_user
from headrace.meaning.evaluate import evaluate
from headrace.meaning.scalar import compile_expr
from headrace.meaning.zset import ZSet
from headrace.model.device_messages import (
    Document,
    Run,
    SendStream,
    Sent,
    StreamShape,
    Taken,
    TakeStream,
    down_topic,
    sign,
    up_topic,
    write_document,
    write_taken,
    write_token,
)
from headrace.model.expr import Call, Column, Literal
from headrace.model.relation import Filter, Join, JoinKind, Output, Projection, Relation, Scan
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, Row
from headrace.model.wire import write_wire
from headrace.plan.place.lifting import PairWorld, StreamRows, lift
from headrace.run.device.engine import DeviceEngine
from headrace.run.device.fitting import read_time

PROJECT, ME, TOKEN = "town", "1", "hrd_1_0123456789abcdef"
COLUMNS = (("lat", DOUBLE), ("lng", DOUBLE))
NORTH, NEAR_M = 39.95, 300.0
FAR_DEGREES = 0.02
READY_WITHIN_S = 60.0
EVALUATED = 300
"""Rows that the evaluator is timed with: it takes long."""


# What runs


def double(name: str) -> Column:
    return Column(name, DOUBLE)


def scan(side: str, alias: str) -> Scan:
    return Scan(f"{side}.location", alias, tuple(name for name, _ in COLUMNS), tuple(type_ for _, type_ in COLUMNS))


def distance() -> Call:
    return Call("distance", tuple(map(double, ("x.lat", "x.lng", "y.lat", "y.lng"))), DOUBLE)


def filtered_view() -> Relation:
    north = Call(">", (double("x.lat"), Literal(NORTH, DOUBLE)), BOOLEAN)
    return Projection(Filter(scan("a", "x"), north), (Output("lat", double("x.lat")),))


def nearby_view() -> Relation:
    near = Call("<", (distance(), Literal(NEAR_M, DOUBLE)), BOOLEAN)
    return Projection(Join(JoinKind.INNER, scan("a", "x"), scan("b", "y"), near), (Output("lat", double("y.lat")),))


def lifted(view: Relation, sides: tuple[str, ...]) -> Relation:
    columns = (("device", BIGINT), ("seq", BIGINT), ("at", TIMESTAMP), *COLUMNS)
    names, types = tuple(name for name, _ in columns), tuple(type_ for _, type_ in columns)
    rows = StreamRows("phones/location", names, types)
    return lift(view, PairWorld({f"{side}.location": rows for side in sides}, BIGINT, sides))


@dataclass(frozen=True, slots=True)
class Template:
    """A view, and for whom it runs."""

    name: str
    program: Relation
    partners: tuple[str, ...]

    def document(self, plan: int) -> Document:
        return Document(
            plan,
            {"program": write_wire(self.program, "bench")},
            (Run(self.name, "program", "a", self.partners, report=True),),
            (SendStream("location", 60.0),),
            tuple(TakeStream("location", partner, 0.0) for partner in self.partners),
            {"location": StreamShape(COLUMNS)},
        )


def make_templates(partners: int) -> tuple[Template, Template]:
    others = tuple(str(number) for number in range(2, partners + 2))
    return (
        Template("filtered", lifted(filtered_view(), ("a",)), ()),
        Template("nearby", lifted(nearby_view(), ("a", "b")), others),
    )


# Where people are


def walk(chance: random.Random) -> Iterator[Row]:
    lat, lng = NORTH, 116.4
    while True:
        yield lat, lng
        lat, lng = lat + chance.gauss(0, 0.0005), lng + chance.gauss(0, 0.0005)
        lat += 0.02 * (NORTH - lat)
        lng += 0.02 * (116.4 - lng)


def partner_rows(partners: Sequence[str], chance: random.Random) -> dict[str, Row]:
    return {one: (NORTH + chance.gauss(0, FAR_DEGREES), 116.4 + chance.gauss(0, FAR_DEGREES)) for one in partners}


# Three ways in this process: each is told a row, and says what holds then

Follow = Callable[[int, Row], frozenset[tuple[Any, ...]]]


def follow_with_engine(template: Template, others: dict[str, Row]) -> Follow:
    engine = DeviceEngine(ME)
    engine.take(template.document(1), 0)
    for partner, row in others.items():
        engine.put("location", partner, (Sent(1, 0, (row,)),), 0)

    def follow(seq: int, row: Row) -> frozenset[tuple[Any, ...]]:
        engine.put("location", ME, (Sent(seq, seq, (row,)),), seq)
        return frozenset((pair[1:], values) for pair, values in engine.results[template.name])

    return follow


def follow_with_evaluator(template: Template, others: dict[str, Row]) -> Follow:
    there = [(int(one), 1, read_time(0), *row) for one, row in others.items()]
    pairs: list[Row] = [(1, int(one)) for one in template.partners] or [(1,)]

    def follow(seq: int, row: Row) -> frozenset[tuple[Any, ...]]:
        tables = {"pairs": ZSet.of(pairs), "phones/location": ZSet.of([(1, seq, read_time(seq), *row), *there])}
        found = evaluate(template.program, tables, dt.datetime(2026, 1, 1)).items()
        sides = 2 if template.partners else 1
        return frozenset((tuple(map(str, one[1:sides])), one[sides:]) for one, _ in found)

    return follow


def follow_with_sqlite(template: Template, others: dict[str, Row]) -> Follow:
    database = sqlite3.connect(":memory:", isolation_level=None)
    names = ("x.lat", "x.lng", "y.lat", "y.lng")
    compiled: Callable[[Row], Any] = compile_expr(distance(), names)
    database.create_function("distance", 4, lambda *values: compiled(values), deterministic=True)
    database.execute("CREATE TABLE pairs (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID")
    database.execute("CREATE TABLE location (device INTEGER PRIMARY KEY, seq INTEGER, lat REAL, lng REAL)")
    database.executemany("INSERT INTO pairs VALUES (1, ?)", [(int(one),) for one in template.partners] or [(0,)])
    database.executemany("INSERT INTO location VALUES (?, 1, ?, ?)", [(int(one), *row) for one, row in others.items()])
    query = (
        "SELECT p.b, y.lat FROM pairs p JOIN location x ON x.device = p.a JOIN location y ON y.device = p.b"
        f" WHERE distance(x.lat, x.lng, y.lat, y.lng) < {NEAR_M!r}"
        if template.partners
        else f"SELECT x.lat FROM pairs p JOIN location x ON x.device = p.a WHERE x.lat > {NORTH!r}"
    )

    def follow(seq: int, row: Row) -> frozenset[tuple[Any, ...]]:
        database.execute("INSERT OR REPLACE INTO location VALUES (1, ?, ?, ?)", (seq, *row))
        found = database.execute(query).fetchall()
        sides = 1 if template.partners else 0
        return frozenset((tuple(map(str, one[:sides])), one[sides:]) for one in found)

    return follow


def time_ways(template: Template, rows: Sequence[Row], others: dict[str, Row]) -> dict[str, float]:
    """Rows per second of processor time by way; all ways must say the same after every row."""
    ways = {"engine": follow_with_engine, "SQLite": follow_with_sqlite, "evaluator": follow_with_evaluator}
    said, rates = {}, {}
    for name, make in ways.items():
        follow, count = make(template, others), EVALUATED if name == "evaluator" else len(rows)
        began = time.process_time()
        said[name] = [follow(seq, row) for seq, row in enumerate(rows[:count], 2)]
        rates[name] = count / (time.process_time() - began)
    assert said["engine"] == said["SQLite"], "the engine and SQLite differ"
    assert said["engine"][:EVALUATED] == said["evaluator"], "the engine and the evaluator differ"
    assert len(set(said["engine"])) > 1, "nothing ever changed"
    return rates


# A real device


class Hub:
    """The cloud, as far as one device needs it: documents, rows of partners, acknowledgements."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.hello_s: float | None = None
        self.took = 0
        self._mqtt = mqtt.Client(CallbackAPIVersion.VERSION2, "hub", protocol=mqtt.MQTTv311)
        self._mqtt.username_pw_set("~router", "hub")
        self._mqtt.on_message = self._receive
        self._mqtt.connect("127.0.0.1", broker.port)
        self._mqtt.subscribe(f"hr/{PROJECT}/up/#", qos=1)
        self._mqtt.loop_start()

    def tell(self, document: Document) -> None:
        body = write_document(sign(document, TOKEN))
        self._mqtt.publish(down_topic(PROJECT, ME, "plan"), body, qos=1, retain=True)

    def send_rows(self, others: dict[str, Row]) -> None:
        taken = [Taken(one, "location", Sent(1, 0, (row,))) for one, row in others.items()]
        self._mqtt.publish(down_topic(PROJECT, ME, "s"), write_taken(taken), qos=1)

    def close(self) -> None:
        self._mqtt.disconnect()
        self._mqtt.loop_stop()

    def _receive(self, client: mqtt.Client, data: Any, message: mqtt.MQTTMessage) -> None:
        if message.topic == up_topic(PROJECT, ME, "hello"):
            self.hello_s = time.monotonic()
        elif message.topic == up_topic(PROJECT, ME, "took"):
            self.took = json.loads(message.payload)["plan"]
        elif "/r/" in message.topic or "/s/" in message.topic:
            queue = "r/" + message.topic.rpartition("/")[2] if "/r/" in message.topic else "location"
            last = json.loads(message.payload)[-1][0]
            self._mqtt.publish(down_topic(PROJECT, ME, "ack"), json.dumps({queue: last}), qos=1)


@dataclass(frozen=True, slots=True)
class Measured:
    ready_s: float
    ready_cpu_s: float
    rss_mb: float
    rows_per_cpu_s: float
    rows_per_s: float
    results: int


@contextmanager
def open_hub(folder: Path) -> Iterator[tuple[EmbeddedBroker, Hub]]:
    broker = EmbeddedBroker(folder / "broker")
    broker.start([device_user(PROJECT, ME, TOKEN), cloud_user(PROJECT, "~router", "hub")])
    hub = Hub(broker)
    try:
        yield broker, hub
    finally:
        hub.close()
        broker.stop()


def run_device(template: Template, rows: Sequence[Row], others: dict[str, Row], folder: Path) -> Measured:
    with open_hub(folder) as (broker, hub):
        hub.tell(template.document(1))
        began = time.monotonic()
        process = _start(broker.url, folder)
        try:
            _wait(lambda: hub.hello_s is not None, "the device's hello")
            assert hub.hello_s is not None
            ready_s, ready_cpu_s = hub.hello_s - began, _cpu_s(process.pid)
            hub.send_rows(others)
            _wait(lambda: hub.took == 1, "the document to be taken")
            lines = b"".join(_line(row) for row in rows)
            before, begun = _cpu_s(process.pid), time.monotonic()
            assert process.stdin is not None
            process.stdin.write(lines)
            process.stdin.flush()
            _wait(lambda: _is_idle(process.pid), "all rows to be taken")
            cpu_s, passed_s = _cpu_s(process.pid) - before, time.monotonic() - begun
            rss_mb = _rss_mb(process.pid)
            process.stdin.close()
            results = (folder / "results").read_bytes().count(b"\n")
            process.wait(READY_WITHIN_S)
        finally:
            process.kill()
            process.wait()
    return Measured(ready_s, ready_cpu_s, rss_mb, len(rows) / cpu_s, len(rows) / passed_s, results)


def _line(row: Row) -> bytes:
    return json.dumps({"stream": "location", "row": {"lat": row[0], "lng": row[1]}}).encode() + b"\n"


def _start(url: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).parent / "headrace"), "device", "--id", ME, "--broker", url]
    with (folder / "results").open("wb") as results:
        return subprocess.Popen(
            [*command, "--state", str(folder / "state")],
            stdin=subprocess.PIPE,
            stdout=results,
            env={**os.environ, "HEADRACE_DEVICE_TOKEN": write_token(TOKEN, PROJECT)},
        )


def _wait(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + READY_WITHIN_S * 10
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} took longer than {READY_WITHIN_S * 10:.0f} s")
        time.sleep(0.002)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_idle(pid: int) -> bool:
    """Whether a process spends next to nothing: its clock alone looks ten times a second."""
    before = _cpu_s(pid)
    time.sleep(0.3)
    return _cpu_s(pid) - before <= 0.02


def _rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A device on one core.")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--partners", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    wishes = parser.parse_args(arguments)
    chance = random.Random(wishes.seed)
    walking = walk(chance)
    rows = [next(walking) for _ in range(wishes.rows)]
    print(f"{wishes.rows:,} rows, {wishes.partners} partners, seed {wishes.seed}; rows per second of processor time")
    print(f"{'':22}{'a filter':>12}{f'{wishes.partners} partners':>14}")
    found: dict[str, list[float]] = {}
    devices: list[Measured] = []
    for template in make_templates(wishes.partners):
        others = partner_rows(template.partners, chance)
        rates = time_ways(template, rows, others)
        with tempfile.TemporaryDirectory() as folder:
            devices.append(run_device(template, rows, others, Path(folder)))
        for name, rate in ({"headrace device": devices[-1].rows_per_cpu_s} | rates).items():
            found.setdefault(name, []).append(rate)
    for name, figures in found.items():
        print(f"{name:22}{figures[0]:12,.0f}{figures[1]:14,.0f}")
    print(f"{'engine / SQLite':22}" + "".join(f"{a / b:{w}.1f}" for a, b, w in zip(found["engine"], found["SQLite"], (12, 14), strict=True)))  # fmt: skip  # noqa: E501
    print(f"{'rows per second':22}" + "".join(f"{one.rows_per_s:{w},.0f}" for one, w in zip(devices, (12, 14), strict=True)))  # fmt: skip  # noqa: E501
    print(f"{'results':22}" + "".join(f"{one.results:{w},}" for one, w in zip(devices, (12, 14), strict=True)))
    last = devices[-1]
    print(f"ready after {last.ready_s:.2f} s ({last.ready_cpu_s:.2f} s of processor time), {last.rss_mb:.0f} MB")


if __name__ == "__main__":
    main()
