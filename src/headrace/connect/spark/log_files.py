"""Files of logs as Spark's rows and back: read and written by tasks, so that rows never pass through the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.connect.spark.items import GROUPS_PER_CORE, cores
from headrace.model.log import StoredFile
from headrace.model.relation import Field
from headrace.run.ports import Store
from headrace.run.push.items import group_by_weight
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import ORDER, STAMPS, TIME, WEIGHT, interval, stamp_rows

ROWS_PER_BATCH = 65_536
ROWS_PER_FILE = 1_000_000


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Change rows of a log, in files. `columns` are those to read, by their names in the files."""

    site: str
    files: tuple[StoredFile, ...]
    columns: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A file that a task wrote."""

    stored: StoredFile
    rows: int


@dataclass(frozen=True, slots=True)
class ContentsTarget:
    """Where to write contents, and the time they are of. `columns` names them in the files."""

    site: str
    hint: str
    t: int
    columns: tuple[Field, ...]


def read_changes(session: SparkSession, store: Store, log: LogFiles, after: int, upto: int) -> DataFrame:
    """The changes with after < t <= upto: columns c0, c1, ... and `__t`, `__o`, `__w`."""
    files, site = log.files, log.site
    names = [column.name for column in log.columns]
    groups = group_by_weight([1.0] * len(files), GROUPS_PER_CORE * cores(session)) or [[]]
    schema = pa.schema(
        [*((f"c{number}", arrow_type(column.type)) for number, column in enumerate(log.columns)), *_STAMPS.items()]
    )

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in (group for batch in batches for group in batch.column(0).to_pylist()):
            for position in groups[group]:
                rows = interval(store.read(site, files[position], [*names, *STAMPS]), after, upto)
                yield from rows.rename_columns(schema.names).cast(schema).to_batches(ROWS_PER_BATCH)

    types = ", ".join(f"c{number} {column.type}" for number, column in enumerate(log.columns))
    stamps = f"{TIME} bigint, {ORDER} int, {WEIGHT} bigint"
    return session.range(0, len(groups), 1, len(groups)).mapInArrow(read, f"{types}{', ' if types else ''}{stamps}")


_STAMPS = {TIME: pa.int64(), ORDER: pa.int32(), WEIGHT: pa.int64()}


def write_contents(frame: DataFrame, store: Store, target: ContentsTarget) -> tuple[Written, ...]:
    """Writes rows as contents at a time: each with weight 1.

    A task that is tried again writes further files; only those returned here belong to the answer.
    """
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in target.columns])

    def save(rows: list[pa.RecordBatch]) -> pa.RecordBatch:
        table = pa.Table.from_batches(rows).select(list(range(len(schema)))).rename_columns(schema.names).cast(schema)
        weights = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
        whole = stamp_rows(table, target.t).append_column(WEIGHT, weights)
        stored = store.write(target.site, whole, target.hint)
        made = {"file": [stored.file], "bytes": [stored.bytes], "root": [stored.root], "rows": [table.num_rows]}
        return pa.record_batch(made)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held += [batch] if batch.num_rows else []
            if sum(part.num_rows for part in held) >= ROWS_PER_FILE:
                yield save(held)
                held = []
        if held:
            yield save(held)

    found = frame.mapInArrow(write, "file string, bytes bigint, root bigint, rows bigint").toArrow().to_pylist()
    made = (Written(StoredFile(row["file"], row["bytes"], row["root"]), row["rows"]) for row in found)
    return tuple(sorted(made, key=lambda written: written.stored.file))
