"""Evaluates queries by Spark over tables in Parquet files, into Parquet files: no rows pass through this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from headrace.connect.files import FileStore
from headrace.connect.spark.evaluate import ParquetTable, SparkEvaluator
from headrace.connect.spark.recompute import check_types, open_query
from headrace.connect.spark.say_error import errors_in_words
from headrace.connect.spark.session import JAVA_GONE
from headrace.meaning.scalar_time import from_micros
from headrace.model.errors import ConnectError
from headrace.model.full_query import FullQuery
from headrace.model.relation import Relation
from headrace.model.types import Array, Value


@dataclass(frozen=True, slots=True)
class FileEvaluator:
    """`python` has the functions that a project declares, by `NAME@VERSION`."""

    session: SparkSession
    python: Mapping[str, Callable[..., Value]] = field(default_factory=dict)

    def evaluate(self, query: Relation | FullQuery, tables: Mapping[str, ParquetTable], t: int, answer: Path) -> None:
        """Writes the rows of a query over tables (by source) as of a time, microseconds, to a new folder."""
        own = self.session.newSession()
        own.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        with _reasons():
            if isinstance(query, FullQuery):
                frames = {source: _in_order(tables[source].frame(own), tables[source]) for source in query.reads}
                with open_query(own, query, frames) as frame:
                    check_types(frame, query.fields)
                    _write(frame, answer)
            else:
                evaluator = SparkEvaluator(own, FileStore(answer), self.python, from_micros(t))
                with evaluator.query(query, tables) as frame:
                    _write(frame, answer)


def _in_order(frame: DataFrame, table: ParquetTable) -> DataFrame:
    """Sorts rows as `operators.recompute.in_order` does: what a query leaves open depends on nothing but the rows."""
    sortable = sorted(name for name, type_ in table.columns if not isinstance(type_, Array))
    order = [fn.col(f"c{table.position(name)}").asc_nulls_last() for name in sortable]
    sorted_ = frame.coalesce(1).sortWithinPartitions(*order) if order else frame.coalesce(1)
    return sorted_.toDF(*(name for name, _ in table.columns))


def _write(frame: DataFrame, answer: Path) -> None:
    """Writes rows, with their columns by position."""
    frame.toDF(*(f"c{position}" for position in range(len(frame.columns)))).write.parquet(str(answer))


@contextmanager
def _reasons() -> Iterator[None]:
    """What Spark raises as what it means: a row without an answer, or a Spark that is gone."""
    try:
        with errors_in_words():
            yield
    except JAVA_GONE as error:
        raise ConnectError("Spark ended while it evaluated a query", "is there enough memory?") from error


def tasks_of(session: SparkSession) -> tuple[int, int]:
    """How many tasks of the stages that run now are done, and of how many."""
    try:
        tracker = session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (AttributeError, *JAVA_GONE):
        return 0, 0
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
