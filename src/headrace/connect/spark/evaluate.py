"""Evaluates relations by Spark SQL, over tables that are logs: what new views start from, and what audits compare with.

    files of each source -> contents as of a time -> one query (`relation_text`) -> rows here, or files

The rows are those that `meaning.evaluate` computes; floats may differ in their last digits.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.functions import arrow_udf

from headrace.connect.spark.log_files import ContentsTarget, LogFiles, Written, read_changes, write_contents
from headrace.connect.spark.relation_text import RelationText
from headrace.meaning import scalar_json, scalar_jsonb, scalar_postgres
from headrace.meaning.functions import PYTHON_PREFIX
from headrace.meaning.json_functions import ONLY_OURS
from headrace.model.expr import Call, Expr, walk
from headrace.model.log import NEVER, StoredFile
from headrace.model.relation import Field, Relation, Scan, fields_of, inputs_of, scans_of
from headrace.model.rewrite import expressions_of
from headrace.model.types import Type, Value
from headrace.run.ports import Store
from headrace.run.rows.arrow import arrow_table, arrow_type, rows_of_arrow
from headrace.run.rows.changes import WEIGHT

_OURS = {**scalar_json.POSTGRES, **scalar_jsonb.POSTGRES, **scalar_postgres.POSTGRES}
"""What Spark does not have, of values that are not NULL."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A source as of a time: files with its base and changes, and under which name they hold each of its columns."""

    site: str
    files: tuple[StoredFile, ...]
    upto: int
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """A source as it is in a Parquet file (or folder), whose columns are called c0, c1, ... there."""

    path: Path
    columns: tuple[tuple[str, Type], ...]

    def position(self, name: str) -> int:
        return next(position for position, (column, _) in enumerate(self.columns) if column == name)

    def frame(self, session: SparkSession) -> DataFrame:
        return session.read.parquet(str(self.path))


@dataclass(frozen=True, slots=True)
class SparkEvaluator:
    """`store` and the functions in `python` (by `NAME@VERSION`) are sent to Spark's workers. `now` as in queries."""

    session: SparkSession
    store: Store
    python: Mapping[str, Callable[..., Value]] = field(default_factory=dict)
    now: dt.datetime | None = None

    def rows(self, relation: Relation, tables: Mapping[str, SourceTable]) -> pa.Table:
        """The answer in this process; for answers known to be small."""
        fields = fields_of(relation)
        schema = pa.schema([(found.name, arrow_type(found.type)) for found in fields])
        with self.query(relation, tables) as frame:
            return frame.toArrow().select(list(range(len(fields)))).rename_columns(schema.names).cast(schema)

    def files(
        self, relation: Relation, tables: Mapping[str, SourceTable], target: ContentsTarget
    ) -> tuple[Written, ...]:
        """The answer as files of contents, written where it is computed."""
        with self.query(relation, tables) as frame:
            return write_contents(frame, self.store, target)

    @contextmanager
    def query(
        self, relation: Relation, tables: Mapping[str, SourceTable] | Mapping[str, ParquetTable]
    ) -> Iterator[DataFrame]:
        """The names that the query uses live until it has run."""
        prefix = f"headrace_{uuid.uuid4().hex}"
        scans = {scan: f"{prefix}_{n}" for n, scan in enumerate(dict.fromkeys(scans_of(relation)))}
        functions = {call: f"{prefix}_f{n}" for n, call in enumerate(sorted(_python_calls(relation), key=str))}
        try:
            for scan, name in scans.items():
                self._contents(scan, tables[scan.source]).createOrReplaceTempView(name)
            ours = {name: _make_strict(_OURS[name]) for name in ONLY_OURS}
            python = {**self.python, **ours}
            for (function, type_), name in functions.items():
                if function in python:
                    self.session.udf.register(name, _as_udf(python[function], type_))
            known = {function: name for (function, _), name in functions.items() if function in python}
            yield self.session.sql(RelationText(scans, known, self.now).of(relation))
        finally:
            for name in scans.values():
                self.session.catalog.dropTempView(name)
            for name in functions.values():
                self.session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")

    def _contents(self, scan: Scan, table: SourceTable | ParquetTable) -> DataFrame:
        if isinstance(table, ParquetTable):
            places = [f"c{table.position(column)} AS c{n}" for n, column in enumerate(scan.columns)]
            return table.frame(self.session).selectExpr(*places or ["TRUE AS present"])
        columns = tuple(
            Field(table.columns[column], type_) for column, type_ in zip(scan.columns, scan.types, strict=True)
        )
        log = LogFiles(table.site, table.files, columns)
        return contents(read_changes(self.session, self.store, log, NEVER, table.upto), len(columns))


def contents(changes: DataFrame, width: int) -> DataFrame:
    """Every row as often as the weights of its changes add up to."""
    names = [f"c{position}" for position in range(width)]
    present = changes.groupBy(*names).agg(fn.sum(WEIGHT).alias(WEIGHT)).where(f"{WEIGHT} > 0")
    copies = fn.explode(fn.sequence(fn.lit(1).cast("bigint"), fn.col(WEIGHT)))
    return present.select(*names, copies.alias("copy")).select(*names or ["copy"])


def _python_calls(relation: Relation) -> frozenset[tuple[str, Type]]:
    """Functions declared in Python that a relation calls, and the types of their results."""
    found = {pair for expr in expressions_of(relation) for pair in _calls(expr)}
    return frozenset(found.union(*map(_python_calls, inputs_of(relation))))


def _calls(expr: Expr) -> Iterator[tuple[str, Type]]:
    for node in walk(expr):
        if isinstance(node, Call) and (node.function.startswith(PYTHON_PREFIX) or node.function in ONLY_OURS):
            yield node.function.removeprefix(PYTHON_PREFIX), node.type


def _make_strict(function: Callable[..., Value]) -> Callable[..., Value]:
    """NULL if an argument is, as such functions are in our own evaluator."""
    return lambda *values: None if None in values else function(*values)


def _as_udf(function: Callable[..., Value], type_: Type) -> Callable[..., pa.Array]:
    """A function of values as one of Arrow columns: it sees our values, not Spark's."""

    def apply(*columns: pa.Array) -> pa.Array:
        rows = rows_of_arrow(pa.table(list(columns), names=[str(number) for number in range(len(columns))]))
        values = arrow_table({"value": type_}, [(function(*row),) for row in rows])
        return values.column("value").combine_chunks()

    made: Callable[..., pa.Array] = arrow_udf(apply, str(type_))  # type: ignore[call-overload]
    return made
