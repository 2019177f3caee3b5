"""A view in parts has the rows that it has as a whole, whatever its changes after the base did."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from headrace.connect.files import FileStore
from headrace.model.expr import Column
from headrace.model.log import Log, Piece, PieceKind
from headrace.model.relation import Field, Output
from headrace.model.types import BIGINT, DOUBLE, INT, STRING, Row
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT
from headrace.run.views.view import parts_at, rows_at

COLUMNS = (Field("v.a", BIGINT), Field("v.b", STRING), Field("v.c", DOUBLE))
OUTPUTS = tuple(Output(field.name[2:], Column(field.name, field.type)) for field in COLUMNS)
VALUES: list[Row] = [(a, b, c) for a in (None, 1, 2, 3) for b in (None, "", "x") for c in (None, 0.5, float("nan"))]


def write(store: FileStore, kind: PieceKind, after: int, upto: int, rows: list[tuple[Row, int]]) -> Piece:
    types = {**{field.name: field.type for field in COLUMNS}, TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}
    table = arrow_table(types, [(*row, upto, 0, weight) for row, weight in rows])
    return store.write("us", table, "v").as_piece(kind, after, upto, len(rows))


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_are_the_rows(seed: int) -> None:
    chance = random.Random(seed)
    there = Counter(chance.choices(VALUES, k=chance.randrange(12)))
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(Path(folder))
        halves = list(there.items())
        middle = len(halves) // 2
        pieces = [write(store, PieceKind.BASE, 0, 10, half) for half in (halves[:middle], halves[middle:])]
        for t in range(11, 11 + chance.randrange(4)):
            changes: list[tuple[Row, int]] = [(chance.choice(VALUES), 1) for _ in range(2)]
            changes += [(row, -1) for row in chance.sample(sorted(there.elements(), key=str), min(2, there.total()))]
            there.update([row for row, weight in changes if weight > 0])
            there.subtract([row for row, weight in changes if weight < 0])
            pieces.append(write(store, PieceKind.CHANGE, t - 1, t, changes))
        log = Log("v", "us", 20, 10, tuple(pieces))
        whole = Counter(map(str, rows_of_arrow(rows_at(store, log, COLUMNS, OUTPUTS, 20))))
        found: Counter[str] = Counter()
        for part in parts_at(store, log, COLUMNS, OUTPUTS, 20, part_rows=3):
            for *row, weight in rows_of_arrow(part):
                assert isinstance(weight, int) and weight > 0
                found[str(tuple(row))] += weight
    assert found == whole
    assert whole.total() == there.total()
