"""What do checksums add to a push and to a lookup, compared with files as version 0.2 wrote and read them?

    python -m bench.checksums

CPU seconds of this process. Both run in turn in one process, on a disk in memory; the median of several rounds. A push
goes through capture, join and aggregate, in the engine of this process; what it makes is compared with the queries.
`cold` is a process that reads a file for the first time, `warm` one that has read it before.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.connect.checksums import forget_known
from headrace.connect.files import FileStore
from headrace.meaning.zset import ZSet
from headrace.model.log import StoredFile
from headrace.run.logs.key_index import KeyIndex, make_indexes
from headrace.site.scrub import LOOK_EVERY_S, RATE, Scrub
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.run.test_engine import world_of

VIEWS = ["SELECT r.name, s.label FROM r JOIN s ON r.k = s.k", "SELECT r.k, count(*) AS c FROM r GROUP BY r.k"]
ROUNDS, PUSHES = 7, 30
SIZES = (10, 100, 1_000)
INDEX_ROWS = (5_000, 50_000, 1_000_000)
LOOKUPS, KEYS = 50, 10


@dataclass(frozen=True, slots=True)
class PlainStore(FileStore):
    """Files without checksums, mapped, as version 0.2 had them."""

    def write(self, site: str, table: pa.Table, hint: str, durable: bool = True) -> StoredFile:
        folder = self._folder(site)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{hint.replace('/', '_').replace(':', '_')}-{os.urandom(16).hex()}.arrow"
        unfinished = folder / f".{name}.unfinished"
        table = table.combine_chunks()
        with unfinished.open("xb") as file:
            with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=None)) as writer:
                writer.write_table(table)
            file.flush()
            if durable:
                os.fsync(file.fileno())
            size = file.tell()
        unfinished.rename(folder / name)
        return StoredFile(name, size, None)

    def read(self, site: str, file: StoredFile, columns: Sequence[str] | None = None, whole: bool = True) -> pa.Table:
        with pa.memory_map(str(self._folder(site) / file.file)) as source:
            if columns is None:
                return pa.ipc.open_file(source).read_all()
            schema = pa.ipc.open_file(source).schema
            fields = [schema.get_field_index(name) for name in columns]
            chosen = pa.ipc.IpcReadOptions(included_fields=fields)
            return pa.ipc.open_file(source, options=chosen).read_all().select(list(columns))


Kind = type[FileStore]


def main() -> None:
    print(f"{os.cpu_count()} cores, median of {ROUNDS} rounds\n")
    print(f"{'push of':>16} {'without':>11} {'with':>11} {'ratio':>7} {'spread':>13}")
    for rows in SIZES:
        _show(f"{rows} rows", lambda kind, rows=rows: _push_cpu(kind, rows))  # type: ignore[misc]
    print(f"\n{'lookup in':>16} {'without':>11} {'with':>11} {'ratio':>7} {'spread':>13}")
    for rows in INDEX_ROWS:
        for state in ("cold", "warm"):
            measure = lambda kind, rows=rows, state=state: _lookup_cpu(kind, rows, state == "cold")  # noqa: E731
            _show(f"{rows} rows {state}", measure)
    _show_scrub()


def _show(what: str, measure: Callable[[Kind], float]) -> None:
    pairs = [(measure(PlainStore), measure(FileStore)) for _ in range(ROUNDS)]
    without, with_ = (statistics.median(one) for one in zip(*pairs, strict=True))
    ratios = sorted(after / before for before, after in pairs)
    spread = f"{ratios[0]:.2f}..{ratios[-1]:.2f}"
    print(f"{what:>16} {without * 1e3:8.3f} ms {with_ * 1e3:8.3f} ms {with_ / without:7.2f} {spread:>13}")


def _push_cpu(kind: Kind, rows: int) -> float:
    """Seconds of a push of so many new rows, with capturing them."""
    with quick_folder() as folder:
        world = world_of(VIEWS, "m1", Path(folder))
        world.store = kind(world.folder / "data")
        world.open()
        world.capture({"s": ZSet([((n, n, None, "x", None), 1) for n in range(200)])})
        world.engine.load()
        spent = 0.0
        for number in range(PUSHES):
            world.capture({"r": ZSet([(_row(number * rows + n), 1) for n in range(rows)])})
            before = time.process_time()
            pushed = world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now))
            spent += time.process_time() - before
            assert all(one.error is None for one in pushed)
        assert rows > 100 or world.wrong() == []
        return spent / PUSHES


def _row(n: int) -> tuple[object, ...]:
    return n, n % 200, 1, 1.0, None, f"name {n}", None, None, True


def _lookup_cpu(kind: Kind, rows: int, cold: bool) -> float:
    """Seconds of opening an index and looking up some keys."""
    with quick_folder() as folder:
        store = kind(Path(folder))
        numbers = np.arange(rows, dtype=np.int64)
        table = pa.table({"k": numbers, "a": numbers, "b": numbers.astype(float), "c": [f"text {n}" for n in numbers]})
        (index,) = make_indexes(table, ["k"], 1)
        file = store.write("us", index, "index", durable=False)
        probe = pa.table({"k": np.random.default_rng(1).integers(0, rows, KEYS)})
        spent = 0.0
        for _ in range(LOOKUPS):
            if cold:
                forget_known()
            before = time.process_time()
            _, met = KeyIndex(("k",), (store.read("us", file, whole=False),)).meet(probe, ["k"])
            spent += time.process_time() - before
            assert met.num_rows == KEYS
        return spent / LOOKUPS


def _show_scrub() -> None:
    """What the scrub takes of a core, with the files of a few hundred pushes."""
    with quick_folder() as folder:
        world = world_of(VIEWS, "m1", Path(folder))
        _fill(world)
        scrub = Scrub(world.ledger, world.lease, world.store, threading.Event(), lambda: None)
        look_s, check_s = _cpu_of(scrub.look), _cpu_of(lambda: scrub.check(100.0 * RATE)) / 100.0
        found = scrub.progress
        share = look_s / LOOK_EVERY_S + check_s
        print(f"\nscrub of {found.files} files with {found.bytes / 1e6:.1f} MB: {100 * share:.2f} % of a core")
        print(f"  a look {look_s * 1e3:.1f} ms every {LOOK_EVERY_S:.0f} s, checking {check_s * 1e3:.2f} ms a second")
        print(f"  once round in {found.round_s:.0f} s")


def _fill(world: RunningWorld) -> None:
    world.capture({"s": ZSet([((n, n, None, "x", None), 1) for n in range(200)])})
    world.engine.load()
    for number in range(400):
        world.capture({"r": ZSet([(_row(number * 20 + n), 1) for n in range(20)])})
        world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now))


def _cpu_of(act: Callable[[], object]) -> float:
    before = time.process_time()
    act()
    return time.process_time() - before


if __name__ == "__main__":
    main()
