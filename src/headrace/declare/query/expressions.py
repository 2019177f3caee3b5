"""sqlglot's expressions to ours: names resolved, types known, every spelling of an operator one function.

A mistake is reported with its place and read as NULL, so that all mistakes of a query are found at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from headrace.declare.query import calls, operators
from headrace.declare.query.forms import FORMS, check_parts, in_list
from headrace.declare.query.known_functions import AGGREGATES, MAINTAINED_AGGREGATES, WINDOW_FUNCTIONS
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.spelling import refuse_expression
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.text import DEEPEST, too_deep
from headrace.model.expr import Expr


def read_value(node: exp.Expr, stage: QueryStage) -> Expr:
    """A whole expression, over the rows at hand."""
    return check_expression(node, stage, lambda: stage.finished(read_expression(node, stage)))


def read_condition(node: exp.Expr, stage: QueryStage) -> Expr:
    """A whole condition, over the rows at hand."""
    return check_expression(node, stage, lambda: operators.condition(stage.finished(read_expression(node, stage))))


def check_expression(node: exp.Expr, stage: QueryStage, make: Callable[[], Expr]) -> Expr:
    """What `make` makes of a node, or UNKNOWN after a mistake, which is reported at the node's place."""
    with PlacedMistakes(stage, node):
        return make()
    return operators.UNKNOWN


def read_expression(node: exp.Expr, stage: QueryStage) -> Expr:
    """What an expression means at a stage, before grouping is considered."""
    known = stage.values.get(id(node))
    if known is not None:
        return known
    books = stage.environment.books
    books.depth += 1
    if books.depth > DEEPEST:
        raise too_deep(stage.environment.at(node))
    try:
        return check_expression(node, stage, lambda: _read_node(node, stage))
    finally:
        books.depth -= 1


def _read_node(node: exp.Expr, stage: QueryStage) -> Expr:
    if isinstance(node, exp.Query):
        return _value_of_query(node, stage)
    check_parts(node)
    if type(node) in FORMS:
        value = FORMS[type(node)](node, lambda part: read_expression(part, stage))
    elif type(node) in _READERS:
        value = _READERS[type(node)](node, stage)
    else:
        raise refuse_expression(node)
    if value in (calls.NOW, calls.TODAY):
        stage.environment.books.now_place = stage.environment.at(node)
    return value


def _read_column(node: exp.Column, stage: QueryStage) -> Expr:
    if isinstance(node.this, exp.Star):
        raise Mistake('"*" stands for columns of a SELECT list, not for a value')
    if node.catalog:
        raise Mistake(f'column "{".".join(part.name for part in node.parts)}" does not exist')
    if (
        stage.window is not None
        and not node.table
        and node.name.lower() == "window"
        and not stage.scope.find("window", None)
    ):
        raise NotMaintained("struct column")
    return stage.column(node)


def _function(node: exp.Anonymous, stage: QueryStage) -> Expr:
    name, declared = node.name.lower(), stage.environment.declared.functions
    if name not in declared:
        _refuse_misplaced(name, stage)
    if any(isinstance(argument, exp.Star | exp.Distinct | exp.Alias | exp.Kwarg) for argument in node.expressions):
        raise Mistake(f'function "{name}" takes values: no "*", DISTINCT or names')
    return calls.function(name, [read_expression(argument, stage) for argument in node.expressions], declared)


def _refuse_misplaced(name: str, stage: QueryStage) -> None:
    """Functions that mean something only in certain places, elsewhere."""
    if name in ("window", "session_window"):
        raise _window_refusal(name, stage)
    if name in AGGREGATES - MAINTAINED_AGGREGATES:
        raise NotMaintained(f"aggregate: {name}")
    if name in AGGREGATES:
        hint = "conditions on groups go to HAVING" if stage.clause == "WHERE" else None
        raise Mistake(f'aggregate "{name}" is not allowed in {stage.clause}', hint)
    if name in WINDOW_FUNCTIONS:
        raise Mistake(f'"{name}" needs OVER (...)')


def _window_refusal(name: str, stage: QueryStage) -> NotMaintained:
    if name == "session_window":
        return NotMaintained("session window")
    return NotMaintained("struct column" if stage.window is not None else "window outside group by")


def _field(node: exp.Dot, stage: QueryStage) -> Expr:
    """`window(...).start`."""
    if stage.window is not None and node.this == stage.window.node:
        return stage.window.bound(node.expression.name)
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() in ("window", "session_window"):
        raise _window_refusal(node.this.name.lower(), stage)
    raise NotMaintained("struct column", "keep the parts in columns of their own")


def _read_rank(node: exp.Window, stage: QueryStage) -> Expr:
    name = window_function(node)
    if stage.ranking is None:
        raise NotMaintained(f"window function: {name}")
    return stage.ranking(stage, node)


def window_function(node: exp.Window) -> str:
    """The name of the function before OVER."""
    inner = node.this
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    if not isinstance(inner, exp.Anonymous):
        raise Mistake("OVER follows a function")
    return inner.name.lower()


def _value_of_query(node: exp.Expr, stage: QueryStage) -> Expr:
    if stage.subquery is None:
        raise NotMaintained("subquery in ON" if stage.clause == "ON" else "subquery as a value")
    return stage.subquery(stage, node)


def _in(node: exp.In, stage: QueryStage) -> Expr:
    if node.args.get("query"):
        raise _subquery_refusal(node, stage)
    return in_list(node, lambda part: read_expression(part, stage))


def _exists(node: exp.Exists, stage: QueryStage) -> Expr:
    raise _subquery_refusal(node, stage)


def _subquery_refusal(node: exp.Expr, stage: QueryStage) -> NotMaintained:
    if stage.clause == "ON":
        return NotMaintained("subquery in ON")
    around = node.find_ancestor(exp.Or, exp.Query)
    return NotMaintained("subquery under OR" if isinstance(around, exp.Or) else "subquery as a value")


_READERS: Mapping[type[exp.Expr], Callable[[Any, QueryStage], Expr]] = {
    exp.Column: _read_column,
    exp.Anonymous: _function,
    exp.Filter: lambda node, stage: read_expression(node.this, stage),  # no aggregate here: its reader says why
    exp.Dot: _field,
    exp.Window: _read_rank,
    exp.In: _in,
    exp.Exists: _exists,
}
