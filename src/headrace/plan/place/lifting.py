"""Lifts the view of one pair to one relation over all pairs: its rows are each pair's rows, after the pair.

    Scan a.location          phones/location, whose device is the pair's a
    Join of a's with b's     with the pairs between them: x JOIN pairs ON x.device = a JOIN y ON y.device = b
    Join, else               also on equal pairs; an outer, semi or anti join is given the pairs on the side it keeps
    Aggregate, Top-k, Over   per pair as well; without GROUP BY there is a row for every pair
    Distinct, Union, ...     the pair is one more column; a part that reads only tables is left as it is

The same relation is the program of a device, with `pairs` being those that run there, and the cloud's view, with all
others. So both mean the same by construction. What holds: for any rows, evaluate(lifted) is the union over all pairs
of evaluate(view with the rows of that pair's devices). A part of the view that needs one side only is lifted to that
side's devices, and stays empty for a device without rows; where it would not, the pairs say which devices there are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.model.expr import Call, Column, Expr, Literal, conjunction, conjuncts
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
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
    over_nothing,
)
from headrace.model.template_names import AT, DEVICE, PAIRS, SIDES
from headrace.model.types import BOOLEAN, DAY_TIME, TIMESTAMP, Type


@dataclass(frozen=True, slots=True)
class StreamRows:
    """The relation with the rows of a stream of all devices: `device`, `seq`, `at`, then the stream's columns. Of a
    derived stream `device` and `position` come first.
    """

    source: str
    columns: tuple[str, ...]
    types: tuple[Type, ...]
    keep_s: float | None = None


@dataclass(frozen=True, slots=True)
class PairWorld:
    """What the view of a pair reads: `streams` by the names that it gives them (`a.location`); all else are tables.

    `id_type` is that of devices, and so of the columns of pairs; `sides` are a and b, or a alone.
    """

    streams: Mapping[str, StreamRows]
    id_type: Type
    sides: tuple[str, ...] = SIDES


def lift(view: Relation, world: PairWorld) -> Relation:
    """The relation over all `pairs`: the columns a and b (or a alone), then the view's own."""
    lifting = _Lifting(world)
    lifted = lifting.widen(lifting.lift(view))
    pair = tuple(Output(side, lifted.keys[side]) for side in world.sides)
    return Projection(lifted.relation, (*pair, *_keep_all(fields_of(view))))


def stays_empty(view: Relation, world: PairWorld) -> bool:
    """Whether a view has no rows for devices whose streams have none: only then nothing says as much as no rows do."""
    lifted = _Lifting(world).lift(view)
    return bool(lifted.keys) and not lifted.paired


def scan_pairs(world: PairWorld, alias: str = PAIRS) -> Scan:
    return Scan(PAIRS, alias, world.sides, (world.id_type,) * len(world.sides))


def replace_pairs(lifted: Relation, pairs: Relation) -> Relation:
    """The lifted relation over pairs that are computed. These have the columns a and b, in whichever way named."""
    if isinstance(lifted, Scan):
        if lifted.source != PAIRS:
            return lifted
        named = zip(fields_of(lifted), fields_of(pairs), strict=True)
        return Projection(pairs, tuple(Output(one.name, Column(other.name, other.type)) for one, other in named))
    if isinstance(lifted, UnionAll):
        return UnionAll(tuple(replace_pairs(one, pairs) for one in lifted.inputs))
    if isinstance(lifted, Join):
        return replace(lifted, left=replace_pairs(lifted.left, pairs), right=replace_pairs(lifted.right, pairs))
    assert not isinstance(lifted, Matching), "changes are not lifted"
    return replace(lifted, input=replace_pairs(lifted.input, pairs))


@dataclass(frozen=True, slots=True)
class _Lifted:
    """A part of the view for all pairs. `keys` are the columns that hold its devices, by side; none: it reads tables
    only. It is `paired` once it holds rows of pairs, and not of all devices that have some. Beside the part's own
    fields the relation may have others, which the pair determines or which are NULL.
    """

    relation: Relation
    keys: Mapping[str, Expr]
    paired: bool = False


