"""What a SELECT of PostgreSQL's leaves unsaid and Spark asks for, and what Spark cannot say at all."""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.aggregate_syntax import called_function
from headrace.declare.query.grouping_sets import written_sets
from headrace.declare.query.known_functions import AGGREGATES
from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_names import find_postgres_name
from headrace.declare.query.scope import fold

_NEED_ORDER = frozenset(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"))
_MONTHS = ("month", "year", "mon", "quarter", "decade", "century")


def group_by_all(select: exp.Select) -> None:
    """Groups by the columns that PostgreSQL takes as they are, since GROUP BY names the key of their table."""
    group = select.args.get("group")
    if group is None or written_sets(group) is not None:
        return
    items = list(select.expressions)
    keys = [key.unnest() for key in group.expressions]
    places = {int(key.name) for key in keys if isinstance(key, exp.Literal) and key.is_int}
    named = {fold(key.name) for key in keys if isinstance(key, exp.Column) and not key.table}
    left = [
        item.unalias()
        for place, item in enumerate(items, 1)
        if place not in places and not (isinstance(item, exp.Alias) and fold(item.alias) in named)
    ]
    keys += [items[place - 1].unalias() for place in places]
    having = select.args.get("having")
    found = [column for part in (*left, *([having.this] if having else [])) for column in _find_bare(part, keys)]
    aliases = {fold(item.alias) for item in items if isinstance(item, exp.Alias)}
    added = {column.sql(): column for column in found if column.table or fold(column.name) not in aliases}
    group.set("expressions", [*group.expressions, *(column.copy() for column in added.values())])


def _find_bare(node: exp.Expr, keys: list[exp.Expr]) -> list[exp.Column]:
    """Columns outside of aggregates, subqueries and keys."""
    if isinstance(node, exp.Query) or called_function(node) in AGGREGATES or any(node.unnest() == key for key in keys):
        return []
    if isinstance(node, exp.Column):
        same = {fold(key.name) for key in keys if isinstance(key, exp.Column)}
        is_bound = node.table.lower() in ("window", "session_window")
        return [] if fold(node.name) in same or isinstance(node.this, exp.Star) or is_bound else [node]
    return [column for part in node.iter_expressions() for column in _find_bare(part, keys)]


def name_items(select: exp.Select) -> None:
    """Names the columns that have no name as PostgreSQL does, which queries around and ORDER BY may use."""
    items, taken = list[exp.Expr](), {fold(item.alias_or_name) for item in select.expressions}
    for item in select.expressions:
        plain = isinstance(item, exp.Alias | exp.Aliases | exp.Star | exp.Column | exp.Dot)
        name = None if plain else find_postgres_name(item)
        if name is None or fold(name) in taken:
            items.append(item)
            continue
        taken.add(fold(name))
        items.append(exp.Alias(this=item, alias=exp.to_identifier(name, quoted=True)))
    select.set("expressions", items)


def refuse_for_spark(node: exp.Expr) -> None:
    """Refuses what Spark's parser takes and nothing behind it does."""
    match node:
        case exp.Any() | exp.All() if isinstance(node.this.unnest(), exp.Query):
            hint = "x = ANY (SELECT ...) is x IN (SELECT ...); compare with an aggregate: x > (SELECT max(...) ...)"
            raise NotMaintained("expression: ANY or ALL of a query, in Spark's words", hint)
        case exp.Window(this=exp.Anonymous(this=str(name))) if name.lower() in _NEED_ORDER and not node.args.get(
            "alias"
        ):
            if not node.args.get("order"):
                raise NotMaintained(
                    f"window function: {name.lower()} without ORDER BY, in Spark's words", "add ORDER BY"
                )
        case exp.WindowSpec() if str(node.args.get("kind")).upper() == "RANGE":
            bounds = [node.args.get(side) for side in ("start", "end")]
            units = {_counts_months(bound) for bound in bounds if isinstance(bound, exp.Expr)}
            if len(units) > 1:
                hint = "use months on both sides, or days"
                raise NotMaintained("window frame: months and days on different sides, in Spark's words", hint)
        case exp.Column():
            node.set("db", None)
            _refuse_far_columns(node)


def _counts_months(bound: exp.Expr) -> bool:
    return any(unit in bound.sql(dialect="postgres").lower() for unit in _MONTHS)


def _refuse_far_columns(column: exp.Column) -> None:
    """A query of Spark's names columns of the query around it, and of none beyond; its aggregates name its own."""
    around = list[exp.Select]()
    inner, in_aggregate = column.parent, False
    while inner is not None and column.table:
        if isinstance(inner, exp.Select):
            around.append(inner)
            if fold(column.table) in _shown(inner):
                break
        elif not around:
            in_aggregate |= called_function(inner) in AGGREGATES
        inner = inner.parent
    else:
        return
    if len(around) > 2 or (len(around) == 2 and in_aggregate):
        where = "an aggregate" if len(around) == 2 else "two queries further in"
        raise NotMaintained(f"correlated subquery: a column named in {where}, in Spark's words", "write it as a join")


def _shown(select: exp.Select) -> set[str]:
    items = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return {fold(item.this.alias_or_name) for item in items if item is not None}
