"""ORDER BY and LIMIT of a whole query. A view is a bag: the order of rows matters only to choose the first ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.declare.query.environment import Environment, Purpose, Size
from headrace.declare.query.expressions import read_value
from headrace.declare.query.items import SelectItem, as_fields, outputs
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.ranking import sort_key
from headrace.declare.query.scope import fold
from headrace.declare.query.spelling import refuse_fetch
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.model.dialect import SqlDialect
from headrace.model.expr import Column, Expr, Literal
from headrace.model.relation import Order, Output, Projection, Ranking, Relation, TopK

ALL_ROWS = 2**62
"""More rows than there are, for OFFSET without LIMIT."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """A query's rows before ORDER BY and LIMIT. `stage` is where sort keys are read.

    When nothing but the items is left of the rows (DISTINCT, UNION), `fields` are the items' fields by what they were
    made of. Within each `partition`, rows are ordered and limited for themselves.
    """

    stage: QueryStage
    items: tuple[SelectItem, ...]
    purpose: Purpose
    size: Size
    fields: Mapping[Expr, Expr] | None = None
    partition: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The rows that ORDER BY and LIMIT leave, the items over them, and where the parts of the partition are now."""

    relation: Relation
    items: tuple[SelectItem, ...]
    partition: tuple[Expr, ...] = ()


def is_limited(node: exp.Expr, before: Sorted) -> bool:
    """Whether LIMIT changes anything: of one row, or for EXISTS, it does not."""
    limit = node.args.get("limit")
    if limit is None or is_all(limit):
        return node.args.get("offset") is not None
    if has_ties(limit):
        return True
    irrelevant = before.purpose == Purpose.EXISTENCE or before.size != Size.ANY
    return not (irrelevant and not node.args.get("offset") and (_read_number(limit, before.stage) or 0) >= 1)


def is_all(limit: exp.Expr) -> bool:
    """Whether it is LIMIT ALL, which limits nothing."""
    value = limit.args.get("expression")
    return isinstance(value, exp.Column) and not value.table and fold(value.name) == "all"


def keep_limit(node: exp.Expr, before: Sorted) -> FirstRows:
    """The rows that ORDER BY and LIMIT leave. Without ORDER BY they are the first in the order of their columns."""
    order, offset, limit = (node.args.get(clause) for clause in ("order", "offset", "limit"))
    stage, environment = before.stage, before.stage.environment
    keys = _keys(order, before) if order is not None else ()
    if not is_limited(node, before):
        if order is not None and before.purpose == Purpose.TABLE:
            environment.report.note(
                "ORDER BY sorts what `headrace show` prints; the view itself has no order",
                environment.at(order),
                "add LIMIT for the first rows",
            )
        return FirstRows(stage.relation, before.items, before.partition)
    if limit is not None and has_ties(limit):
        return _keep_ties(node, before, keys)
    shown = ALL_ROWS if limit is None or is_all(limit) else _read_number(limit, stage)
    skipped = 0 if offset is None else _read_number(offset, stage)
    if limit is not None and not keys and before.purpose == Purpose.TABLE:
        note = "LIMIT without ORDER BY keeps the first rows in the order of their columns, from left to right"
        environment.report.note(note, environment.at(limit), "add ORDER BY to choose the rows")
    return _first(before, keys, shown or 0, skipped or 0)


def has_ties(limit: exp.Expr) -> bool:
    """Whether it is FETCH FIRST n ROWS WITH TIES: rows that are equal to the last one by the keys are shown as well."""
    options = limit.args.get("limit_options")
    return options is not None and bool(options.args.get("with_ties")) and not options.args.get("percent")


def _keep_ties(node: exp.Expr, before: Sorted, keys: Sequence[Order]) -> FirstRows:
    limit = node.args["limit"]
    with PlacedMistakes(before.stage, limit):
        if before.stage.environment.text.dialect is SqlDialect.SPARK or node.args.get("offset"):
            raise refuse_fetch(limit)
        if node.args.get("order") is None:
            raise Mistake("WITH TIES needs ORDER BY")
    shown = _read_number(limit, before.stage) or 0
    first = _first(before, keys, shown, 0)
    assert isinstance(first.relation, TopK), "first rows are ranked"
    return replace(first, relation=replace(first.relation, ranking=Ranking.RANK))


