"""Writes a table again with one more column, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.connect.tables.arrays import integers, texts
from headrace.connect.tables.files import Format, batches, columns_of, format_of_name
from headrace.model.errors import UsageError

IDENTIFIERS = ("a", "b", "consumer", "producer")
"""Columns that stay text when they come from CSV: 007 and 7 are two."""


def output_format(out: Path) -> Format:
    """The format that a file to be written has by its name."""
    form = format_of_name(out)
    if form not in (Format.PARQUET, Format.CSV):
        raise UsageError(f'"{out}" is neither .parquet nor .csv', hint="name a file like OUT.parquet")
    if not out.absolute().parent.is_dir():
        raise UsageError(f'no folder "{out.parent}" to write to')
    return form


def write_with_column(
    file: Path, form: Format, out: Path, column: str, codes: NDArray[np.uint8], words: tuple[str, ...]
) -> None:
    """The rows of `file` and a further column of words, given by their numbers. A column of that name is replaced.

    The file appears when it is complete, so that nobody reads half of it.
    """
    kind = output_format(out)
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        rows = _with_column(file, form, kind, column, codes, words)
        first = next(rows)
        writer: Any = (pq.ParquetWriter if kind is Format.PARQUET else csv.CSVWriter)(unfinished, first.schema)
        with writer:
            writer.write_batch(first)
            for batch in rows:
                writer.write_batch(batch)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def write_table(table: pa.Table, out: Path) -> None:
    """A Parquet or CSV file, by its name. It appears when it is complete."""
    kind = output_format(out)
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        if kind is Format.PARQUET:
            pq.write_table(table, unfinished)
        else:
            csv.write_csv(table, unfinished)
        unfinished.replace(out)
    except pa.ArrowException as error:
        raise UsageError(f'"{out}" cannot hold these rows: {error}', hint="write a .parquet file") from error
    finally:
        unfinished.unlink(missing_ok=True)


def merge_parts(parts: Sequence[Path], out: Path) -> None:
    """Parquet files with the same columns, one after another, as one file. It appears when it is complete."""
    kind = output_format(out)
    unfinished = out.with_name(f".{out.name}.unfinished")
    schema = pq.read_schema(parts[0]).remove_metadata()
    try:
        writer: Any = (pq.ParquetWriter if kind is Format.PARQUET else csv.CSVWriter)(unfinished, schema)
        with writer:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches():
                    writer.write_batch(batch.replace_schema_metadata(None))
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def _with_column(
    file: Path, form: Format, kind: Format, column: str, codes: NDArray[np.uint8], words: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    columns = [name for name in columns_of(file, form) if name != column]
    # From CSV to CSV every value keeps the text it has.
    text = dict.fromkeys(columns if kind is Format.CSV else IDENTIFIERS, pa.string())
    at = 0
    for batch in batches(file, form, columns, text):
        here = texts(words).take(integers(codes[at : at + len(batch)]))
        at += len(batch)
        yield pa.RecordBatch.from_arrays([*batch.columns, here], [*columns, column])
    if at == 0:
        names = [*columns, column]
        yield pa.RecordBatch.from_arrays([texts(()) for _ in names], names)
