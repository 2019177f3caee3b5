"""Rows that sites give each other for a comparison: written as they are sent, fetched, and kept in files.

Each part is sent by itself, so whatever ends a connection costs one part. Columns of a source carry their names: sites
that run different plans notice it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headrace.connect.tables.parts import read_parts, write_parts
from headrace.connect.wire.rows import read_rows, write_rows
from headrace.connect.wire.snapshot_files import SnapshotFiles, SnapshotPart
from headrace.coordinate.compare.moment import UnreadableRows
from headrace.coordinate.compare.sources import SourceFile, make_schema
from headrace.meaning.python_functions import Functions
from headrace.model.errors import ConnectError
from headrace.model.plan import ContractPlan
from headrace.run.push.engine import NotThereYet
from headrace.run.source_port import Columns

PART_ROWS = 65_536
MADE_WITHIN_S, SILENT_S = 600.0, 30.0
"""How long to wait for rows that the other site still makes, and for a site that does not answer."""
ASK_AGAIN_S = 0.2
NO_TIME = 0
"""A comparison has one moment: the files of its rows need not tell them apart."""


class RowsGiver(Protocol):
    """Another site. Raises NotThereYet, ConnectError, or whatever says that it gives nothing."""

    def read_part(self, name: str, number: int) -> SnapshotPart: ...


def write_source(files: SnapshotFiles, name: str, source: SourceFile, columns: Columns) -> None:
    """Writes some columns of a source as they are sent."""
    known = {column: position for position, (column, _) in enumerate(source.columns)}
    places, names = [known[column] for column, _ in columns], [column for column, _ in columns]
    parts = (part.select(places).rename_columns(names) for part in read_parts(source.path, make_schema(source.columns)))
    files.write(name, NO_TIME, _split(parts))


def write_view(files: SnapshotFiles, name: str, parts: Iterable[pa.Table]) -> None:
    files.write(name, NO_TIME, _split(parts))


def _split(parts: Iterable[pa.Table]) -> Iterator[bytes]:
    """Parts of some rows; one without rows and columns if there are none."""
    is_empty = True
    for part in parts:
        for start in range(0, part.num_rows, PART_ROWS):
            is_empty = False
            yield write_rows(part.slice(start, PART_ROWS))
    if is_empty:
        yield write_rows(pa.table({}))


def fetch_bodies(giver: RowsGiver, name: str, wait: Callable[[float], object] = time.sleep) -> Iterator[SnapshotPart]:
    """All parts, in order. Raises ConnectError if the other site is silent, or does not come to it, for too long."""
    number, of = 0, 1
    while number < of:
        part = _ask_patiently(giver, name, number, wait)
        yield part
        number, of = number + 1, part.of


def _ask_patiently(giver: RowsGiver, name: str, number: int, wait: Callable[[float], object]) -> SnapshotPart:
    began = heard = time.monotonic()
    while True:
        try:
            return giver.read_part(name, number)
        except NotThereYet as error:
            heard = time.monotonic()
            if heard - began > MADE_WITHIN_S:
                raise ConnectError(f"it was not made within {MADE_WITHIN_S:.0f} s: {error}") from error
        except ConnectError:
            if time.monotonic() - heard > SILENT_S:
                raise
        wait(ASK_AGAIN_S)


def fetch_source(giver: RowsGiver, name: str, columns: Columns, file: Path) -> SourceFile:
    """The rows of a source of another site, in a file."""
    names = [column for column, _ in columns]

    def read() -> Iterator[pa.Table]:
        for part in fetch_bodies(giver, name):
            rows = read_rows(part.body)
            if not rows.num_columns:
                continue
            if missing := [one for one in names if one not in rows.column_names]:
                raise ConnectError(f'its site runs another plan: it does not send column "{missing[0]}"')
            yield rows.select(names).rename_columns(schema.names).cast(schema)

    schema = make_schema(columns)
    return SourceFile(file, columns, write_parts(file, schema, read()))


@dataclass(frozen=True, slots=True)
class FetchedView:
    """The rows of a view of another site at the moment of a comparison."""

    contract: ContractPlan
    files: SnapshotFiles
    name: str

    def parts(self, t: int, functions: Functions) -> Iterator[pa.Table]:
        """Raises UnreadableRows."""
        for number in range(self.files.look(self.name, NO_TIME).of or 0):
            part = self.files.read(self.name, NO_TIME, number)
            if part is None:
                raise UnreadableRows("its rows are not kept any more")
            rows = read_rows(part.body)
            if rows.num_columns:
                yield rows


def fetch_view(giver: RowsGiver, name: str, contract: ContractPlan, files: SnapshotFiles) -> FetchedView:
    for part in fetch_bodies(giver, name):
        files.add(name, NO_TIME, part)
    return FetchedView(contract, files, name)