@dataclass(slots=True)
class _Lifting:
    world: PairWorld
    taken: int = field(default=0)

    def lift(self, view: Relation) -> _Lifted:
        match view:
            case Scan():
                return self.lift_scan(view)
            case Filter(input_, predicate):
                lifted = self.lift(input_)
                return replace(lifted, relation=Filter(lifted.relation, predicate))
            case Windows() | Unfold() | Stamped():
                lifted = self.lift(view.input)
                return replace(lifted, relation=replace(view, input=lifted.relation))
            case Projection(input_, outputs):
                lifted = self.lift(input_)
                return self.project(lifted, outputs)
            case Distinct(input_):
                lifted = self.keep_fields(self.lift(input_), fields_of(input_))
                return replace(lifted, relation=Distinct(lifted.relation))
            case TopK() | Over() | Sessions():
                lifted = self.keep_fields(self.lift(view.input), fields_of(view.input))
                partition = (*lifted.keys.values(), *view.partition)
                return replace(lifted, relation=replace(view, input=lifted.relation, partition=partition))
            case Aggregate():
                return self.lift_aggregate(view)
            case UnionAll(inputs):
                return self.lift_union(inputs)
            case Join():
                return self.lift_join(view)
            case Negate() | Matching():
                raise AssertionError("changes are not lifted")

    def lift_scan(self, scan: Scan) -> _Lifted:
        stream = self.world.streams.get(scan.source)
        if stream is None:
            return _Lifted(scan, {})
        rows: Relation = Scan(stream.source, scan.alias, stream.columns, stream.types)
        types = dict(zip(stream.columns, stream.types, strict=True))
        if stream.keep_s is not None:
            rows = Filter(rows, _is_kept(Column(f"{scan.alias}.{AT}", types[AT]), stream.keep_s))
        key = Column(f"{scan.alias}.{DEVICE}", types[DEVICE])
        shown = Projection(rows, (Output(key.name, key), *_keep_all(fields_of(scan))))
        return _Lifted(shown, {scan.source.partition(".")[0]: key})

    def project(self, lifted: _Lifted, outputs: tuple[Output, ...]) -> _Lifted:
        keys = {side: Output(self.fresh(side), key) for side, key in lifted.keys.items()}
        relation = Projection(lifted.relation, (*keys.values(), *outputs))
        return _Lifted(relation, _name_keys(keys), lifted.paired)

    def keep_fields(self, lifted: _Lifted, fields: tuple[Field, ...]) -> _Lifted:
        """Drops fields that are not the part's own, for operators that look at whole rows."""
        return self.project(lifted, _keep_all(fields)) if lifted.keys else lifted

    def widen(self, lifted: _Lifted) -> _Lifted:
        """The part for each pair, where it was for each device or for all together."""
        if lifted.paired:
            return lifted
        pairs = self.scan_pairs()
        same = conjunction(_equal_keys(pairs.keys, lifted.keys))
        return _Lifted(Join(JoinKind.INNER, pairs.relation, lifted.relation, same), pairs.keys, paired=True)

    def scan_pairs(self) -> _Lifted:
        pairs = scan_pairs(self.world, self.fresh(PAIRS))
        keys = zip(self.world.sides, fields_of(pairs), strict=True)
        return _Lifted(pairs, {side: Column(one.name, one.type) for side, one in keys}, paired=True)

    def lift_aggregate(self, view: Aggregate) -> _Lifted:
        lifted = self.lift(view.input)
        keys = {side: Output(self.fresh(side), key) for side, key in lifted.keys.items()}
        grouped = Aggregate(lifted.relation, (*keys.values(), *view.keys), view.calls)
        if view.keys or not keys:
            return _Lifted(grouped, _name_keys(keys), lifted.paired)
        return self.count_nothing(grouped, keys)

    def count_nothing(self, grouped: Aggregate, keys: Mapping[str, Output]) -> _Lifted:
        """One row for every pair, as an aggregate without GROUP BY has, also over nothing."""
        pairs = self.scan_pairs()
        same = conjunction(_equal_keys(pairs.keys, _name_keys(keys)))
        joined = Join(JoinKind.LEFT, pairs.relation, grouped, same)
        outputs = tuple(Output(call.name, _or_else(call)) for call in grouped.calls)
        return self.project(replace(pairs, relation=joined), outputs)

    def lift_union(self, inputs: tuple[Relation, ...]) -> _Lifted:
        parts = [self.lift(one) for one in inputs]
        if any(part.keys for part in parts):
            if len({(frozenset(part.keys), part.paired) for part in parts}) > 1:
                parts = [self.widen(part) for part in parts]
            sides = [side for side in self.world.sides if side in parts[0].keys]
            parts = [
                self.keep_fields(replace(part, keys={side: part.keys[side] for side in sides}), fields_of(one))
                for part, one in zip(parts, inputs, strict=True)
            ]
        return replace(parts[0], relation=UnionAll(tuple(part.relation for part in parts)))

    def lift_join(self, view: Join) -> _Lifted:
        left, right = self.lift(view.left), self.lift(view.right)
        match view.kind:
            case JoinKind.INNER:
                if left.keys and right.keys and not left.keys.keys() & right.keys.keys():
                    left = self.widen(left)
            case JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI:
                left = left if right.keys.keys() <= left.keys.keys() else self.widen(left)
            case JoinKind.RIGHT:
                right = right if left.keys.keys() <= right.keys.keys() else self.widen(right)
            case JoinKind.FULL:
                if left.keys or right.keys:
                    left, right = self.widen(left), self.widen(right)
        on = conjunction((*_equal_keys(left.keys, right.keys), *conjuncts(view.on)))
        joined = Join(view.kind, left.relation, right.relation, on)
        match view.kind:
            case JoinKind.INNER:
                return _Lifted(joined, {**right.keys, **left.keys}, left.paired or right.paired)
            case JoinKind.RIGHT:
                return replace(right, relation=joined)
            case JoinKind.FULL:
                either = {side: Call("coalesce", (key, right.keys[side]), key.type) for side, key in left.keys.items()}
                return self.project(_Lifted(joined, either, left.paired), _keep_all(fields_of(view)))
            case _:
                return replace(left, relation=joined)

    def fresh(self, stem: str) -> str:
        """A name that no query gives: names that people write, and parts of such names, do not begin with a slash."""
        self.taken += 1
        return f"/{stem}{self.taken}"


def _name_keys(keys: Mapping[str, Output]) -> dict[str, Expr]:
    return {side: Column(one.name, one.expr.type) for side, one in keys.items()}


def _keep_all(fields: tuple[Field, ...]) -> tuple[Output, ...]:
    return tuple(Output(one.name, Column(one.name, one.type)) for one in fields)


def _equal_keys(one: Mapping[str, Expr], other: Mapping[str, Expr]) -> tuple[Expr, ...]:
    return tuple(Call("=", (one[side], other[side]), BOOLEAN) for side in SIDES if side in one and side in other)


def _or_else(call: AggregateCall) -> Expr:
    value, nothing = Column(call.name, call.type), over_nothing(call)
    return value if nothing.value is None else Call("coalesce", (value, nothing), call.type)


def _is_kept(at: Column, keep_s: float) -> Expr:
    span = Literal(dt.timedelta(seconds=keep_s), DAY_TIME)
    return Call(">", (at, Call("-", (Call("now", (), TIMESTAMP), span), TIMESTAMP)), BOOLEAN)
