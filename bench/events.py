"""What do events add to the commits of pushes, and for how long are they kept at a million pushes a day?

    python -m bench.events [--commits 3000]

Commits rounds of twelve datasets to a ledger in SQLite, by turns with and without their event, and prints how long a
commit of each kind takes, how large the file becomes, and how long 80 MB of events last. Then asks the full ledger for
the last events as people do.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from headrace.connect.ledger.event_rows import ROW_BYTES
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.event_wire import EventsAsked, write_event
from headrace.model.events import ServiceStarted
from headrace.model.log import Commit, Edit, Lease
from headrace.model.push_events import DatasetsPushed, Use
from headrace.run.ports import Ledger
from headrace.site.journal import KEEP_ROUTINE_BYTES

DATASETS = 12
PUSHES_A_DAY = 1_000_000
MANY = 200_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--commits", type=int, default=3000, help="of each kind")
    commits = arguments.parse_args().commits
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.db"
        ledger = open_sqlite(file)
        lease = ledger.acquire("service", "bench", 1e9)
        print(f"{commits} commits of each kind, {DATASETS} datasets in each, by turns; synchronous, as always")
        plain, told = _compare(ledger, lease, commits)
        ratios = [b / a for a, b in zip(plain, told, strict=True)]
        print(f"  without events  {1e3 * statistics.median(plain):6.3f} ms (median)")
        print(f"  with events     {1e3 * statistics.median(told):6.3f} ms, ratio {statistics.median(ratios):.3f}")
        _tell_sizes(ledger, lease, file)
        ledger.close()


def _compare(ledger: Ledger, lease: Lease, commits: int) -> tuple[list[float], list[float]]:
    names = [f"d:dataset {number}@us~b600ec" for number in range(DATASETS)]
    ledger.commit(lease, Commit(tuple(Edit(name, None, 0, site="us") for name in names)))
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * commits):
        edits = tuple(Edit(name, number, number + 1) for name in names)
        events = (_event(number, 3),) if number % 2 else ()
        began = time.perf_counter()
        ledger.commit(lease, Commit(edits, events=events))
        seconds[number % 2].append(time.perf_counter() - began)
    return seconds


def _event(number: int, contracts: int) -> DatasetsPushed:
    used = {f"contract_{one}": Use(0.0123456, 1234.567, cost=1.234567e-06) for one in range(contracts)}
    at = 1_700_000_000_000_000 + number
    return DatasetsPushed(at, DATASETS, 1234, 123456, 0.123456, tuple(used), used)


def _tell_sizes(ledger: Ledger, lease: Lease, file: Path) -> None:
    for contracts in (1, 3, 10):
        size = len(write_event(_event(1, contracts))) + ROW_BYTES
        days = KEEP_ROUTINE_BYTES / size / (PUSHES_A_DAY / DATASETS)
        print(f"  a commit for {contracts:2} contracts is {size:5} bytes of events: 80 MB last {days:.1f} days")
    before = file.stat().st_size
    ledger.commit(lease, Commit(events=(ServiceStarted(1, 1), *(_event(number, 3) for number in range(MANY)))))
    ledger.commit(lease, Commit(events=(ServiceStarted(2, 1),)))
    with_rest = sum(one.stat().st_size for one in file.parent.iterdir())
    taken = max(file.stat().st_size, with_rest / 2) - before
    counted = MANY * (len(write_event(_event(1, 3))) + ROW_BYTES)
    print(f"{MANY} such commits take {taken / 1e6:.0f} MB of file; counted as {counted / 1e6:.0f} MB")
    for what, asked in {
        "the last 50": EventsAsked(latest=True),
        "the last 50 with pushes": EventsAsked(latest=True, routine=True),
        "those of a contract that nothing names": EventsAsked(latest=True, routine=True, contract="nobody"),
    }.items():
        began = time.perf_counter()
        found = ledger.events(asked)
        print(f"  {what}: {len(found)} events in {1e3 * (time.perf_counter() - began):.1f} ms")


if __name__ == "__main__":
    main()
