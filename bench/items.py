"""What do standing tasks save for 30 small work items, compared with one Spark job, and with a job for each?

    python -m bench.items

Prints wall and CPU seconds (of this process, the JVM and the Python workers), the best of several rounds after a
warm-up, and the cores that standing tasks take while nothing is to be done. Items do nothing, so this is the fixed cost
alone.
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
from headrace.connect.spark.standing import StandingTasks
from headrace.run.push.items import ItemOutcome

ITEMS, ROUNDS = 30, 5
STANDING, IDLE_S = 2, 10.0


@dataclass(frozen=True, slots=True)
class Nothing:
    name: str
    weight: float = 1.0


def nothing(item: Nothing) -> str:
    return item.name


def main() -> None:
    items = [Nothing(f"item {number}") for number in range(ITEMS)]
    with tempfile.TemporaryDirectory() as scratch:
        session = start_session(SparkSettings(Path(scratch), standing=STANDING))
        print(f"warm-up {warm_up(session):.1f} s; {os.cpu_count()} cores; best of {ROUNDS} rounds of {ITEMS} items")
        runner = SparkRunner(session, nothing)
        print(f"{'':16}{'wall s':>8}{'cpu s':>8}{'cpu ratio':>12}")
        one = _best(lambda: runner.run(items), items)
        many = _best(lambda: [outcome for item in items for outcome in runner.run([item])], items)
        idle_without = _measure_idle()
        tasks = StandingTasks(session, nothing, lambda: STANDING)
        tasks.wait_until_there(60)
        standing = _best(lambda: _hand_in(tasks, items), items)
        each = _best(lambda: [outcome for item in items for outcome in _hand_in(tasks, [item])], items)
        idle = _measure_idle()
        ways = {"a job each": many, "one job": one, "standing, each": each, "standing, all": standing}
        for name, (wall, cpu) in ways.items():
            print(f"{name:16}{wall:8.4f}{cpu:8.4f}{cpu / one[1]:12.4f} of one job")
        print(f"idle: {idle:.4f} cores with standing tasks, {idle_without:.4f} without")
        tasks.close()
        session.stop()


def _hand_in(tasks: StandingTasks[str], items: list[Nothing]) -> list[ItemOutcome[str]]:
    return [one.result() for one in tasks.hand_in("bench", list(enumerate(items)))]


def _measure_idle() -> float:
    before = processes()
    time.sleep(IDLE_S)
    return cpu_since(before) / IDLE_S


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
