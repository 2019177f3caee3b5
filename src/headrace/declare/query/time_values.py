"""now() anywhere in a query, brought to filters on time, whose rows are known to leave or enter at an instant.

A condition on time splits rows (`now_splits`). What changes once a day, an hour or a minute is read from a clock
(`clock`). What changes at every instant, such as now() as a column, stays and is refused.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.declare.query.clock import find_unit, make_clock, read_clock
from headrace.declare.query.environment import Environment
from headrace.declare.query.now import is_time_filter, use_time
from headrace.declare.query.now_splits import UNKNOWN, Part, hide_conditions, split_by_time
from headrace.declare.query.trees import expressions_of
from headrace.model.expr import (
    FALSE,
    TRUE,
    Column,
    Expr,
    columns_of,
    conjunction,
    conjuncts,
    is_deterministic,
    substitute,
)
from headrace.model.relation import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Output,
    Projection,
    Relation,
    UnionAll,
    fields_of,
)
from headrace.model.rewrite import with_expressions


def settle_time(node: Relation, environment: Environment) -> Relation:
    """An operator over inputs that are settled: reads the time in filters on time alone, where that can be."""
    if all(map(is_deterministic, expressions_of(node))):
        return node
    match node:
        case Filter():
            return _settle_filter(use_time(node), environment)
        case Projection():
            return _settle_projection(node, environment)
        case Aggregate():
            return _settle_aggregate(node, environment)
        case Join():
            return _settle_join(node, environment)
    return node


def _settle_filter(node: Relation, environment: Environment) -> Relation:
    assert isinstance(node, Filter)
    parts = conjuncts(node.predicate)
    plain = tuple(part for part in parts if is_deterministic(part) or is_time_filter(part))
    relation = Filter(node.input, conjunction(plain)) if plain else node.input
    for part in (one for one in parts if one not in plain):
        relation = _filter_by(relation, part, environment)
    return relation


def _filter_by(relation: Relation, part: Expr, environment: Environment) -> Relation:
    """Rows that meet a condition that is none on time as it stands."""
    fields = _keep_fields(relation)
    split = split_by_time((part,))
    if split is not None:
        kept = [(conditions, value) for conditions, (value,) in split if value not in (FALSE, UNKNOWN)]
        return _unite(
            [Filter(relation, conjunction((*conditions, *conjuncts(value)))) for conditions, value in kept], relation
        )
    clocked, (condition,) = _with_clock(relation, (part,), environment)
    if clocked is relation:
        return Filter(relation, part)
    return Projection(_settle_filter(use_time(Filter(clocked, condition)), environment), fields)


def _unite(parts: list[Filter], relation: Relation) -> Relation:
    if not parts:
        return Filter(relation, FALSE)
    return parts[0] if len(parts) == 1 else UnionAll(tuple(parts))


def _settle_projection(node: Projection, environment: Environment) -> Relation:
    split = split_by_time([output.expr for output in node.outputs])
    if split is not None:
        parts = tuple(_project_part(node, part) for part in split)
        return parts[0] if len(parts) == 1 else UnionAll(parts)
    exprs = tuple(output.expr for output in node.outputs)
    clocked, values = _with_clock(node.input, exprs, environment)
    outputs = (Output(output.name, value) for output, value in zip(node.outputs, values, strict=True))
    settled = Projection(clocked, tuple(outputs))
    return node if clocked is node.input else settle_time(settled, environment)


def _project_part(node: Projection, part: Part) -> Projection:
    conditions, values = part
    outputs = (Output(output.name, value) for output, value in zip(node.outputs, values, strict=True))
    return Projection(Filter(node.input, conjunction(conditions)) if conditions else node.input, tuple(outputs))


def _settle_aggregate(node: Aggregate, environment: Environment) -> Relation:
    """What reads the time becomes a column of the rows that are grouped."""
    computed: dict[Expr, Column] = {}
    for expr in expressions_of(node):
        if not is_deterministic(expr) and expr not in computed:
            computed[expr] = Column(environment.books.fresh(f"{environment.path}timed"), expr.type)
    values = (Output(column.name, expr) for expr, column in computed.items())
    rows = _settle_projection(Projection(node.input, (*_keep_fields(node.input), *values)), environment)
    return with_expressions(replace(node, input=rows), lambda expr: computed.get(expr, expr))


def _settle_join(node: Join, environment: Environment) -> Relation:
    """Conditions on the right side alone decide which of its rows are there. Those on the left side split it. Others
    read the clock beside the left side.
    """
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        return node
    right = {field.name for field in fields_of(node.right)}
    parts = conjuncts(node.on)
    moved = tuple(part for part in parts if not is_deterministic(part) and columns_of(part) <= right)
    rest = conjunction(tuple(part for part in parts if part not in moved))
    if moved:
        below = _settle_filter(use_time(Filter(node.right, conjunction(moved))), environment)
        return settle_time(replace(node, right=below, on=rest), environment)
    left = {field.name for field in fields_of(node.left)}
    split = split_by_time((rest,))
    if split is not None and all(columns_of(part) <= left for conditions, _ in split for part in conditions):
        return UnionAll(
            tuple(replace(node, left=Filter(node.left, conjunction(conditions)), on=on) for conditions, (on,) in split)
        )
    clocked, (on,) = _with_clock(node.left, (rest,), environment)
    if clocked is node.left:
        return node
    return Projection(replace(node, left=clocked, on=on), _keep_fields(node))


def _with_clock(
    relation: Relation, exprs: tuple[Expr, ...], environment: Environment
) -> tuple[Relation, tuple[Expr, ...]]:
    """Rows beside the clock, and expressions that read it; both as they are if that does not help.

    Conditions by which rows can be split stay: they are exact, whatever the clock shows.
    """
    hidden = [hide_conditions(expr) for expr in exprs]
    units = [find_unit(plain) for plain, _ in hidden if not is_deterministic(plain)]
    known = [unit for unit in units if unit is not None]
    if not known or len(known) < len(units):
        return relation, exprs
    clock = make_clock(min(known), environment)
    values = tuple(substitute(read_clock(plain, clock.start), conditions) for plain, conditions in hidden)
    return Join(JoinKind.INNER, relation, clock.relation, TRUE), values


def _keep_fields(relation: Relation) -> tuple[Output, ...]:
    return tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(relation))
