"""Evaluates queries of views that are recomputed, from this process: workers of Spark have no session.

    tables -> temporary views of a session of its own -> the query as it is written -> its answer, in the types that
    the view's columns have

A query that is understood is evaluated by what it means; small ones need no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headrace.connect.spark.evaluate_tables import evaluate_tables
from headrace.connect.spark.items import cores
from headrace.connect.spark.say_error import errors_in_words, say_error
from headrace.meaning.python_functions import Functions, surroundings_of
from headrace.model.errors import EvaluationError
from headrace.model.full_query import SOURCE_PREFIX, FullQuery, backquote
from headrace.model.relation import Field
from headrace.model.types import INTEGERS
from headrace.run.push.evaluate_here import SMALL_ROWS, evaluate_here
from headrace.run.rows.arrow import NO_SUCH_TIME, arrow_type, has_no_such_time

PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class SparkEvaluate:
    """May be used by several threads at once."""

    session: SparkSession

    def __call__(self, recomputed: FullQuery, tables: Mapping[str, pa.Table], t: int, functions: Functions) -> pa.Table:
        if recomputed.query is None:
            return self._as_written(recomputed, tables)
        if sum(table.num_rows for table in tables.values()) <= SMALL_ROWS:
            return evaluate_here(recomputed, tables, t, functions)
        return evaluate_tables(self._beside_others(), recomputed.query, tables, t, surroundings_of(functions).python)

    def _beside_others(self) -> SparkSession:
        """A session whose stages leave a core free, if there are two: Spark takes none away from a task that has it,
        and pushes of other views would wait for as long as a stage of this query takes.
        """
        own = self.session.newSession()
        wanted = int(own.conf.get(PARTITIONS) or 1)
        own.conf.set(PARTITIONS, str(min(wanted, max(1, cores(own) - 1))))
        return own

    def _as_written(self, recomputed: FullQuery, tables: Mapping[str, pa.Table]) -> pa.Table:
        own = self._beside_others()
        with errors_in_words():
            frames = {source: _frame(own, source, tables[source]) for source in recomputed.reads}
            with open_query(own, recomputed, frames) as frame:
                return _answer(frame, recomputed.fields)


@contextmanager
def open_query(session: SparkSession, query: FullQuery, frames: Mapping[str, DataFrame]) -> Iterator[DataFrame]:
    """The query as it is written, over sources; the names that it uses live until it has run."""
    names = {source: f"{SOURCE_PREFIX}{source}" for source in query.reads}
    try:
        for source, name in names.items():
            frames[source].createOrReplaceTempView(backquote(name))
        yield session.sql(query.sql)
    except AnalysisException as error:
        raise EvaluationError(f"Spark rejects the query: {say_error(error)}") from error
    finally:
        for name in names.values():
            session.catalog.dropTempView(name)


def _frame(session: SparkSession, source: str, table: pa.Table) -> DataFrame:
    """A frame of one partition: rows keep their order, so that what a query leaves open depends on nothing but the
    rows.
    """
    named = table.rename_columns([name.removeprefix(f"{source}.") for name in table.column_names])
    return session.createDataFrame(named).coalesce(1)


def _answer(frame: DataFrame, fields: Sequence[Field]) -> pa.Table:
    """The answer, with columns by position: names are those of the view."""
    check_types(frame, fields)
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in fields])
    answer = frame.toArrow().rename_columns(schema.names).cast(schema)
    for name in schema.names:
        if has_no_such_time(answer.column(name)):
            raise EvaluationError(f'column "{name}" has {NO_SUCH_TIME}')
    return answer


def check_types(frame: DataFrame, fields: Sequence[Field]) -> None:
    """Raises EvaluationError if an answer has other columns than its view."""
    types = [column.dataType.simpleString() for column in frame.schema.fields]
    if len(types) != len(fields):
        raise EvaluationError(f"Spark gives {len(types)} columns, the view has {len(fields)}")
    for type_, column in zip(types, fields, strict=True):
        if not _fits(type_, column):
            raise EvaluationError(
                f'column "{column.name}" is {type_} in Spark and {column.type} in the view: write its type with CAST'
            )


def _fits(type_: str, column: Field) -> bool:
    """Whether all values of a type of Spark's are values of the column's: its own, or a narrower integer."""
    integers = [str(one) for one in INTEGERS]
    if type_ in integers and column.type in INTEGERS:
        return integers.index(type_) <= integers.index(str(column.type))
    return type_ == str(column.type) or (type_ == "timestamp_ntz" and str(column.type) == "timestamp")
