"""Runs work items as one Spark job, inside Spark's Python workers.

A job costs the same whether it has one item or thirty, so whatever is due together runs together. Items enter as a few
groups of about equal weight, the heaviest first; what they make is in files, and only names come back.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.connect.marks import mark_item
from headrace.connect.spark.properties import CORES
from headrace.connect.spark.session import JAVA_GONE, is_alive
from headrace.connect.spark.standing import WORKER_ENDED
from headrace.model.errors import ConnectError
from headrace.run.push.items import Item, ItemOutcome, attempt, describe, group_by_weight

Made = TypeVar("Made")

GROUPS_PER_CORE = 2
"""So that a core which is done early takes work from the others."""
HEAVY_MODULES = ("numpy", "pyarrow", "pyarrow.compute", "headrace.meaning.evaluate")
CALLED, CAUSED = "An error occurred while calling", "Caused by: "
JOB_DIED = (PySparkException, *JAVA_GONE)


@dataclass(frozen=True, slots=True)
class SparkRunner(Generic[Made]):
    """`perform` is a function of a module that Spark's workers can import. May be used by several threads at once."""

    session: SparkSession
    perform: Callable[..., Made]

    def run(self, items: Sequence[Item], marks: Sequence[Path] | None = None) -> list[ItemOutcome[Made]]:
        """When the job dies as a whole, as it does with one of its workers, every item may be tried again.

        Each item has its mark, a file, while it is in work.
        """
        started = time.perf_counter()
        try:
            return self._job(items, marks) if items else []
        except Exception as error:  # with a Java that is being replaced, anything
            alive = is_alive(self.session)
            if alive and not isinstance(error, JOB_DIED):
                raise
            words = in_words(error) if alive else "Spark's Java no longer answers"
            reason, seconds = f"{words}\n{describe(error)}", time.perf_counter() - started
            return [ItemOutcome(item.name, None, reason, seconds, retryable=True) for item in items]

    def _job(self, items: Sequence[Item], marks: Sequence[Path] | None) -> list[ItemOutcome[Made]]:
        groups = group_by_weight([item.weight for item in items], GROUPS_PER_CORE * cores(self.session))
        pickled = [[(n, items[n].name, pickle.dumps(items[n])) for n in group] for group in groups]
        made = run_groups(self.session, self.perform, pickled, marks)
        return [pickle.loads(made[position]) for position in range(len(items))]


def in_words(error: Exception) -> str:
    """Why a job died: a line without Java's."""
    said = str(error).strip() or type(error).__name__
    if "Python worker exited unexpectedly" in said:
        return WORKER_ENDED
    # Of a Java error, the first line names what was called, the second what happened, and later ones why.
    lines = [line.strip().removeprefix(": ") for line in said.splitlines() if not line.startswith(CALLED)]
    causes = [line.removeprefix(CAUSED) for line in lines if line.startswith(CAUSED)]
    return f"a job of Spark died: {(causes[-1:] or lines[:1] or [said])[0]}"


def cores(session: SparkSession) -> int:
    """How many tasks run at a time, beside standing ones."""
    context = session.sparkContext
    told = context.getConf().get(CORES)
    return context.defaultParallelism if told is None else int(told)


def run_groups(
    session: SparkSession,
    perform: Callable[..., object],
    groups: list[list[tuple[int, str, bytes]]],
    marks: Sequence[Path] | None = None,
) -> dict[int, bytes]:
    """Pickled outcomes of numbered, named, pickled items; a task for each group, started in the order of the groups."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for position, name, pickled in groups[group]:
                    with mark_item(None if marks is None else marks[position]):
                        outcome = attempt(perform, name, pickled)
                    yield pa.record_batch({"position": [position], "outcome": pa.array([outcome], pa.binary())})

    # Groups travel with the function: sent as rows they would have to be shuffled to get one partition each.
    numbers = session.range(0, len(groups), 1, len(groups))
    made = numbers.mapInArrow(work, "position bigint, outcome binary").toArrow()
    return dict(zip(made["position"].to_pylist(), made["outcome"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class _Imports:
    """An item that leaves its worker with modules loaded."""

    name: str
    modules: tuple[str, ...]
    weight: float = 1.0


def warm_up(session: SparkSession, modules: tuple[str, ...] = HEAVY_MODULES) -> float:
    """Starts the Python workers and lets them import what items need, before anybody waits for it; seconds."""
    started = time.perf_counter()
    items = [_Imports(f"warm up {number}", modules) for number in range(GROUPS_PER_CORE * cores(session))]
    for outcome in SparkRunner(session, _import).run(items):
        if outcome.error is not None and outcome.retryable:
            raise ConnectError(outcome.error.splitlines()[0], hint="it may work the next time")
        if outcome.error is not None:
            raise ConnectError(
                f"Spark's Python workers cannot import what they need: {outcome.error.splitlines()[0]}",
                hint="they run on the Python of this process; is the package installed where the executors are?",
            )
    return time.perf_counter() - started


def _import(item: _Imports) -> None:
    for module in item.modules:
        import_module(module)