def keep_one_of_each(node: exp.Select, before: Sorted, on: tuple[Expr, ...]) -> Sorted:
    """DISTINCT ON: of the rows with equal values the first in the query's own order."""
    order = node.args.get("order")
    keys = _keys(order, before) if order is not None else ()
    first = _first(replace(before, partition=on), keys, 1, 0)
    assert isinstance(first.relation, TopK), "first rows are ranked"
    before.stage.relation = first.relation
    made = [key.expr for key in first.relation.order]
    fields = {item.value: new.value for item, new in zip(before.items, first.items, strict=True)}
    fields |= dict(zip((key.expr for key in keys), made, strict=True))
    fields |= dict(zip(on, first.partition, strict=True))
    return replace(before, items=first.items, fields=fields)


def _read_number(node: exp.Expr, stage: QueryStage) -> int | None:
    """The number in LIMIT, OFFSET or FETCH."""
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.args.get("expression")
    with PlacedMistakes(stage, node):
        if node.args.get("limit_options") and not has_ties(node):
            raise refuse_fetch(node)
        if value is None and isinstance(node, exp.Fetch):
            return 1
        if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit() and int(value.name) < 2**31:
            return int(value.name)
        if isinstance(value, exp.Binary | exp.Cast) and value.find(exp.Column, exp.Query) is None:
            raise NotMaintained(f"clause: {type(node).__name__.upper()} of an expression", "write the number itself")
        raise Mistake("the number of rows must be a constant")
    return None


def _keys(order: exp.Expr, before: Sorted) -> tuple[Order, ...]:
    """Sort keys may name items by position or alias, and columns besides. Constants order nothing."""
    keys = []
    for part in order.expressions:
        stage = _stage_of_key(part.this, before)
        with PlacedMistakes(stage, part):
            value = _read_order_key(part.this, stage, before)
            item = next((one for one in before.items if one.value == value), None)
            keys.append(sort_key(part, value, stage, None if item is None else item.origin_type))
        before.stage.relation = stage.relation
    return tuple(key for key in keys if not isinstance(key.expr, Literal))


def read_key(node: exp.Expr, before: Sorted) -> Expr:
    """A key of DISTINCT ON, which may name what a key of ORDER BY may name."""
    stage = _stage_of_key(node, before)
    value = _read_order_key(node, stage, before)
    before.stage.relation = stage.relation
    return value


def _stage_of_key(node: exp.Expr, before: Sorted) -> QueryStage:
    """Names in a key are of items before columns; within an expression of PostgreSQL's, of columns before items."""
    is_spark = before.stage.environment.text.dialect is SqlDialect.SPARK
    names_item = is_spark or isinstance(node.unnest(), exp.Column)
    if not names_item:
        _name_tables(node, before)
    aliases = {fold(item.name): item.value for item in reversed(before.items)}
    types = {fold(item.name): item.origin_type for item in reversed(before.items)}
    return replace(before.stage, clause="ORDER BY", aliases=aliases, aliases_first=names_item, alias_types=types)


def _name_tables(node: exp.Expr, before: Sorted) -> None:
    """Says of columns from which table they are, where the text would name an item in Spark's dialect."""
    items = {fold(item.name) for item in before.items}
    for column in node.find_all(exp.Column):
        tables = [table for table in before.stage.scope.tables if table.named(column.name)]
        if not column.table and fold(column.name) in items and len(tables) == 1:
            column.set("table", exp.to_identifier(tables[0].alias, quoted=True))


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


def _first(before: Sorted, keys: Sequence[Order], limit: int, offset: int) -> FirstRows:
    environment = before.stage.environment
    if before.fields is not None:
        assert not before.partition, "rows of which only the items are left have no partition"
        return FirstRows(TopK(before.stage.relation, (), tuple(keys), limit, offset), before.items)
    made = outputs(before.items, environment)
    extra = _extra(made, (*(key.expr for key in keys), *before.partition), environment)
    fields = {output.expr: Column(output.name, output.expr.type) for output in reversed((*made, *extra))}
    order = tuple(replace(key, expr=fields[key.expr]) for key in keys)
    partition = tuple(fields[expr] for expr in before.partition)
    projected = Projection(before.stage.relation, (*made, *extra))
    return FirstRows(TopK(projected, partition, order, limit, offset), as_fields(before.items, made), partition)


def _extra(made: Sequence[Output], needed: Sequence[Expr], environment: Environment) -> tuple[Output, ...]:
    """Fields for sort keys and partitions that are not selected."""
    selected = {output.expr for output in made}
    missing = dict.fromkeys(expr for expr in needed if expr not in selected)
    return tuple(Output(environment.books.fresh(f"{environment.path}order"), expr) for expr in missing)
