"""PostgreSQL's queries written out as Spark's.

The tree was read before, so that its parts know their types. Where they do not, because nobody read that part, what
depends on types is refused: a query is never translated by guessing.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from headrace.declare.query.expressions import window_function
from headrace.declare.query.grouping_sets import written_sets
from headrace.declare.query.limits import has_ties
from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres import as_spark
from headrace.declare.query.postgres_aggregates import convert_aggregate
from headrace.declare.query.postgres_nodes import FIFTEEN_DIGITS, IN_SPARK_WORDS, make_cast
from headrace.declare.query.scope import fold
from headrace.declare.query.spark_select import group_by_all, name_items, refuse_for_spark
from headrace.declare.query.spark_signs import keep_order
from headrace.declare.query.spelling import refuse_clause, unknown_to_spark
from headrace.meaning.json_functions import ONLY_OURS
from headrace.model.full_query import backquote
from headrace.model.types import Type

OF_ROWS = frozenset(
    """unnest generate_series jsonb_object_keys string_to_table regexp_split_to_table json_array_elements jsonb_each
    json_array_elements_text jsonb_array_elements jsonb_array_elements_text json_each json_each_text
    jsonb_each_text""".split()
)
"""Functions of PostgreSQL that give rows."""
_COUNTED_AS_BIGINT = ("row_number", "rank", "dense_rank")
"""Window functions that are of type int in Spark."""
_DECIMAL15 = f"CAST(FORMAT_NUMBER({{}}, '{FIFTEEN_DIGITS}') AS DECIMAL(38, 18))"


def spark_query(tree: exp.Expr, *, pretty: bool = False) -> str:
    """The text in Spark's dialect. Raises NotMaintained for what depends on a type that is not known."""
    converted = _convert(tree.copy())
    return str(_SparkWriter(dialect="spark", pretty=pretty, normalize_functions=False).generate(converted))


def _convert(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Group):
        _refuse_other_groups(node)
    _refuse_rows(node)
    refuse_for_spark(node)
    if isinstance(node, exp.Select):
        group_by_all(node)
        name_items(node)
        _refuse_distinct_on(node)
        _rank_ties(node)
    made = as_spark(node, _known_type)
    _refuse_rows(made)
    _refuse_unknown(made)
    made = convert_aggregate(made, _known_type)
    for key, value in list(made.args.items()):
        if isinstance(value, exp.Expr):
            made.set(key, _convert(value))
        elif isinstance(value, list):
            made.set(key, [_convert(part) if isinstance(part, exp.Expr) else part for part in value])
    keep_order(made)
    return make_cast(made, "BIGINT") if isinstance(node, exp.Window) and _counts_rows(node) else made


def _counts_rows(node: exp.Window) -> bool:
    """WINDOW w AS (...) has no function, and counts nothing."""
    return isinstance(node.this, exp.Func) and window_function(node) in _COUNTED_AS_BIGINT


def _refuse_distinct_on(select: exp.Select) -> None:
    """sqlglot ranks the rows in a query inside, where LIMIT comes too early, `*` has the rank, and keys that name items
    are constants or unknown.
    """
    distinct, order = select.args.get("distinct"), select.args.get("order")
    if distinct is None or not distinct.args.get("on"):
        return
    on = distinct.args["on"]
    keys = [*(on.expressions if isinstance(on, exp.Tuple) else [on]), *(order.expressions if order else ())]
    named = {fold(item.alias) for item in select.expressions if isinstance(item, exp.Alias)}
    for key in keys:
        value = (key.this if isinstance(key, exp.Ordered) else key).unnest()
        if isinstance(value, exp.Literal) or (isinstance(value, exp.Column) and fold(value.name) in named):
            raise refuse_clause("on")
    if select.is_star or select.args.get("limit") or select.args.get("offset"):
        raise refuse_clause("on")


def _refuse_unknown(node: exp.Expr) -> None:
    """Words that sqlglot would leave out, or write as they are, without Spark knowing them."""
    refused = None if isinstance(node, exp.Distinct) else unknown_to_spark(node)
    if refused is not None:
        raise refused


def _rank_ties(select: exp.Select) -> None:
    """Writes FETCH FIRST n ROWS WITH TIES as a condition on ranks, where ORDER BY can stand in a window as it is."""
    limit, order = select.args.get("limit"), select.args.get("order")
    has_others = any(select.args.get(clause) for clause in ("distinct", "offset", "qualify"))
    if (
        limit is None
        or order is None
        or not has_ties(limit)
        or has_others
        or not all(map(_has_name, select.expressions))
    ):
        return
    named = {fold(item.alias): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    keys = []
    for key in order.expressions:
        value = key.this.unnest()
        if isinstance(value, exp.Literal):
            return
        own = named.get(fold(value.name)) if isinstance(value, exp.Column) and not value.table else None
        keys.append(key.copy())
        if own is not None:
            keys[-1].set("this", own.copy())
        if keys[-1].find(exp.Window, exp.Query):
            return
    rank = exp.Window(this=exp.Anonymous(this="RANK", expressions=[]), order=exp.Order(expressions=keys))
    test = exp.LTE(this=rank, expression=limit.args.get("count") or exp.Literal.number(1))
    select.set("qualify", exp.Qualify(this=test))
    select.set("limit", None)


def _has_name(item: exp.Expr) -> bool:
    return isinstance(item, exp.Alias) or (isinstance(item, exp.Column) and not item.is_star)


def _refuse_other_groups(group: exp.Group) -> None:
    """Grouping sets that mean something else in Spark's words."""
    sets = written_sets(group)
    if sets is not None and () in sets:
        hint = "over no rows it has none in Spark: write the total as a query of its own, with UNION ALL"
        raise NotMaintained("clause: GROUP BY with a total, in Spark's words", hint)
    if sets is not None and group.args.get("all") is False:
        raise NotMaintained("clause: GROUP BY DISTINCT, in Spark's words", "name each set once, in GROUPING SETS")
    if group.expressions:
        group.set("all", None)


def _refuse_rows(node: exp.Expr) -> None:
    """Functions of rows stand elsewhere in Spark's queries, and its JSON is written otherwise."""
    if isinstance(node, exp.Unnest) or (isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous)):
        raise NotMaintained("table function in PostgreSQL's dialect", "in Spark's, write LATERAL VIEW explode(...)")
    if isinstance(node, exp.Anonymous) and node.name.lower() in (*ONLY_OURS, *OF_ROWS):
        raise NotMaintained("expression: JSON or rows of PostgreSQL", "Spark has no function that means the same")


def _known_type(part: exp.Expr) -> Type:
    found = part.meta.get("type")
    if found is None:
        hint = "write the types: CAST(... AS ...) around both sides"
        raise NotMaintained(f"expression: {part.sql(dialect='postgres')} of a type that is not known", hint)
    assert not isinstance(found, str)
    return found  # type: ignore[no-any-return]  # `meta` holds anything


class _SparkWriter(SparkGenerator):
    """Spark's words, with names in backquotes where they were in quotes."""

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        arguments = [self.sql(argument) for argument in expression.expressions]
        if expression.name == "decimal15" and expression.meta.get(IN_SPARK_WORDS):
            return _DECIMAL15.format(*arguments)
        return f"{expression.name}({', '.join(arguments)})"

    def identifier_sql(self, expression: exp.Identifier) -> str:
        return backquote(expression.name) if expression.args.get("quoted") else expression.name
