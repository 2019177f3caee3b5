"""Which format a file has, and its rows in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.model.errors import InputError, Location, Problem, UsageError

BATCH_ROWS = 1 << 20
BLOCK_BYTES = 16 << 20


class Format(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


def format_of(file: Path) -> Format:
    """Tells the format by the name, else by the first bytes. Raises when there is nothing to read."""
    if not file.exists():
        raise UsageError(f'no file "{file}"', hint="the path is relative to the current folder")
    if file.is_dir():
        raise UsageError(f'"{file}" is a folder', hint="name a .parquet, .csv or .json file")
    if file.stat().st_size == 0:
        raise InputError([Problem("the file is empty", Location(str(file)))])
    return format_of_name(file) or _by_content(file)


def format_of_name(file: Path) -> Format | None:
    return {".parquet": Format.PARQUET, ".pq": Format.PARQUET, ".csv": Format.CSV, ".json": Format.JSON}.get(
        file.suffix.lower()
    )


def _by_content(file: Path) -> Format:
    with file.open("rb") as opened:
        start = opened.read(64).lstrip()
    if start.startswith(b"PAR1"):
        return Format.PARQUET
    return Format.JSON if start[:1] in (b"{", b"[") else Format.CSV


def columns_of(file: Path, form: Format) -> list[str]:
    """Names of the columns, in their order."""
    with readable(file):
        if form is Format.PARQUET:
            return list(pq.read_schema(file).names)
        with csv.open_csv(file, read_options=csv.ReadOptions(block_size=BLOCK_BYTES)) as reader:
            return list(reader.schema.names)


def batches(
    file: Path, form: Format, columns: Sequence[str], types: Mapping[str, pa.DataType] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of some columns, in their order. `types` are for CSV, which has none of its own."""
    with readable(file):
        if form is Format.PARQUET:
            yield from pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=list(columns))
            return
        wanted = csv.ConvertOptions(include_columns=list(columns), column_types=dict(types or {}))
        options = csv.ReadOptions(block_size=BLOCK_BYTES)
        if types and set(columns) <= types.keys():
            with csv.open_csv(file, options, convert_options=wanted) as reader:
                yield from reader
        else:
            # Finding out a type takes all rows: the first block may hold integers only.
            yield from csv.read_csv(file, options, convert_options=wanted).to_batches(BATCH_ROWS)


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Arrow's complaints about a file, and those of its disk, as mistakes of the file."""
    try:
        yield
    except OSError as error:
        why = str(error) if error.errno is None else os.strerror(error.errno)
        raise InputError([Problem(f"the file cannot be read: {why}", Location(str(file)))]) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, UnicodeDecodeError) as error:
        text = str(error).splitlines()[0].rstrip(".")
        raise InputError([Problem(f"the table cannot be read: {text}", Location(str(file)))]) from error
