"""Streams that join tables as of their events: a row meets the rows of a table that were there at its event time.

What a table held at an instant is all changes that had come by then, added up (`relation.Stamped`). So such a join is a
join with these changes, of those with `change.time <= event.time`: which of the two comes first does not matter, and a
row that comes late meets what was there when its event happened.

    inner          pairs of a row and a change, whose weights add up
    left           those, and the rows that are in none of them
    semi, anti     the rows that are in one of them, or in none
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from headrace.declare.query.environment import Environment
from headrace.declare.query.report import refuse
from headrace.declare.query.streams import StreamCheck, is_constant
from headrace.declare.query.trees import nodes
from headrace.model.catalogue import SourceKind
from headrace.model.expr import Call, Column, Expr, Literal, columns_of, conjunction
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Matching,
    Negate,
    Output,
    Over,
    Projection,
    Relation,
    Scan,
    Sessions,
    Stamped,
    TopK,
    Unfold,
    UnionAll,
    Windows,
    fields_of,
)
from headrace.model.rewrite import with_inputs
from headrace.model.types import BOOLEAN, TIMESTAMP

REFUSED = "join as of the event"
KEEPS_STREAM = "only rows of the stream can be kept without a partner: write stream LEFT JOIN table"


@dataclass(frozen=True, slots=True)
class _Events:
    """Rows with the time of their events, which may be one more field than they had, or no field any more. `stream` is
    the alias of the stream that asks for tables as of it.
    """

    relation: Relation
    stream: str | None = None
    time: Column | None = None

    def project(self, fields: Sequence[Field]) -> _Events:
        """The rows with these fields alone."""
        if fields_of(self.relation) == tuple(fields):
            return self
        kept = self.time if self.time is not None and Field(self.time.name, self.time.type) in fields else None
        return replace(self, relation=_project(self.relation, fields), time=kept)


def join_as_of_events(relation: Relation, environment: Environment) -> Relation:
    """The tree with joins of such streams as joins with changes of tables."""
    sources = environment.declared.sources
    scans = (node for node in nodes(relation) if isinstance(node, Scan))
    if not any(scan.source in sources and sources[scan.source].joins_as_of_event for scan in scans):
        return relation
    return _AsOfEvents(environment).read(relation).project(fields_of(relation)).relation


@dataclass(frozen=True, slots=True)
class _AsOfEvents:
    environment: Environment

    def read(self, relation: Relation) -> _Events:
        match relation:
            case Scan():
                return self._scan(relation)
            case Projection():
                return self._project(relation)
            case Join():
                return self._join(relation)
            case UnionAll(inputs):
                return self._union(relation, [self.read(input_).project(fields_of(input_)) for input_ in inputs])
            case Filter(input_) | Windows(input_) | Unfold(input_) | Stamped(input_):
                read = self.read(input_)
                return replace(read, relation=with_inputs(relation, (read.relation,)))
            case Aggregate(input_):
                return _Events(replace(relation, input=self.read(input_).relation))
            case Distinct(input_) | TopK(input_) | Over(input_) | Sessions(input_):
                read = self.read(input_).project(fields_of(input_))
                return replace(read, relation=with_inputs(relation, (read.relation,)))
            case Negate() | Matching():
                raise AssertionError(f"no SQL gives {type(relation).__name__}")

    def _scan(self, scan: Scan) -> _Events:
        source = self.environment.declared.sources.get(scan.source)
        if source is None or not source.joins_as_of_event or source.time is None:
            return _Events(scan)
        return _Events(scan, scan.alias, Column(f"{scan.alias}.{source.time}", TIMESTAMP))

    def _project(self, relation: Projection) -> _Events:
        read = self.read(relation.input)
        made = replace(relation, input=read.relation)
        if read.time is None:
            return replace(read, relation=made)
        named = next((output.name for output in relation.outputs if output.expr == read.time), None)
        if named is not None:
            return _Events(made, read.stream, Column(named, TIMESTAMP))
        name = self.environment.books.fresh(f"{read.time.name}~event")
        made = replace(made, outputs=(*made.outputs, Output(name, read.time)))
        return _Events(made, read.stream, Column(name, TIMESTAMP))

    def _union(self, relation: UnionAll, read: list[_Events]) -> _Events:
        """Times have to be in one column, since rows of all inputs are joined in one way."""
        made = with_inputs(relation, tuple(one.relation for one in read))
        stream = next((one.stream for one in read if one.stream is not None), None)
        places = {None if one.time is None else _names(one.relation).index(one.time.name) for one in read}
        (place,) = places if len(places) == 1 else (None,)
        time = None if place is None else Column(_names(made)[place], TIMESTAMP)
        return _Events(made, stream, time)

    # Joins

    def _join(self, join: Join) -> _Events:
        left, right = self.read(join.left), self.read(join.right)
        if left.stream is not None and self._is_table(join.right):
            return self._meet(join, left)
        if right.stream is not None and self._is_table(join.left):
            return self._meet_reversed(join, right)
        made = replace(join, left=left.relation, right=right.relation)
        if join.kind in (JoinKind.SEMI, JoinKind.ANTI):
            made = replace(made, right=right.project(fields_of(join.right)).relation)
            return replace(left, relation=made)
        first = left if left.stream is not None else right
        return replace(first, relation=made)

    def _is_table(self, side: Relation) -> bool:
        return not is_constant(side) and not StreamCheck(self.environment).flow(side).stream

    def _meet(self, join: Join, events: _Events) -> _Events:
        if events.time is None:
            self._refuse(events, "the query that reads the stream has to keep its event time as a column")
        if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
            self._refuse(events, KEEPS_STREAM)
        table = self._changes(join.right, events)
        if not table.times:
            return replace(events, relation=replace(join, left=events.relation, right=table.relation))
        came = (Call("<=", (time, events.time), BOOLEAN) for time in table.times)
        on = conjunction((join.on, *came))
        pairs = Join(JoinKind.INNER, events.relation, table.relation, on)
        if join.kind is JoinKind.INNER:
            fields = (*fields_of(events.relation), *fields_of(join.right))
            return replace(events, relation=_project(pairs, fields))
        matched = self._match(events.relation, pairs, on)
        if join.kind is not JoinKind.LEFT:
            return replace(events, relation=matched(join.kind))
        fields = (*fields_of(events.relation), *fields_of(join.right))
        nothing = (Output(field.name, Literal(None, field.type)) for field in fields_of(join.right))
        alone = Projection(matched(JoinKind.ANTI), (*_keep(fields_of(events.relation)), *nothing))
        return replace(events, relation=UnionAll((_project(pairs, fields), alone)))

    def _match(self, rows: Relation, pairs: Relation, on: Expr) -> _Matched:
        """Rows are told apart by what the condition reads of them: equal ones have equal partners."""
        fresh = self.environment.books.fresh
        read = [field for field in fields_of(rows) if field.name in columns_of(on)]
        met = tuple(Output(fresh(f"{field.name}~met"), Column(field.name, field.type)) for field in read)
        same = (Call("<=>", (output.expr, Column(output.name, output.expr.type)), BOOLEAN) for output in met)
        return _Matched(rows, Projection(pairs, met), conjunction(tuple(same)))

    def _meet_reversed(self, join: Join, events: _Events) -> _Events:
        kinds = {JoinKind.INNER: JoinKind.INNER, JoinKind.RIGHT: JoinKind.LEFT}
        if join.kind not in kinds:
            self._refuse(events, KEEPS_STREAM)
        met = self._meet(Join(kinds[join.kind], join.right, join.left, join.on), events)
        return replace(met, relation=_project(met.relation, (*fields_of(join.left), *fields_of(events.relation))))

    def _changes(self, table: Relation, events: _Events) -> _Changes:
        """A side of tables as its changes."""
        match table:
            case Scan():
                return self._changes_of_source(table)
            case Filter(input_) | Unfold(input_):
                read = self._changes(input_, events)
                return replace(read, relation=with_inputs(table, (read.relation,)))
            case Projection(input_, outputs):
                read = self._changes(input_, events)
                times = tuple(Output(time.name, time) for time in read.times)
                return replace(read, relation=Projection(read.relation, (*outputs, *times)))
            case Join(JoinKind.INNER, left, right, on):
                one, other = self._changes(left, events), self._changes(right, events)
                return _Changes(Join(JoinKind.INNER, one.relation, other.relation, on), (*one.times, *other.times))
        if not is_constant(table):
            self._refuse(events, "group, rank and unite rows of tables after the stream was joined with them")
        return _Changes(table, ())

    def _changes_of_source(self, scan: Scan) -> _Changes:
        source = self.environment.declared.sources[scan.source]
        assert source.kind is SourceKind.TABLE, f'"{scan.source}" is a stream'
        if source.static:
            return _Changes(scan, ())
        time = self.environment.books.fresh(f"{scan.alias}~came")
        return _Changes(Stamped(scan, time, from_beginning=True), (Column(time, TIMESTAMP),))

    def _refuse(self, events: _Events, hint: str) -> NoReturn:
        refuse(REFUSED, self.environment.books.places[events.stream or ""], hint)


@dataclass(frozen=True, slots=True)
class _Changes:
    """Rows of tables with the times at which they came or went, one for each table."""

    relation: Relation
    times: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class _Matched:
    rows: Relation
    met: Relation
    same: Expr

    def __call__(self, kind: JoinKind) -> Join:
        return Join(kind, self.rows, self.met, self.same)


def _names(relation: Relation) -> list[str]:
    return [field.name for field in fields_of(relation)]


def _project(relation: Relation, fields: Sequence[Field]) -> Relation:
    return relation if fields_of(relation) == tuple(fields) else Projection(relation, _keep(fields))


def _keep(fields: Sequence[Field]) -> tuple[Output, ...]:
    return tuple(Output(field.name, Column(field.name, field.type)) for field in fields)
