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
from headrace.connect.spark.sql_text import is_for_workers, signature_of
from headrace.meaning.functions import PYTHON_PREFIX
from headrace.meaning.scalar import find_function
from headrace.model.expr import Call, Expr, walk
from headrace.model.log import NEVER, StoredFile
from headrace.model.relation import Field, Relation, Scan, fields_of, inputs_of, scans_of
from headrace.model.rewrite import expressions_of
from headrace.model.types import Type, Value
from headrace.run.ports import Store
from headrace.run.rows.arrow import arrow_table, arrow_type, rows_of_arrow
from headrace.run.rows.changes import WEIGHT


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
        calls = dict(sorted(_worker_calls(relation).items()))
        names = {signature: f"{prefix}_f{n}" for n, signature in enumerate(calls) if self._is_known(calls[signature])}
        try:
            for scan, name in scans.items():
                self._contents(scan, tables[scan.source]).createOrReplaceTempView(name)
            for signature, name in names.items():
                self.session.udf.register(name, _as_udf(self._function(calls[signature]), calls[signature].type))
            yield self.session.sql(RelationText(scans, names, self.now).of(relation))
        finally:
            for name in scans.values():
                self.session.catalog.dropTempView(name)
            for name in names.values():
                self.session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")

    def _is_known(self, call: Call) -> bool:
        return not call.function.startswith(PYTHON_PREFIX) or signature_of(call) in self.python

    def _function(self, call: Call) -> Callable[..., Value]:
        if call.function.startswith(PYTHON_PREFIX):
            return self.python[signature_of(call)]
        return _make_strict(find_function(call))

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


def _worker_calls(relation: Relation) -> dict[str, Call]:
    """The functions that Spark's workers call for a relation: by signature, one of the calls."""
    found = {signature_of(call): call for expr in expressions_of(relation) for call in _calls(expr)}
    for inner in inputs_of(relation):
        found.update(_worker_calls(inner))
    return found


def _calls(expr: Expr) -> Iterator[Call]:
    return (node for node in walk(expr) if isinstance(node, Call) and is_for_workers(node))


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
