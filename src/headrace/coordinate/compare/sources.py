"""Copies the sources of an audit into files: through the snapshots of a cut, or again what was captured before it.

Each source is read once, a part at a time, and only the columns that queries read. A source that cannot be read is
left out with the reason, and so are the views over it. Rows that only we have (what people post to a feed, and which
pairs it stores ahead) are those that were captured: what is made of them is compared, not they themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.connect.sources import connector_of
from headrace.connect.tables.parts import read_parts, write_parts
from headrace.coordinate.compare.cut import Cut
from headrace.model.catalogue import Source
from headrace.model.errors import ConnectError, EvaluationError, InputError
from headrace.model.expr import Column
from headrace.model.full_query import FullQuery
from headrace.model.log import Log
from headrace.model.relation import Field, Output, Relation, scans_of
from headrace.run.ports import Ledger, Store
from headrace.run.rows.arrow import arrow_type
from headrace.run.source_port import Columns, ProjectPlace
from headrace.run.views.view import parts_at, repeat_rows

Query = Relation | FullQuery
"""What a view means, or, where that is not understood, its text."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The rows of a source, in a Parquet file with columns c0, c1, ..."""

    path: Path
    columns: Columns
    rows: int

    def table(self, source: str) -> pa.Table:
        """The rows of a small source: columns named `source.column`."""
        schema = make_schema(self.columns, lambda position: f"{source}.{self.columns[position][0]}")
        return pa.concat_tables([schema.empty_table(), *read_parts(self.path, schema)])


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of each source; `unreadable` are the others, and why."""

    files: Mapping[str, SourceFile]
    unreadable: Mapping[str, str]


def read_sources(
    wanted: Mapping[str, Columns], opened: Opened, folder: Path, say: Callable[[str], None]
) -> SourceFiles:
    """Reads columns of sources into files."""
    files: dict[str, SourceFile] = {}
    unreadable: dict[str, str] = {}
    folder.mkdir(parents=True)
    for number, (source, columns) in enumerate(sorted(wanted.items())):
        path = folder / f"{number}.parquet"
        try:
            parts = _count_rows(opened.parts(source, columns), source, opened.estimate(source), say)
            files[source] = SourceFile(path, columns, write_parts(path, make_schema(columns), parts))
        except (ConnectError, EvaluationError, InputError) as error:
            unreadable[source] = f'source "{source}" cannot be read: {first_line(error)}'
    return SourceFiles(files, unreadable)


@dataclass(frozen=True, slots=True)
class CapturedRows:
    """The rows of a source as our log has them, in files that stay while somebody reads."""

    store: Store
    log: Log
    held: tuple[Field, ...]

    def parts(self, source: str, columns: Columns, t: int) -> Iterator[pa.Table]:
        """Columns are called c0, c1, ..."""
        outputs = [
            Output(f"c{position}", Column(f"{source}.{name}", type_)) for position, (name, type_) in enumerate(columns)
        ]
        return map(repeat_rows, parts_at(self.store, self.log, self.held, outputs, t))


@dataclass(frozen=True, slots=True)
class Opened:
    """Where rows as of the cut come from. `t` is its time; `captured` are the sources that only we have."""

    cut: Cut
    captured: Mapping[str, CapturedRows]
    t: int
    sources: Mapping[str, Source]
    ledger: Ledger
    place: ProjectPlace

    def estimate(self, source: str) -> float | None:
        return self.cut.snapshots[source].rows[source] if source in self.cut.snapshots else None

    def parts(self, source: str, columns: Columns) -> Iterator[pa.Table]:
        if source in self.cut.unreadable:
            raise ConnectError(self.cut.unreadable[source])
        if source in self.cut.snapshots:
            yield from self.cut.snapshots[source].parts(source, columns)
            return
        if source in self.captured:
            yield from self.captured[source].parts(source, columns, self.t)
            return
        origin = self.sources[source].origin
        assert origin is not None, "it was captured"
        yield from connector_of(origin.kind).read_taken(self.sources[source], columns, self.t, self.ledger, self.place)


def columns_read(sources: Mapping[str, Source], queries: Iterable[Query]) -> dict[str, Columns]:
    """The columns that queries read, by source, in its order; at least one column, since rows without any cannot be
    counted.
    """
    names: dict[str, set[str]] = {}
    for query in queries:
        if isinstance(query, FullQuery):
            for source in query.reads:
                names.setdefault(source, set()).update(column.name for column in sources[source].columns or ())
        else:
            for scan in scans_of(query):
                names.setdefault(scan.source, set()).update(scan.columns)
    found = {}
    for source, read in names.items():
        columns = tuple((column.name, column.type) for column in sources[source].columns or ())
        found[source] = tuple(one for one in columns if one[0] in read) or columns[:1]
    return found


def sources_of(query: Query) -> frozenset[str]:
    if isinstance(query, FullQuery):
        return frozenset(query.reads)
    return frozenset(scan.source for scan in scans_of(query))


def first_line(error: Exception) -> str:
    """Why something failed, with the name of the file that it is about; one that says nothing by its name."""
    if isinstance(error, InputError):
        problem = error.problems[0]
        return problem.message + (f" ({Path(problem.where.file).name})" if problem.where is not None else "")
    return str(error).partition("\n")[0] or type(error).__name__


def make_schema(columns: Columns, name: Callable[[int], str] = lambda position: f"c{position}") -> pa.Schema:
    return pa.schema([(name(position), arrow_type(type_)) for position, (_, type_) in enumerate(columns)])


def _count_rows(
    parts: Iterator[pa.Table], source: str, estimate: float | None, say: Callable[[str], None]
) -> Iterator[pa.Table]:
    rows = 0
    of = "" if not estimate else f" of about {estimate:,.0f}"
    for part in parts:
        yield part
        rows += part.num_rows
        say(f"reading source {source}: {rows:,}{of} rows")
