"""Runs jobs that can be cancelled. Each item goes where it is done at the least cost:

    a small item            a standing task, if one is there (`standing.py`)
    an item that needs      this process, which has Spark evaluate a query
    the session
    any other               an ordinary job of Spark, in its Python workers

An ordinary job has a tag, by which Spark cancels it: tasks are interrupted, and a Python worker that does not stop is
killed two seconds later (`spark.python.task.killTimeout`).
"""

from __future__ import annotations

import pickle
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.connect.marks import MarkingStore, mark_item, read_marks
from headrace.connect.spark.items import SparkRunner
from headrace.connect.spark.recompute import SparkEvaluate
from headrace.connect.spark.session import is_alive
from headrace.connect.spark.standing import StandingTasks
from headrace.run.load.load_work import LoadItem
from headrace.run.push.items import Item, ItemOutcome, attempt


@dataclass(frozen=True, slots=True)
class SparkJobs:
    """`marks` is a folder that workers can write to; `java` is the process that can be killed."""

    workers: SparkRunner[Any]
    needs_session: Callable[[Item], bool]
    marks: Path
    java: subprocess.Popen[bytes] | None
    standing: StandingTasks[Any] | None = None
    is_small: Callable[[Item], bool] = lambda _: False
    """Whether an item may go to a standing task: a large one would keep others waiting there."""

    @property
    def session(self) -> SparkSession:
        return self.workers.session

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        """A job that nobody will tell to end."""
        return self.run_job("untimed", items)

    def run_job(self, job: str, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        small = self._find_small(items)
        standing = self.standing.hand_in(job, [(number, items[number]) for number in small]) if self.standing else []
        large = {number: item for number, item in enumerate(items) if number not in small}
        done = self._run_large(job, large) if large else {}
        done |= {number: outcome.result() for number, outcome in zip(small, standing, strict=True)}
        return [done[number] for number in range(len(items))]

    def _find_small(self, items: Sequence[Item]) -> list[int]:
        """Those for standing tasks."""
        if self.standing is None or not self.standing.is_there():
            return []
        return [n for n, item in enumerate(items) if self.is_small(item) and not self.needs_session(item)]

    def _run_large(self, job: str, items: Mapping[int, Item]) -> dict[int, ItemOutcome[Any]]:
        folder = self.marks / job
        folder.mkdir(parents=True, exist_ok=True)
        marks = {number: folder / str(number) for number in items}
        marking = {number: _mark_progress(item, marks[number]) for number, item in items.items()}
        here = [number for number, item in items.items() if self.needs_session(item)]
        there = [number for number in items if number not in here]
        try:
            # Tags belong to the thread: all of the job has to be started from this one, or `end_job` misses a part.
            self._tag(job)
            worked = self.workers.run([marking[number] for number in there], [marks[number] for number in there])
            done = dict(zip(there, worked, strict=True))
            # After the workers, not beside them: what is driven from here shares this thread's tag and the session.
            return done | {number: self._drive(marking[number], marks[number]) for number in here}
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def in_work(self, job: str) -> Mapping[int, object]:
        standing = {} if self.standing is None else self.standing.in_work(job)
        return {**read_marks(self.marks / job), **standing}

    def end_job(self, job: str) -> None:
        if self.standing is not None:
            self.standing.end_job(job)
        self.session.sparkContext.cancelJobsWithTag(job)

    def answers(self) -> bool:
        return is_alive(self.session)

    def kill(self) -> None:
        if self.java is not None:
            self.java.kill()

    def _tag(self, job: str) -> None:
        """All that this thread has Spark do from now on. With a Java that has died, what follows says so."""
        context = self.session.sparkContext
        try:
            context.addJobTag(job)
            context.setInterruptOnCancel(True)
        except Exception:
            if is_alive(self.session):
                raise

    def _drive(self, item: Item, mark: Path) -> ItemOutcome[Any]:
        """A failure of Spark's own may be tried again with another session."""
        perform = partial(self.workers.perform, evaluate=SparkEvaluate(self.session))
        with mark_item(mark):
            outcome: ItemOutcome[Any] = pickle.loads(attempt(perform, item.name, pickle.dumps(item)))
        failed = outcome.value is None and not is_alive(self.session)
        return replace(outcome, retryable=True) if failed else outcome


def _mark_progress(item: Item, mark: Path) -> Item:
    """Has a load mark its progress: it may take long, and the thread that waits for it must see that it moves on."""
    return replace(item, store=MarkingStore(item.store, mark)) if isinstance(item, LoadItem) else item
