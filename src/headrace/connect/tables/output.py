"""Writes files for people, Parquet or CSV, some rows at a time: whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
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
        raise UsageError(f'folder "{out.parent}" does not exist')
    return form


def write_with_column(
    file: Path, form: Format, out: Path, column: str, codes: NDArray[np.uint8], words: tuple[str, ...]
) -> None:
    """The rows of `file` and a further column of words, given by their numbers. A column of that name is replaced."""
    kind = output_format(out)
    rows = _with_column(file, form, kind, column, codes, words)
    first = next(rows)
    with _open_writer(out, first.schema) as writer:
        for batch in chain([first], rows):
            writer.write_batch(batch)


def write_tables(parts: Iterable[pa.Table], schema: pa.Schema, out: Path) -> int:
    """Parts with one schema as one file, each written before the next is asked for; how many rows they had."""
    rows = 0
    with _open_writer(out, schema) as writer:
        for part in parts:  # not within `_holding`: a part that cannot be read is no fault of the file
            with _holding(out):
                writer.write_table(part)
            rows += part.num_rows
    return rows


@contextmanager
def _holding(out: Path) -> Iterator[None]:
    """What the format of a file has no form for is the user's to change."""
    try:
        yield
    except pa.ArrowException as error:
        raise UsageError(f'"{out}" cannot hold these rows: {error}', hint="write a .parquet file") from error


def merge_parts(parts: Sequence[Path], out: Path) -> None:
    """Parquet files with the same columns, one after another, as one file."""
    with _open_writer(out, pq.read_schema(parts[0]).remove_metadata()) as writer:
        for part in parts:
            for batch in pq.ParquetFile(part).iter_batches():
                writer.write_batch(batch.replace_schema_metadata(None))


@contextmanager
def _open_writer(out: Path, schema: pa.Schema) -> Iterator[Any]:
    """Writes Parquet or CSV, by the name of the file. The file appears when it is complete: nobody reads half of it."""
    kind = output_format(out)
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        with _holding(out):
            writer = (pq.ParquetWriter if kind is Format.PARQUET else csv.CSVWriter)(unfinished, schema)
        with writer:
            yield writer
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
