"""What the relations of two feeds held at every time, from the logs of their sources, and that people wrote just that.

A log says which rows came and went at which time. It is believed only if at every such time the rows are those after
some of the changes that people made, in their order, and in the end after all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from bench.feeds_people import Change, Key
from headrace.model.expr import Column
from headrace.model.relation import Output
from headrace.run.capture.spool import spool_log
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.program import Ingest
from headrace.run.rows.changes import TIME, WEIGHT
from headrace.run.views.view import read_changes, rows_at
from headrace.site.folder import Folder

FOREVER = 2**62

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A row that was there from one time to another (exclusive), in microseconds."""

    row: Row
    from_t: int
    to_t: int


@dataclass(frozen=True, slots=True)
class Written:
    """How rows of a source are told as people write them: event or pair, and its key."""

    source: str
    key: Callable[[Row], Key]
    row: Callable[[Mapping[str, Any]], Row]


def _read_post(row: Mapping[str, Any]) -> Row:
    said = {"text": row["text"], "likes": row["likes"]}
    return row["author"], row["ts"].replace(tzinfo=None), str(row["id"]), json.dumps(said)


WRITTEN = {
    "home/events": Written(
        "home/events",
        lambda row: (row[0], row[2]),
        lambda row: (row["producer"], row["time"].replace(tzinfo=None), row["id"], row["body"]),
    ),
    "home/follows": Written(
        "home/follows", lambda row: (row[0], row[1]), lambda row: (row["consumer"], row["producer"])
    ),
    "wall/events": Written("posts", lambda row: (row[2],), _read_post),
    "wall/follows": Written("follows", lambda row: (row[0], row[1]), lambda row: (row["who"], row["whom"])),
}


def read_history(folder: Folder, name: str) -> tuple[list[Version], int]:
    """All versions of all rows of a relation, and the time up to which they are known; no service may run."""
    written = WRITTEN[name]
    changes, upto = _read_log(folder, written.source)
    versions: list[Version] = []
    there: dict[Row, int] = {}
    for t, some in groupby(sorted(changes, key=itemgetter(0, 1)), key=itemgetter(0)):
        for _, weight, values in some:  # what goes comes before what comes
            row = written.row(values)
            if weight < 0:
                versions.append(Version(row, there.pop(row), t))
            else:
                assert row not in there, f"{row} is there twice"
                there[row] = t
    versions += (Version(row, from_t, FOREVER) for row, from_t in there.items())
    return versions, upto


def _read_log(folder: Folder, source: str) -> tuple[list[tuple[int, int, Mapping[str, Any]]], int]:
    """Time, weight and columns of all changes of a source; what was there before the first came before everything."""
    plan = folder.running()
    assert plan is not None
    program, store = compile_plan(plan), folder.store()
    (task,) = (
        one for one in program.tasks.values() if isinstance(one.step, Ingest) and one.step.spool == spool_log(source)
    )
    spec = program.logs[task.vertex]
    outputs = tuple(Output(field.name, Column(field.name, field.type)) for field in spec.columns)
    with closing(folder.ledger()) as ledger:
        log = ledger.logs([task.vertex])[task.vertex]
        came = read_changes(store, log, spec.columns, outputs, log.start, log.t)
        now = rows_at(store, log, spec.columns, outputs, log.t)
    strip = len(source) + 1
    names = {field.name: field.name[strip:] for field in spec.columns}

    def tell(row: Mapping[str, Any]) -> dict[str, Any]:
        return {names[name]: row[name] for name in names}

    changes = [(row[TIME], row[WEIGHT], tell(row)) for row in came.to_pylist()]
    first: dict[str, list[Any]] = {}
    for weight, values in [(1, tell(row)) for row in now.to_pylist()] + [(-w, values) for _, w, values in changes]:
        counted = first.setdefault(repr(sorted(values.items())), [0, values])
        counted[0] += weight
    begin = [(log.start, 1, values) for weight, values in first.values() if weight > 0]
    return begin + changes, log.t


def find_strange(versions: Sequence[Version], changes: Sequence[Change], key: Callable[[Row], Key]) -> str | None:
    """Why a history cannot be that of the changes that people made; None if it can."""
    mine: dict[Key, Row] = {}
    captured: dict[Key, Row] = {}
    differ: set[Key] = set()
    left: Iterator[Change] = iter(changes)

    def compare(keys: Iterable[Key]) -> None:
        for one in keys:
            (differ.discard if mine.get(one) == captured.get(one) else differ.add)(one)

    for t, came_and_went in _order(versions):
        for is_there, row in came_and_went:
            if is_there:
                captured[key(row)] = row
            elif captured.get(key(row)) == row:
                del captured[key(row)]
            compare([key(row)])
        while differ:
            change = next(left, None)
            if change is None:
                return f"at {t} rows of {sorted(differ)[:3]} are as nobody wrote them"
            _apply(mine, change)
            compare([change[0]])
    for change in left:
        _apply(mine, change)
        compare([change[0]])
    return f"changes of {sorted(differ)[:3]} were lost" if differ else None


def _order(versions: Sequence[Version]) -> Iterator[tuple[int, list[tuple[bool, Row]]]]:
    """Times, with what goes and then what comes."""
    moments = [(version.from_t, True, version.row) for version in versions]
    moments += [(version.to_t, False, version.row) for version in versions if version.to_t != FOREVER]
    for t, some in groupby(sorted(moments, key=itemgetter(0, 1)), key=itemgetter(0)):
        yield t, [(is_there, row) for _, is_there, row in some]


def _apply(there: dict[Key, Row], change: Change) -> None:
    key, row = change
    if row is None:
        there.pop(key, None)
    else:
        there[key] = row
