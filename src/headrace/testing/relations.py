"""Random trees of the algebra, with expressions that are well typed and seldom fail."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from headrace.model.expr import TRUE, Call, Column, Expr, Literal, conjunction
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Order,
    Output,
    Over,
    Projection,
    Ranking,
    Relation,
    Scan,
    Sessions,
    TopK,
    Unfold,
    UnionAll,
    Windows,
    fields_of,
)
from headrace.model.types import (
    BOOLEAN,
    DAY_TIME,
    INTEGERS,
    TIMESTAMP,
    Array,
    Decimal,
    Type,
)
from headrace.testing.aggregate_calls import EXACT, aggregate_call
from headrace.testing.expressions import ScalarMaker
from headrace.testing.tables import COLUMN_TYPES, SCHEMA, Schema
from headrace.testing.window_calls import window_calls

_EXACT_NUMBERS = tuple(type_ for type_ in COLUMN_TYPES if type_ in INTEGERS or isinstance(type_, Decimal))


@st.composite
def relations(draw: st.DrawFn, schema: Schema = SCHEMA, *, depth: int = 3, timed: bool = False) -> Relation:
    """One to `depth` levels of operators above scans; with `timed` some filters compare a column with `now`."""
    return RelationMaker(draw, schema, timed).relation(draw(st.sampled_from(range(1, depth + 1))))


@dataclass(slots=True)
class RelationMaker:
    """Draws one relation; names are numbered, so that they are unique in the whole tree."""

    draw: st.DrawFn
    schema: Schema
    timed: bool
    used: int = field(default=0)

    def relation(self, depth: int) -> Relation:
        if depth == 0:
            return self.scan()
        makers: tuple[Callable[[int], Relation], ...] = (
            self.filter,
            *((self.filter, self.filter) if self.timed else ()),
            self.project,
            self.join,
            self.join,
            self.union_all,
            self.distinct,
            self.aggregate,
            self.windows,
            self.sessions,
            self.unfold,
            self.top_k,
            self.top_k,
            self.over,
        )
        return self.draw(st.sampled_from(makers))(depth - 1)

    def scan(self) -> Relation:
        source = self.schema[self.draw(st.sampled_from(sorted(self.schema)))]
        columns = source.columns or ()
        return Scan(source.name, self.name(source.name), tuple(c.name for c in columns), tuple(c.type for c in columns))

    def filter(self, depth: int) -> Relation:
        input_ = self.relation(depth)
        times = [f for f in fields_of(input_) if f.type == TIMESTAMP]
        if self.timed and times and self.draw(st.sampled_from((True, True, False))):
            return Filter(input_, self.recent(self.draw(st.sampled_from(times))))
        return Filter(input_, self.scalars(fields_of(input_)).make(BOOLEAN, 2))

    def recent(self, field_: Field) -> Expr:
        """The field lies in the last hours before `now`."""
        span = Literal(dt.timedelta(hours=self.draw(st.sampled_from((1, 12, 24)))), DAY_TIME)
        since = Call("-", (Call("now", (), TIMESTAMP), span), TIMESTAMP)
        return Call(self.draw(st.sampled_from((">", "<="))), (Column(field_.name, TIMESTAMP), since), BOOLEAN)

    def project(self, depth: int) -> Relation:
        input_ = self.relation(depth)
        types = self.draw(st.lists(st.sampled_from(COLUMN_TYPES), min_size=1, max_size=4))
        return self.projected(input_, tuple(types), 2)

    def projected(self, input_: Relation, types: tuple[Type, ...], depth: int) -> Relation:
        scalars = self.scalars(fields_of(input_))
        return Projection(input_, tuple(Output(self.name("c"), scalars.make(type_, depth)) for type_ in types))

    def join(self, depth: int) -> Relation:
        kind = self.draw(st.sampled_from(tuple(JoinKind)))
        left, right = self.relation(depth), self.relation(self.draw(st.integers(0, depth)))
        return Join(kind, left, right, self.condition(left, right))

    def condition(self, left: Relation, right: Relation) -> Expr:
        """Usually an equality of columns, perhaps with more; sometimes that of NOT IN, or anything."""
        pairs = [(a, b) for a in fields_of(left) for b in fields_of(right) if a.type == b.type]
        if not pairs:
            return TRUE
        a, b = self.draw(st.sampled_from(pairs))
        equal = Call("=", (Column(a.name, a.type), Column(b.name, b.type)), BOOLEAN)
        anything = self.scalars(fields_of(left) + fields_of(right)).make(BOOLEAN, 1)
        not_in = Call("not", (Call("<=>", (equal, Literal(False, BOOLEAN)), BOOLEAN),), BOOLEAN)
        null_safe = Call("<=>", equal.arguments, BOOLEAN)
        return self.draw(
            st.sampled_from((equal, equal, conjunction((equal, anything)), null_safe, not_in, anything, TRUE))
        )

    def union_all(self, depth: int) -> Relation:
        first = self.relation(depth)
        types = tuple(f.type for f in fields_of(first))
        rest = (
            self.projected(self.relation(self.draw(st.integers(0, depth))), types, 0)
            for _ in range(self.draw(st.integers(1, 2)))
        )
        return UnionAll((first, *rest))

    def distinct(self, depth: int) -> Relation:
        return Distinct(self.relation(depth))

    def aggregate(self, depth: int) -> Relation:
        input_ = self.relation(depth)
        scalars = self.scalars(fields_of(input_))
        key_types = self.draw(st.lists(st.sampled_from(COLUMN_TYPES), max_size=2))
        keys = tuple(Output(self.name("k"), scalars.make(type_, 1)) for type_ in key_types)
        count = self.draw(st.integers(0 if keys else 1, 3))
        calls = tuple(
            aggregate_call(self.draw, self.name("a"), scalars, EXACT, summed=_EXACT_NUMBERS) for _ in range(count)
        )
        return Aggregate(input_, keys, calls)

    def unfold(self, depth: int) -> Relation:
        """Arrays of one or two columns, of up to three elements, some of them NULL."""
        input_ = self.relation(depth)
        scalars = self.scalars(fields_of(input_))
        kept = tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(input_))
        arrays = tuple(self.array(scalars) for _ in range(self.draw(st.integers(1, 2))))
        place = self.name("place") if self.draw(st.booleans()) else None
        names = tuple(array.name for array in arrays)
        return Unfold(Projection(input_, (*kept, *arrays)), names, place, self.draw(st.booleans()))

    def array(self, scalars: ScalarMaker) -> Output:
        type_ = self.draw(st.sampled_from(COLUMN_TYPES))
        made = tuple(scalars.make(type_, 0) for _ in range(self.draw(st.integers(1, 3))))
        array = Call("array", made, Array(type_))
        shown = scalars.make(BOOLEAN, 0)
        return Output(self.name("e"), Call("case", (shown, array, Literal(None, array.type)), array.type))

    def windows(self, depth: int) -> Relation:
        input_ = self.relation(depth)
        time = self.scalars(fields_of(input_)).make(TIMESTAMP, 0)
        slide = self.draw(st.sampled_from((600_000, 3_600_000)))
        size = slide * self.draw(st.sampled_from((1, 1, 3)))
        offset = self.draw(st.sampled_from((0, 0, 300_000)))
        return Windows(input_, time, size, slide, offset, self.name("start"), self.name("end"))

    def sessions(self, depth: int) -> Relation:
        input_ = self.relation(depth)
        scalars = self.scalars(fields_of(input_))
        partition = tuple(scalars.make(t, 0) for t in self.draw(st.lists(st.sampled_from(COLUMN_TYPES), max_size=1)))
        gap = self.draw(st.sampled_from((1, 600_000, 3_600_000, 86_400_000)))
        return Sessions(input_, partition, scalars.make(TIMESTAMP, 0), gap, self.name("start"), self.name("end"))

    def top_k(self, depth: int) -> Relation:
        input_ = self.relation(depth)
        scalars = self.scalars(fields_of(input_))
        partition = tuple(scalars.make(t, 0) for t in self.draw(st.lists(st.sampled_from(COLUMN_TYPES), max_size=1)))
        order_types = self.draw(st.lists(st.sampled_from(COLUMN_TYPES), min_size=1, max_size=2))
        order = tuple(
            Order(scalars.make(t, 0), self.draw(st.booleans()), self.draw(st.booleans())) for t in order_types
        )
        return TopK(
            input_,
            partition,
            order,
            limit=self.draw(st.integers(1, 3)),
            offset=self.draw(st.sampled_from((0, 0, 1))),
            ranking=self.draw(st.sampled_from(tuple(Ranking))),
            rank_name=self.name("rank") if self.draw(st.booleans()) else None,
        )

    def over(self, depth: int) -> Relation:
        input_ = self.relation(depth)
        scalars = self.scalars(fields_of(input_))
        partition = tuple(scalars.make(t, 0) for t in self.draw(st.lists(st.sampled_from(COLUMN_TYPES), max_size=1)))
        order_types = self.draw(st.lists(st.sampled_from(COLUMN_TYPES), max_size=2))
        order = tuple(
            Order(scalars.make(t, 0), self.draw(st.booleans()), self.draw(st.booleans())) for t in order_types
        )
        calls = window_calls(self.draw, fields_of(input_), order, lambda: self.name("w"), exact=True)
        return Over(input_, partition, order, calls)

    def scalars(self, fields: tuple[Field, ...]) -> ScalarMaker:
        return ScalarMaker(self.draw, fields)

    def name(self, stem: str) -> str:
        self.used += 1
        return f"{stem}{self.used}"
