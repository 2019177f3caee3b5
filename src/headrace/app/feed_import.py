"""Brings files of follows and events into a feed that takes them itself. Its project must have run once.

All columns of a CSV are read as texts: whoever guesses what they hold by the first rows takes `007` for the number 7,
and stops in the middle of a file that goes on with names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from headrace.model.errors import UsageError
from headrace.model.feed_names import API_EVENTS, API_FOLLOWS
from headrace.site.feeds.posting import change_follows, check_names, read_time, write_events
from headrace.site.folder import Folder
from headrace.site.site_folders import find_site_of_feed

ROWS_AT_ONCE = 50_000
TEXT, TIME = pa.string(), pa.timestamp("us")
NO_NAMES = ("time", "body")
AGAIN = "import the file again when it has been mended: nothing is there twice"


def import_feed(
    directory: Path, feed: str, follows: Path | None, events: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """How many rows there were. Files are Parquet or CSV: `consumer, producer`, and `producer, time, id, body`, where a
    body is JSON, or any text. What is imported twice is there once.
    """
    folder = find_site_of_feed(Folder(directory), feed)
    running = folder.running()
    if running is None:
        raise UsageError(f'the project in "{directory}" has never run', "start it with `headrace up`")
    done = {"follows": 0, "events": 0}
    for rows in read_rows(follows, tuple(API_FOLLOWS)):
        change_follows(folder, running.catalogue, feed, rows)
        done["follows"] += len(rows)
        say(f"{done['follows']:,} follows")
    for rows in read_rows(events, tuple(API_EVENTS)):
        write_events(folder, running.catalogue, feed, rows)
        done["events"] += len(rows)
        say(f"{done['events']:,} events")
    return {"feed": feed, **done}


def read_rows(file: Path | None, columns: tuple[str, ...]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows of a file, many at a time; none without a file. Raises `UsageError` for what is no row."""
    if file is None:
        return
    try:
        first = 1
        for batch in _batches(file, columns):
            table = pa.Table.from_batches([batch])
            missing = [name for name in columns if name not in table.column_names]
            if missing:
                raise UsageError(f'"{file}" has no column {", ".join(missing)}', f"it needs {', '.join(columns)}")
            found = {name: _read_column(table.column(name), name == "time") for name in columns}
            for number, row in enumerate(zip(*found.values(), strict=True), first):
                if empty := [name for name, value in zip(columns, row, strict=True) if not value and name != "body"]:
                    raise UsageError(f'row {number} of "{file}" has no {", ".join(empty)}', AGAIN)
                with _in_row(number, file):
                    check_names(value for name, value in zip(columns, row, strict=True) if name not in NO_NAMES)
            if "time" in found:
                found["time"] = list(_read_times(found["time"], file, first))
            rows = list(zip(*found.values(), strict=True))
            yield rows
            first += len(rows)
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f'"{file}" cannot be read: {error}', "Parquet or CSV with a header") from error


def _read_column(column: pa.ChunkedArray, is_time: bool) -> list[Any]:
    """Texts, and times as far as the file has them as such."""
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    values: list[Any] = pc.cast(column, TIME if is_time and not is_text else TEXT).to_pylist()
    return values


def _read_times(values: Sequence[datetime | str], file: Path, first: int) -> Iterator[datetime]:
    for number, value in enumerate(values, first):
        with _in_row(number, file):
            yield read_time(value) if isinstance(value, str) else value


@contextmanager
def _in_row(number: int, file: Path) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        raise UsageError(f'row {number} of "{file}": {error.message}', f"{error.hint}; {AGAIN}") from None


def _batches(file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if file.suffix.lower() == ".csv":
        lines = csv.ParseOptions(newlines_in_values=True)  # a block must not end within a body
        with csv.open_csv(file, parse_options=lines) as header:
            known = [name for name in columns if name in header.schema.names]
        as_texts = csv.ConvertOptions(column_types=dict.fromkeys(known, TEXT), include_columns=known)
        with csv.open_csv(file, parse_options=lines, convert_options=as_texts) as opened:
            for batch in opened:
                yield from (batch.slice(at, ROWS_AT_ONCE) for at in range(0, batch.num_rows, ROWS_AT_ONCE))
    else:
        yield from parquet.ParquetFile(file).iter_batches(ROWS_AT_ONCE)
