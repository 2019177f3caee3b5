"""EXISTS, IN, ANY and ALL as values: under OR, in SELECT, in CASE. As conditions of WHERE they are semi and anti joins.

Each becomes a comparison with aggregates of the inner rows: how many there are, how many are NULL, how many are equal,
or the least and the greatest. `x < ANY (...)` is true if x is less than the greatest; if not, it is NULL where a NULL
was compared, and false else. `x < ALL (...)` is NOT `x >= ANY (...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.environment import Purpose, Rows, Size
from headrace.declare.query.expressions import read_value
from headrace.declare.query.forms import check_parts
from headrace.declare.query.inner_queries import read_inner
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_spans import compare_value
from headrace.declare.query.stage import QueryStage
from headrace.declare.query.subqueries import ROWS, attach_aggregates
from headrace.model.dialect import SqlDialect
from headrace.model.expr import FALSE, TRUE, Call, Column, Expr, Literal, columns_of
from headrace.model.relation import AggregateCall, AggregateFunction, Output, Projection, fields_of
from headrace.model.types import BIGINT, BOOLEAN

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", "<=": ">", ">": "<="}
_BOUNDS = {
    "<": (AggregateFunction.MAX,),
    "<=": (AggregateFunction.MAX,),
    ">": (AggregateFunction.MIN,),
    ">=": (AggregateFunction.MIN,),
    "<>": (AggregateFunction.MIN, AggregateFunction.MAX),
}
_UNKNOWN = Literal(None, BOOLEAN)


def read_quantified(stage: QueryStage, node: exp.Expr, operator: str | None = None) -> Expr:
    """The value of EXISTS, of IN (SELECT ...), or of a comparison with ANY or ALL, for each row at hand."""
    if isinstance(node, exp.Exists):
        return _read_exists(stage, node)
    if isinstance(node, exp.In):
        check_parts(node)
        return _read_any(stage, node.this, "=", node.args["query"], needs_null=not _only_true_counts(node))
    assert operator is not None, "a comparison has an operator"
    inner = node.expression
    if isinstance(inner, exp.Any):
        return _read_any(stage, node.this, operator, inner.this, needs_null=not _only_true_counts(node))
    value = _read_any(stage, node.this, _OPPOSITE[operator], inner.this, needs_null=True)
    return operators.negate_condition(value)


def _only_true_counts(node: exp.Expr) -> bool:
    """Whether false and NULL are the same here: rows are kept for which a condition is true."""
    child, parent = node, node.parent
    while isinstance(parent, exp.And | exp.Or | exp.Paren):
        child, parent = parent, parent.parent
    return isinstance(parent, exp.Where | exp.Having | exp.Qualify | exp.Join) or (
        isinstance(parent, exp.If) and parent.this is child
    )


def _read_exists(stage: QueryStage, node: exp.Exists) -> Expr:
    rows = read_inner(node.this, "exists", stage, Purpose.EXISTENCE, by_equality=True)
    if rows.size == Size.ONE:
        return TRUE
    (count,) = attach_aggregates(stage, rows, (ROWS,))
    return _is_positive(count)


def _read_any(stage: QueryStage, left: exp.Expr, operator: str, query: exp.Expr, *, needs_null: bool) -> Expr:
    parts = left.expressions if isinstance(left, exp.Tuple) else [left]
    values = [read_value(part, stage) for part in parts]
    rows = read_inner(query, "in", stage, Purpose.MEMBERS, by_equality=True)
    values, rows = as_compared(parts, values, rows, stage, is_order=operator in ("<", "<=", ">", ">="))
    if len(values) != len(rows.columns):
        if not rows.complete:
            raise Mistake("")
        raise Mistake(f"{len(values)} values are compared with {len(rows.columns)} columns")
    if len(values) > 1 and (needs_null or operator != "="):
        raise NotMaintained("subquery as a value", "compare one column, or use EXISTS")
    rows, members = _with_members(stage, rows, values)
    holds = _is_member(stage, rows, values, members) if operator == "=" else None
    if holds is not None and not needs_null:
        return holds
    return _with_unknown(stage, rows, (values[0], members[0]), operator, holds)


def as_compared(
    nodes: Sequence[exp.Expr], values: list[Expr], rows: Rows, stage: QueryStage, *, is_order: bool = False
) -> tuple[list[Expr], Rows]:
    """Both sides as PostgreSQL compares them."""
    if stage.environment.text.dialect is not SqlDialect.POSTGRES:
        return values, rows
    made = [
        compare_value(value, find_origin_type(node), is_order=is_order)
        for node, value in zip(nodes, values, strict=True)
    ]
    columns = (replace(one, value=compare_value(one.value, one.origin_type, is_order=is_order)) for one in rows.columns)
    return made, replace(rows, columns=tuple(columns))


def _with_members(stage: QueryStage, rows: Rows, values: list[Expr]) -> tuple[Rows, list[Expr]]:
    """The inner rows with what is compared as fields of their own."""
    environment = stage.environment
    own = tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(rows.relation))
    made: list[Output] = []
    for value, column in zip(values, rows.columns, strict=True):
        _, member = operators.unify([value, column.value], compared=True)
        made.append(Output(environment.books.fresh(f"{environment.path}subquery.member"), member))
    relation = Projection(rows.relation, (*own, *made))
    return replace(rows, relation=relation), [Column(output.name, output.expr.type) for output in made]


def _is_member(stage: QueryStage, rows: Rows, values: list[Expr], members: list[Expr]) -> Expr:
    """True or false: whether there is an equal row."""
    pairs = zip(values, members, strict=True)
    equal = tuple(operators.compare("=", member, value) for value, member in pairs)
    if not all(columns_of(part) for part in equal):
        raise NotMaintained("subquery as a value", "compare a column")
    (count,) = attach_aggregates(stage, replace(rows, correlated=(*rows.correlated, *equal)), (ROWS,))
    return _is_positive(count)


def _with_unknown(
    stage: QueryStage, rows: Rows, compared: tuple[Expr, Expr], operator: str, holds: Expr | None
) -> Expr:
    """The value of a comparison with any member, NULL where it is not known."""
    value, member = compared
    functions = _BOUNDS.get(operator, ())
    bounds = (AggregateCall("bound", function, member, False, member.type) for function in functions)
    known = AggregateCall("known", AggregateFunction.COUNT, member, False, BIGINT)
    count, known_count, *limits = attach_aggregates(stage, rows, (ROWS, known, *bounds))
    if holds is None:
        parts = [operators.compare(operator, value, limit) for limit in limits]
        holds = Call("coalesce", (operators.connect("or", parts) if len(parts) > 1 else parts[0], FALSE), BOOLEAN)
    unknown = operators.connect("or", [Call("is_null", (value,), BOOLEAN), Call("<", (known_count, count), BOOLEAN)])
    compared_with_null = operators.connect("and", [_is_positive(count), unknown])
    return Call("case", (holds, TRUE, compared_with_null, _UNKNOWN, FALSE), BOOLEAN)


def _is_positive(count: Expr) -> Expr:
    return Call(">", (count, Literal(0, BIGINT)), BOOLEAN)
