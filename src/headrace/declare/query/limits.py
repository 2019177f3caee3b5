"""ORDER BY and LIMIT of a whole query. A view is a bag: the order of rows matters only to choose the first ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.declare.query.environment import Environment, Purpose, Size
from headrace.declare.query.expressions import read_value
from headrace.declare.query.items import SelectItem, as_fields, outputs
from headrace.declare.query.mistakes import Mistake
from headrace.declare.query.ranking import sort_key
from headrace.declare.query.scope import fold
from headrace.declare.query.spelling import refuse_fetch
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.model.expr import Column, Expr, Literal
from headrace.model.relation import Order, Output, Projection, Relation, TopK


@dataclass(frozen=True, slots=True)
class Sorted:
    """A query's rows before ORDER BY and LIMIT. `stage` is where sort keys are read.

    When nothing but the items is left of the rows (DISTINCT, UNION), `fields` are the items' fields by what they were
    made of.
    """

    stage: QueryStage
    items: tuple[SelectItem, ...]
    purpose: Purpose
    size: Size
    fields: Mapping[Expr, Expr] | None = None


def is_limited(node: exp.Expr, before: Sorted) -> bool:
    """Whether LIMIT changes anything: of one row, or for EXISTS, it does not."""
    limit = node.args.get("limit")
    if limit is None:
        return False
    irrelevant = before.purpose == Purpose.EXISTENCE or before.size != Size.ANY
    return not (irrelevant and not node.args.get("offset") and (_read_number(limit, before.stage) or 0) >= 1)


def keep_limit(node: exp.Expr, before: Sorted) -> tuple[Relation, tuple[SelectItem, ...]]:
    """The rows that ORDER BY and LIMIT leave, and the items over them."""
    order, offset = node.args.get("order"), node.args.get("offset")
    stage, environment = before.stage, before.stage.environment
    keys = _keys(order, before) if order is not None else ()
    if not is_limited(node, before):
        if offset is not None:
            environment.report.refuse("offset without limit", environment.at(offset))
        if order is not None and before.purpose == Purpose.TABLE:
            environment.report.note(
                "ORDER BY sorts what `headrace show` prints; the view itself has no order",
                environment.at(order),
                "add LIMIT for the first rows",
            )
        return stage.relation, before.items
    if not keys and not environment.report.errors and not environment.report.refusals:
        environment.report.refuse("limit without order by", environment.at(node.args["limit"]))
    limit = _read_number(node.args["limit"], stage)
    skipped = 0 if offset is None else _read_number(offset, stage)
    return _first(before, keys, limit or 0, skipped or 0)


def _read_number(node: exp.Expr, stage: QueryStage) -> int | None:
    """The number in LIMIT, OFFSET or FETCH."""
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.args.get("expression")
    with PlacedMistakes(stage, node):
        if node.args.get("limit_options"):
            raise refuse_fetch(node)
        if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit() and int(value.name) < 2**31:
            return int(value.name)
        raise Mistake("the number of rows must be a constant")
    return None


def _keys(order: exp.Expr, before: Sorted) -> tuple[Order, ...]:
    """Sort keys may name items by position or alias, and columns besides. Constants order nothing."""
    aliases = {fold(item.name): item.value for item in reversed(before.items)}
    stage = replace(before.stage, clause="ORDER BY", aliases=aliases, aliases_first=True)
    keys = []
    for part in order.expressions:
        with PlacedMistakes(stage, part):
            keys.append(sort_key(part, _read_order_key(part.this, stage, before)))
    before.stage.relation = stage.relation
    return tuple(key for key in keys if not isinstance(key.expr, Literal))


def _read_order_key(node: exp.Expr, stage: QueryStage, before: Sorted) -> Expr:
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.name) if node.name.isdigit() else 0
        if not 1 <= position <= len(before.items):
            raise Mistake(f"ORDER BY {node.name}: there is no such item in SELECT")
        return before.items[position - 1].value
    value = read_value(node, stage)
    if before.fields is None or value in [item.value for item in before.items]:
        return value
    if value not in before.fields:
        raise Mistake("ORDER BY of distinct or combined rows must name what is selected")
    return before.fields[value]


def _first(before: Sorted, keys: Sequence[Order], limit: int, offset: int) -> tuple[Relation, tuple[SelectItem, ...]]:
    environment = before.stage.environment
    if before.fields is not None:
        return TopK(before.stage.relation, (), tuple(keys), limit, offset), before.items
    made = outputs(before.items, environment)
    extra = _extra(made, keys, environment)
    fields = {output.expr: Column(output.name, output.expr.type) for output in reversed((*made, *extra))}
    order = tuple(replace(key, expr=fields[key.expr]) for key in keys)
    projected = Projection(before.stage.relation, (*made, *extra))
    return TopK(projected, (), order, limit, offset), as_fields(before.items, made)


def _extra(made: Sequence[Output], keys: Sequence[Order], environment: Environment) -> tuple[Output, ...]:
    """Fields for sort keys that are not selected."""
    selected = {output.expr for output in made}
    missing = dict.fromkeys(key.expr for key in keys if key.expr not in selected)
    return tuple(Output(environment.books.fresh(f"{environment.path}order"), expr) for expr in missing)
