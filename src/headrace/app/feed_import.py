"""Brings files of follows and events into a feed that takes them itself. Its project must have run once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from headrace.model.errors import UsageError
from headrace.model.feed_names import API_EVENTS, API_FOLLOWS
from headrace.site.feeds.posting import change_follows, write_events
from headrace.site.folder import Folder

ROWS_AT_ONCE = 50_000
TEXT, TIME = pa.string(), pa.timestamp("us")


def import_feed(
    directory: Path, feed: str, follows: Path | None, events: Path | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """How many rows there were. Files are Parquet or CSV: `consumer, producer`, and `producer, time, id, body`, where a
    body is JSON, or any text. What is imported twice is there once.
    """
    folder = Folder(directory)
    running = folder.running()
    if running is None:
        raise UsageError(f'the project in "{directory}" has never run', "start it with `headrace up`")
    done = {"follows": 0, "events": 0}
    for rows in _read(follows, tuple(API_FOLLOWS)):
        change_follows(folder, running.catalogue, feed, rows)
        done["follows"] += len(rows)
        say(f"{done['follows']:,} follows")
    for rows in _read(events, tuple(API_EVENTS)):
        write_events(folder, running.catalogue, feed, rows)
        done["events"] += len(rows)
        say(f"{done['events']:,} events")
    return {"feed": feed, **done}


def _read(file: Path | None, columns: tuple[str, ...]) -> Iterator[list[tuple[Any, ...]]]:
    if file is None:
        return
    try:
        first = 1
        for batch in _batches(file):
            table = pa.Table.from_batches([batch])
            missing = [name for name in columns if name not in table.column_names]
            if missing:
                raise UsageError(f'"{file}" has no column {", ".join(missing)}', f"it needs {', '.join(columns)}")
            arrays = [pc.cast(table.column(name), TIME if name == "time" else TEXT) for name in columns]
            rows = list(zip(*(array.to_pylist() for array in arrays), strict=True))
            for number, row in enumerate(rows, first):
                if empty := [name for name, value in zip(columns, row, strict=True) if not value and name != "body"]:
                    raise UsageError(
                        f'row {number} of "{file}" has no {", ".join(empty)}',
                        "import the file again when it has: nothing is there twice",
                    )
            yield rows
            first += len(rows)
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f'"{file}" cannot be read: {error}', "Parquet or CSV with a header") from error


def _batches(file: Path) -> Iterator[pa.RecordBatch]:
    if file.suffix.lower() == ".csv":
        with csv.open_csv(file) as opened:
            for batch in opened:
                yield from (batch.slice(at, ROWS_AT_ONCE) for at in range(0, batch.num_rows, ROWS_AT_ONCE))
    else:
        yield from parquet.ParquetFile(file).iter_batches(ROWS_AT_ONCE)
