"""Tables that are larger than memory, as Parquet files that are written and read a part at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from headrace.model.errors import ConnectError

PART_ROWS = 250_000


def write_parts(file: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> int:
    """Writes parts with one schema; how many rows they had."""
    rows = 0
    try:
        with pq.ParquetWriter(file, schema, compression="lz4") as writer:
            for part in parts:
                writer.write_table(part, row_group_size=PART_ROWS)
                rows += part.num_rows
    except OSError as error:
        raise ConnectError(f'cannot write "{file}": {error}', "is there space on its disk?") from error
    return rows


def read_parts(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of a file, or of all files in a folder, by position: under the names and types of `schema`."""
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(PART_ROWS):
                columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
                yield pa.Table.from_arrays(columns, schema=schema)
