"""A view whose log changes as a test says, with a column of every type."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import strategies as st

from headrace.connect.files import FileStore
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.expr import Column
from headrace.model.log import Log, Piece, PieceKind
from headrace.model.relation import Field, Output
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Row,
    Type,
    Value,
)
from headrace.run.ports import Delivery
from headrace.run.rows.arrow import arrow_table
from headrace.run.rows.changes import ORDER, TIME, WEIGHT
from headrace.run.views.deliver import deliver

COLUMNS: dict[str, Type] = {
    "number": INT,
    "text": STRING,
    'Odd, "name"': STRING,
    "flag": BOOLEAN,
    "tiny": TINYINT,
    "small": SMALLINT,
    "big": BIGINT,
    "real": FLOAT,
    "double": DOUBLE,
    "money": Decimal(10, 2),
    "huge": Decimal(38, 0),
    "bytes": BINARY,
    "day": DATE,
    "time": TIMESTAMP,
    "texts": Array(STRING),
    "moneys": Array(Decimal(10, 2)),
    "bytes_list": Array(BINARY),
    "times": Array(TIMESTAMP),
    "flags": Array(BOOLEAN),
    "nested": Array(Array(DOUBLE)),
}
_TEXTS = ("", "a", "NULL", "\\N", "\\.", 'say "so"', "a,b\nc\\", "é日", "{}", " ")
_TIMES = (dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2024, 2, 29, 12, 30, 15))
_MONEY = tuple(map(decimal.Decimal, ("0.00", "-1.50", "99999999.99")))
_POOLS: dict[Type, tuple[Value, ...]] = {
    INT: (0, 1, -(2**31), 2**31 - 1),
    STRING: _TEXTS,
    BOOLEAN: (True, False),
    TINYINT: (-128, 127),
    SMALLINT: (-(2**15), 2**15 - 1),
    BIGINT: (0, -(2**63), 2**63 - 1),
    FLOAT: (0.0, 1.5, math.nan, -math.inf, 2.0**-149),
    DOUBLE: (0.0, 0.1, math.nan, math.inf, 5e-324, 1.7976931348623157e308),
    Decimal(10, 2): _MONEY,
    Decimal(38, 0): (decimal.Decimal("9" * 38), decimal.Decimal(0)),
    BINARY: (b"", b"\x00\xff\\", b"a"),
    DATE: (dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)),
    TIMESTAMP: _TIMES,
}


def values(type_: Type) -> st.SearchStrategy[Value]:
    if isinstance(type_, Array):
        return st.none() | st.lists(values(type_.element), max_size=2).map(tuple)
    return st.none() | st.sampled_from(_POOLS[type_])


def rows(columns: Mapping[str, Type] = COLUMNS) -> st.SearchStrategy[Row]:
    """Rows of few values, so that many are equal, or of all there are."""
    few = st.sampled_from([(0,), (1,)]).map(lambda row: (*row, *(None for _ in list(columns)[1:])))
    return few | st.tuples(*map(values, columns.values()))


@st.composite
def next_change(draw: st.DrawFn, now: ZSet, new: st.SearchStrategy[Row]) -> ZSet:
    """Some rows leave, some come."""
    there = sorted(now.rows(), key=repr)
    went = draw(st.lists(st.sampled_from(range(len(there))), unique=True, max_size=4)) if there else []
    came = draw(st.lists(new, max_size=4))
    return ZSet([*((there[at], -1) for at in went), *((row, 1) for row in came)])


@dataclass
class View:
    """A log of changes, and what the view holds now."""

    folder: Path
    columns: Mapping[str, Type] = field(default_factory=lambda: COLUMNS)
    now: ZSet = EMPTY

    def __post_init__(self) -> None:
        self.store = FileStore(self.folder)
        self.log = Log("view", "here", t=1_000, start=1_000)
        self.fields = tuple(Field(f"v.{name}", type_) for name, type_ in self.columns.items())
        self.outputs = tuple(Output(name, Column(f"v.{name}", type_)) for name, type_ in self.columns.items())

    def change(self, *changes: ZSet, pause: int = 10) -> None:
        """Each at a time of its own, all in one file."""
        after, t = self.log.t, self.log.t
        stamped = []
        for change in changes:
            t += pause
            stamped += [(*row, t, 0, weight) for row, weight in change.items()]
            self.now += change
        piece = self._piece(PieceKind.CHANGE, stamped, after, t)
        self.log = replace(self.log, t=t, pieces=(*self.log.pieces, piece))

    def compact(self) -> None:
        """Only what is there now is kept."""
        t = self.log.t
        base = self._piece(PieceKind.BASE, [(*row, t, 0, weight) for row, weight in self.now.items()], t, t)
        self.log = replace(self.log, start=t, pieces=(base,))

    def _piece(self, kind: PieceKind, stamped: list[Row], after: int, t: int) -> Piece:
        columns = {f.name: f.type for f in self.fields}
        table = arrow_table({**columns, TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}, stamped)
        return self.store.write("here", table, f"{kind}-{t}").as_piece(kind, after, t, table.num_rows)

    def deliver_to(self, delivery: Delivery, expected: int | None = None, anew: bool = False) -> int | None:
        return deliver(delivery, self.store, self.log, self.fields, self.outputs, expected=expected, anew=anew)
