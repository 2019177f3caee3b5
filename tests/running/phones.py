"""A project of `examples/` that runs with real phones, and an oracle that knows all that they published.

The oracle is DuckDB: it runs the text of the view for each pair by itself, over what was recorded before it was sent.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv

from bench.devices_oracle import Difference, Oracle, Published, find_difference
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.postgres.sample import make_databases
from headrace.doors.cli import main
from headrace_device import Device, DeviceResult

EXAMPLES = Path(__file__).parents[2] / "examples"
RIGHT_WITHIN_S = 60.0
DAY_MS = 86_400_000


@dataclass
class RunningPhones:
    """`tables` are as DuckDB reads them; `streams` have what each phone has published, in its order."""

    folder: Path
    out: pytest.CaptureFixture[str]
    tables: Mapping[str, pa.Table]
    streams: Mapping[str, Published]
    keep_ms: Mapping[str, int] = field(default_factory=dict)
    phones: dict[int, Device] = field(default_factory=dict)
    heard: list[tuple[int, DeviceResult]] = field(default_factory=list)

    def headrace(self, *words: str, status: int | None = 0) -> Any:
        """A command's document; with any status if that is None."""
        self.out.readouterr()
        ended = main.run([*words, "--json"])
        said, complaints = self.out.readouterr()
        assert status is None or ended == status, f"{words}: {said}{complaints}"
        return json.loads(said)

    def up(self) -> None:
        self.headrace("up", str(self.folder), "--detach", "--engine=local")

    def connect(self, uids: Sequence[int]) -> None:
        told = self.headrace("devices", "tokens", *map(str, uids), "--directory", str(self.folder))
        tokens = {int(one["device"]): one["token"] for one in told["devices"]}
        for uid in uids:
            phone = Device(
                str(uid), f"{self.broker}/{self.project}", tokens[uid], state=self.folder / "phones" / str(uid)
            )
            phone.on_result(partial(self._hear, uid))
            self.phones[uid] = phone

    def _hear(self, uid: int, result: DeviceResult) -> None:
        self.heard.append((uid, result))

    @property
    def project(self) -> str:
        return self.folder.name

    @property
    def broker(self) -> str:
        file, end = self.folder / ".headrace" / "devices" / "broker.json", time.monotonic() + RIGHT_WITHIN_S
        while not file.exists():
            assert time.monotonic() < end, "the service has no broker"
            time.sleep(0.1)
        return f"mqtt://127.0.0.1:{json.loads(file.read_text())['port']}"

    def publish(self, uid: int, stream: str, row: Mapping[str, Any], at_ms: int | None = None) -> None:
        """Written down first, then published."""
        published = self.streams[stream]
        at_ms = at_ms or time.time_ns() // 1_000_000
        seq = 1 + sum(1 for device, *_ in published.rows if device == uid)
        published.add(uid, seq, at_ms, [row[name] for name in published.columns])
        self.phones[uid].publish(stream, row, at_ms)

    def show(self, view: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.headrace("show", view, str(self.folder))["rows"]]

    def expect(self, view: str, pairs: Sequence[tuple[int, ...]]) -> list[tuple[Any, ...]]:
        views = {file.stem: file.read_text() for file in sorted((self.folder / "views").glob("*.sql"))}
        now_ms = time.time_ns() // 1_000_000
        oracle = Oracle(self.streams, self.tables, {name: now_ms - kept for name, kept in self.keep_ms.items()})
        try:
            return [tuple(map(_as_json, row)) for row in oracle.ask_pair_by_pair(views, view, pairs)]
        finally:
            oracle.close()

    def find_difference(self, view: str, pairs: Sequence[tuple[int, ...]]) -> Difference:
        return find_difference(self.expect(view, pairs), self.show(view))

    def until_right(self, view: str, pairs: Sequence[tuple[int, ...]]) -> list[tuple[Any, ...]]:
        """Returns the rows once they are what the oracle says."""
        until = time.monotonic() + RIGHT_WITHIN_S
        while difference := self.find_difference(view, pairs):
            assert time.monotonic() < until, f"{view}: {difference.say()}"
            time.sleep(0.3)
        return self.show(view)

    def count_on_devices(self, template: str) -> int:
        told = self.headrace("status", str(self.folder))["templates"]
        return int(next(one["on_devices"] for one in told if one["id"] == template))

    def find_placed(self, uids: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs that run on a phone: whose it is, and the other one."""
        found = []
        for uid in uids:
            told = self.headrace("devices", "plan", str(uid), "--directory", str(self.folder))
            found += [(uid, int(partner)) for run in told["run"] for partner in run["partners"]]
        return found

    def down(self) -> None:
        for phone in self.phones.values():
            phone.close()
        main.run(["down", str(self.folder)])


def _as_json(value: Any) -> Any:
    """As `show --json` writes it."""
    return value.isoformat(timespec="microseconds") + "Z" if isinstance(value, dt.datetime) else value


@contextmanager
def running_example(
    name: str, tmp_path: Path, out: pytest.CaptureFixture[str], streams: Mapping[str, Published], **more: Any
) -> Iterator[RunningPhones]:
    """An example whose tables are files of its own folder."""
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns(".headrace"))
    tables = {part.name: csv.read_csv(next(part.glob("*.csv"))) for part in sorted((folder / "tables").glob("*"))}
    made = RunningPhones(folder, out, tables, streams, **more)
    try:
        made.up()
        yield made
    finally:
        made.down()


def make_sample_databases(server: EmbeddedPostgres, name: str) -> Mapping[str, str]:
    """The databases of an example, as variables."""
    made = make_databases(server, EXAMPLES / name / "databases")
    return {f"{database.upper()}_DSN": address for database, address in made.items()}
