"""What does running 30 small work items as one Spark job save, compared with a job for each?

    python -m bench.items

Prints wall and CPU seconds (of this process, the JVM and the Python workers), the best of several rounds after a
warm-up. Items do nothing, so this is the fixed cost alone.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.cpu import cpu_since, processes
from headrace.connect.spark.items import SparkRunner, warm_up
from headrace.connect.spark.properties import SparkSettings
from headrace.connect.spark.session import start_session
from headrace.run.push.items import ItemOutcome

ITEMS, ROUNDS = 30, 5


@dataclass(frozen=True, slots=True)
class Nothing:
    name: str
    weight: float = 1.0


def nothing(item: Nothing) -> str:
    return item.name


def main() -> None:
    items = [Nothing(f"item {number}") for number in range(ITEMS)]
    with tempfile.TemporaryDirectory() as scratch:
        session = start_session(SparkSettings(Path(scratch)))
        print(f"warm-up {warm_up(session):.1f} s; {os.cpu_count()} cores; best of {ROUNDS} rounds of {ITEMS} items")
        runner = SparkRunner(session, nothing)
        print(f"{'':16}{'wall s':>8}{'cpu s':>8}")
        one = _best(lambda: runner.run(items), items)
        many = _best(lambda: [outcome for item in items for outcome in runner.run([item])], items)
        for name, (wall, cpu) in {"one job": one, f"{ITEMS} jobs": many}.items():
            print(f"{name:16}{wall:8.3f}{cpu:8.3f}")
        print(f"{'ratio':16}{many[0] / one[0]:8.1f}{many[1] / one[1]:8.1f}")
        session.stop()


def _best(run: Callable[[], list[ItemOutcome[str]]], items: list[Nothing]) -> tuple[float, float]:
    found = []
    for _ in range(ROUNDS):
        wall, before = time.perf_counter(), processes()
        outcomes = run()
        found.append((time.perf_counter() - wall, cpu_since(before)))
        assert [outcome.value for outcome in outcomes] == [item.name for item in items], outcomes
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


if __name__ == "__main__":
    # Workers have to find items under the name of this module.
    from bench import items

    items.main()
