"""An aggregate over the rows of several sites, as aggregates of what each site has and one that puts these together.

    count, sum, min, max of A UNION ALL B    ->    sum, sum, min, max of (count, ... of A UNION ALL count, ... of B)

Both mean the same. The second sends a row for each group and push instead of all rows. Only calls that are exact in
parts are taken apart: sums of doubles are rounded once, so that adding rounded ones would be another answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from headrace.model.expr import Call, Column, Expr, Literal, is_deterministic
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Filter,
    Output,
    Projection,
    Relation,
    UnionAll,
    Windows,
    fields_of,
    inputs_of,
    scans_of,
)
from headrace.model.rewrite import with_inputs
from headrace.model.types import BIGINT, INTEGERS, Decimal, Type

DIGITS = 18
"""Of a decimal whose sums of parts cannot overflow where the whole sum does not."""

SiteOf = Callable[[str], str]
"""The site of a source."""


def aggregate_below_unions(query: Relation, site_of: SiteOf) -> Relation | None:
    """The query with aggregates taken apart by the sites whose rows they unite; None if there are none to take."""
    found = _take_apart(query, site_of)
    return None if found == query else found


def _take_apart(relation: Relation, site_of: SiteOf) -> Relation:
    relation = with_inputs(relation, tuple(_take_apart(one, site_of) for one in inputs_of(relation)))
    if not isinstance(relation, Aggregate) or not all(_adds_up(call) for call in relation.calls):
        return relation
    union, layers = relation.input, list[Relation]()
    while isinstance(union, Projection | Filter | Windows) and _is_the_same_at_any_time(union):
        layers.append(union)
        union = union.input
    if not isinstance(union, UnionAll):
        return relation
    parts = _group_by_site(union, site_of)
    if len(parts) < 2:
        return relation
    made = UnionAll(tuple(_make_part(relation, _with_layers(part, layers)) for part in parts))
    return _put_together(relation, made)


def _adds_up(call: AggregateCall) -> bool:
    if call.order or call.others:
        return False
    match call.function:
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return True
        case AggregateFunction.COUNT:
            return not call.distinct
        case AggregateFunction.SUM:
            assert call.argument is not None
            type_ = call.argument.type
            is_exact = type_ in INTEGERS or (isinstance(type_, Decimal) and type_.precision <= DIGITS)
            return not call.distinct and is_exact
        case _:
            return False


def _is_the_same_at_any_time(layer: Projection | Filter | Windows) -> bool:
    """Rows that come and go with the clock are looked after where they are filtered: that stays where it is."""
    match layer:
        case Projection(_, outputs):
            return all(is_deterministic(output.expr) for output in outputs)
        case Filter(_, predicate):
            return is_deterministic(predicate)
        case Windows():
            return True


def _group_by_site(union: UnionAll, site_of: SiteOf) -> tuple[Relation, ...]:
    """Inputs whose rows are all at one site together, every other input by itself; all with the union's fields."""
    found: dict[object, list[Relation]] = {}
    for number, branch in enumerate(union.inputs):
        sites = {site_of(scan.source) for scan in scans_of(branch)}
        found.setdefault(next(iter(sites)) if len(sites) == 1 else number, []).append(_name_fields(branch, union))
    return tuple(branches[0] if len(branches) == 1 else UnionAll(tuple(branches)) for branches in found.values())


def _name_fields(branch: Relation, union: UnionAll) -> Relation:
    own, wanted = fields_of(branch), fields_of(union)
    if own == wanted:
        return branch
    renamed = zip(own, wanted, strict=True)
    return Projection(branch, tuple(Output(new.name, Column(old.name, old.type)) for old, new in renamed))


def _with_layers(part: Relation, layers: list[Relation]) -> Relation:
    for layer in reversed(layers):
        part = with_inputs(layer, (part,))
    return part


def _make_part(whole: Aggregate, input_: Relation) -> Aggregate:
    return Aggregate(input_, whole.keys, tuple(_call_in_part(call) for call in whole.calls))


def _call_in_part(call: AggregateCall) -> AggregateCall:
    """A sum of 64-bit numbers may be too large in parts and fit as a whole: parts of it are decimals."""
    if call.function is AggregateFunction.SUM and call.argument is not None and call.argument.type == BIGINT:
        argument = Call("cast", (call.argument,), Decimal(19, 0))
        return replace(call, argument=argument, type=Decimal(29, 0))
    return call


def _put_together(whole: Aggregate, parts: UnionAll) -> Relation:
    types = {field.name: field.type for field in fields_of(parts)}
    keys = tuple(Output(key.name, Column(key.name, types[key.name])) for key in whole.keys)
    calls = tuple(_call_over_parts(call, types[call.name]) for call in whole.calls)
    return Projection(Aggregate(parts, keys, calls), tuple(_list_outputs(whole, calls)))


def _call_over_parts(call: AggregateCall, type_: Type) -> AggregateCall:
    argument = Column(call.name, type_)
    if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return replace(call, argument=argument)
    summed = Decimal(min(38, type_.precision + 10), type_.scale) if isinstance(type_, Decimal) else BIGINT
    return AggregateCall(call.name, AggregateFunction.SUM, argument, distinct=False, type=summed)


def _list_outputs(whole: Aggregate, calls: tuple[AggregateCall, ...]) -> Iterator[Output]:
    """The fields of the whole, in its types: nothing is counted as 0."""
    yield from (Output(key.name, Column(key.name, key.expr.type)) for key in whole.keys)
    for call, over in zip(whole.calls, calls, strict=True):
        value: Expr = Column(over.name, over.type)
        if over.type != call.type:
            value = Call("cast", (value,), call.type)
        if call.function is AggregateFunction.COUNT:
            value = Call("coalesce", (value, Literal(0, BIGINT)), BIGINT)
        yield Output(call.name, value)
