"""WHERE and HAVING: conditions become a filter, EXISTS and IN semi and anti joins, scalar subqueries joins below the
filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.environment import Purpose, Rows
from headrace.declare.query.expressions import check_expression, read_condition, read_value
from headrace.declare.query.forms import check_parts, is_query, operands
from headrace.declare.query.inner_queries import read_inner
from headrace.declare.query.mistakes import Mistake
from headrace.declare.query.quantified import as_compared
from headrace.declare.query.ranking import keep_first
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.model.expr import TRUE, Call, Column, Expr, Literal, columns_of, conjunction, conjuncts
from headrace.model.promotion import common_type
from headrace.model.relation import Filter, Join, JoinKind, Relation, fields_of

_STRICT = frozenset(("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "div", "%", "negate", "cast", "not", "like"))
"""Functions that are NULL when an argument is: enough to see that a comparison drops rows without a match."""

_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "like", "in"))


def keep_where(node: exp.Expr, stage: QueryStage) -> None:
    """Keep the rows at hand for which a condition holds. Plain parts come first, then EXISTS and IN, then the rest."""
    parts = operands(node) if isinstance(node.unnest(), exp.And) else [node.unnest()]
    members = [part for part in parts if _membership(part) is not None]
    others = [part for part in parts if part not in members and part.find(exp.Query) is not None]
    plain = [part for part in parts if part not in members and part not in others]
    _keep([read_condition(part, stage) for part in plain], stage)
    for part in members:
        with PlacedMistakes(stage, part):
            _keep_members(part, stage)
    for part in others:
        before = stage.relation
        condition = read_condition(part, stage)
        stage.relation = _without_unmatched(stage.relation, before, condition)
        _keep([condition], stage)


def _keep(conditions: Sequence[Expr], stage: QueryStage) -> None:
    """Filter the rows at hand. Conditions that name columns of the query around wait for their place there."""
    parts = tuple(part for condition in conditions for part in conjuncts(condition))
    stage.relation, parts = keep_first(stage.relation, parts)
    here = {field.name for field in fields_of(stage.relation)}
    in_place = stage.environment.in_place
    own = tuple(dict.fromkeys(part for part in parts if in_place or columns_of(part) <= here))
    stage.correlated += tuple(part for part in parts if part not in own)
    stage.not_null |= {name for part in own for name in _proven(part)}
    kept = tuple(part for part in own if not _place_in_join(part, stage))
    if kept:
        stage.relation = Filter(stage.relation, conjunction(kept))


def _place_in_join(part: Expr, stage: QueryStage) -> bool:
    """Make `FROM a, b WHERE a.k = b.k` the join that it is. What could fail stays behind the conditions that may guard
    it.
    """
    joined = _add_to_join(part, stage.relation) if _is_plain_equality(part) else None
    stage.relation = joined or stage.relation
    return joined is not None


def _is_plain_equality(part: Expr) -> bool:
    return isinstance(part, Call) and part.function == "=" and all(map(_is_widened_column, part.arguments))


def _is_widened_column(expr: Expr) -> bool:
    match expr:
        case Call("cast", (Column() as column,), type_):
            return common_type(column.type, type_) == type_
    return isinstance(expr, Column)


def _add_to_join(part: Expr, relation: Relation) -> Relation | None:
    """The tree with the condition in the lowest inner join that has columns of it on both sides."""
    if not isinstance(relation, Join) or relation.kind != JoinKind.INNER:
        return None
    left, right = (
        ({field.name for field in fields_of(side)} & columns_of(part)) for side in (relation.left, relation.right)
    )
    if left and right:
        return replace(relation, on=conjunction((*conjuncts(relation.on), part)))
    if left:
        inner = _add_to_join(part, relation.left)
        return None if inner is None else replace(relation, left=inner)
    inner = _add_to_join(part, relation.right)
    return None if inner is None else replace(relation, right=inner)


def _proven(part: Expr) -> tuple[str, ...]:
    """Columns that cannot be NULL in rows for which the condition holds."""
    if not isinstance(part, Call):
        return ()
    if part.function == "not" and isinstance(part.arguments[0], Call) and part.arguments[0].function == "is_null":
        arguments = part.arguments[0].arguments
    elif part.function in _COMPARISONS:
        arguments = part.arguments[:1] if part.function == "in" else part.arguments
    else:
        return ()
    return tuple(argument.name for argument in arguments if isinstance(argument, Column))


def _without_unmatched(relation: Relation, before: Relation, condition: Expr) -> Relation:
    """The joins with scalar subqueries above `before`: inner where the condition drops rows without a match."""
    if relation is before or not isinstance(relation, Join):
        return relation
    left = _without_unmatched(relation.left, before, condition)
    added = frozenset(field.name for field in fields_of(relation.right))
    inner = relation.kind == JoinKind.LEFT and _null_with(condition, added)
    return replace(relation, left=left, kind=JoinKind.INNER if inner else relation.kind)


def _null_with(expr: Expr, columns: frozenset[str]) -> bool:
    """Whether the expression is certainly NULL when these columns are."""
    match expr:
        case Column(name):
            return name in columns
        case Call(function, arguments) if function in _STRICT:
            return any(_null_with(argument, columns) for argument in arguments)
    return False


def _membership(node: exp.Expr) -> tuple[exp.Exists | exp.In, bool] | None:
    """An EXISTS or IN (SELECT ...), and whether it is negated."""
    negated, inner = False, node.unnest()
    while isinstance(inner, exp.Not):
        negated, inner = not negated, inner.this.unnest()
    if isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and inner.args.get("query")):
        return inner, negated
    if isinstance(inner, exp.EQ) and isinstance(inner.expression, exp.Any) and is_query(inner.expression):
        return exp.In(this=inner.this.copy(), query=inner.expression.this.copy()), negated
    if isinstance(inner, exp.NEQ) and isinstance(inner.expression, exp.All) and is_query(inner.expression):
        return exp.In(this=inner.this.copy(), query=inner.expression.this.copy()), not negated
    return None


def _keep_members(part: exp.Expr, stage: QueryStage) -> None:
    found = _membership(part)
    assert found is not None
    node, negated = found
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    rows, matches = _in(node, stage, negated) if isinstance(node, exp.In) else _exists(node, stage)
    right, matches = keep_first(rows.relation, (*rows.correlated, *matches))
    stage.relation = Join(kind, stage.relation, right, conjunction(matches))


def _exists(node: exp.Exists, stage: QueryStage) -> tuple[Rows, tuple[Expr, ...]]:
    return read_inner(node.this, "exists", stage, Purpose.EXISTENCE), ()


def _in(node: exp.In, stage: QueryStage, negated: bool) -> tuple[Rows, tuple[Expr, ...]]:
    check_parts(node)
    values = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    left = [read_value(value, stage) for value in values]
    rows = read_inner(node.args["query"], "in", stage, Purpose.MEMBERS)
    left, rows = as_compared(values, left, rows, stage)
    equal = check_expression(node, stage, lambda: _equal(left, rows))
    certain = all(_never_null(value, stage.not_null) for value in left) and all(
        _never_null(column.value, rows.not_null) for column in rows.columns
    )
    if negated and not certain:
        return rows, (operators.is_not_false(operators.condition(equal)),)
    return rows, conjuncts(equal)


def _equal(left: Sequence[Expr], rows: Rows) -> Expr:
    if len(left) != len(rows.columns):
        if not rows.complete:
            return TRUE
        raise Mistake(f"IN compares {len(left)} values with {len(rows.columns)} columns")
    pairs = zip(left, rows.columns, strict=True)
    return operators.connect("and", [operators.compare("=", value, column.value) for value, column in pairs])


def _never_null(expr: Expr, not_null: frozenset[str]) -> bool:
    match expr:
        case Literal(value):
            return value is not None
        case Column(name):
            return name in not_null
        case Call("cast", (argument,)):
            return _never_null(argument, not_null)
    return False
