"""sqlglot's expressions to ours: names resolved, types known, every spelling of an operator one function.

A mistake is reported with its place and read as NULL, so that all mistakes of a query are found at once.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlglot import exp

from headrace.declare.query import calls, operators
from headrace.declare.query.aggregate_syntax import called_function
from headrace.declare.query.forms import FORMS, check_parts, in_list, is_query
from headrace.declare.query.known_functions import AGGREGATES, MAINTAINED_AGGREGATES, WINDOW_FUNCTIONS
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres import as_spark
from headrace.declare.query.postgres_rows import name_columns
from headrace.declare.query.scope import fold
from headrace.declare.query.spelling import refuse_expression
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.text import DEEPEST, too_deep
from headrace.meaning.array_functions import LAMBDAS
from headrace.meaning.functions import FUNCTIONS
from headrace.model.dialect import SqlDialect
from headrace.model.expr import Call, Expr, Literal
from headrace.model.types import DAY_TIME, INT, STRING, TIMESTAMP, Array, Type


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
    if stage.environment.text.dialect is SqlDialect.SPARK:
        return _read_spark(node, stage)
    known = stage.values
    try:
        name_columns(node, stage)
        made = as_spark(node, lambda part: read_type(part, stage))
        read = stage.values.get(id(made))  # a part that was read for its type may be all that is left
        return _read_spark(made, stage) if read is None else read
    finally:
        stage.values = known


def read_type(part: exp.Expr, stage: QueryStage) -> Type:
    """The type of a part. Its value is kept, in case the part is read again; the tree keeps the type."""
    value = read_expression(part, stage)
    stage.values = {**stage.values, id(part): value}
    part.meta["type"] = value.type
    return value.type


def _read_spark(node: exp.Expr, stage: QueryStage) -> Expr:
    if isinstance(node, exp.Query):
        return _value_of_query(node, stage)
    operator = _QUANTIFIED.get(type(node))
    if operator is not None and isinstance(node.expression, exp.Any | exp.All) and is_query(node.expression):
        return _read_quantified(node, stage, operator)
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
    if not node.table and fold(node.name) in stage.elements:
        return stage.elements[fold(node.name)]
    if node.catalog:
        raise Mistake(f'column "{".".join(part.name for part in node.parts)}" does not exist')
    if (
        stage.window is not None
        and not node.table
        and node.name.lower() == stage.window.name
        and not stage.scope.find(stage.window.name, None)
    ):
        raise NotMaintained("struct column")
    return stage.column(node)


def _function(node: exp.Anonymous, stage: QueryStage) -> Expr:
    name, declared = node.name.lower(), stage.environment.declared.functions
    if name == "window_time" and name not in declared and stage.window is not None:
        return _read_window_time(node, stage)
    if name not in declared:
        _refuse_misplaced(name, stage)
    if name in ("aggregate", "reduce") and len(node.expressions) == 3 and isinstance(node.expressions[2], exp.Lambda):
        return read_fold(node, stage)
    if name in LAMBDAS and len(node.expressions) == 2 and isinstance(node.expressions[1], exp.Lambda):
        return read_lambda(name, node, stage)
    if name in UNIT_FIRST and len(node.expressions) == 3:
        unit = Literal(node.expressions[0].name, STRING)
        return calls.function(name, [unit, *(read_expression(part, stage) for part in node.expressions[1:])], declared)
    if any(isinstance(argument, exp.Lambda) for argument in node.expressions):
        raise NotMaintained(f"function: {name}", f"{', '.join(LAMBDAS)} are maintained with x -> ...")
    if any(isinstance(argument, exp.Star | exp.Distinct | exp.Alias | exp.Kwarg) for argument in node.expressions):
        raise Mistake(f'function "{name}" takes values: no "*", DISTINCT or names')
    return calls.function(name, [read_expression(argument, stage) for argument in node.expressions], declared)


UNIT_FIRST = ("timestampdiff", "timestampadd", "datediff", "date_diff", "dateadd", "date_add")
"""Functions whose first of three arguments is the bare name of a unit of time."""


def read_lambda(name: str, node: exp.Anonymous, stage: QueryStage) -> Expr:
    """`transform(array, x -> x + 1)`: the name stands for each element, before any column of that name."""
    array, written = read_expression(node.expressions[0], stage), node.expressions[1]
    if not isinstance(array.type, Array):
        raise Mistake(f'argument 1 of "{name}": {array.type} is not an array')
    if len(written.expressions) != 1:
        raise NotMaintained(f"function: {name} with the place of elements", "name the element alone: x -> ...")
    depth = 1 + 2 * sum(1 for _ in _find_lambdas_around(node))
    variable = Call("lambda_variable", (Literal(depth, INT),), array.type.element)
    before = stage.elements
    stage.elements = {**before, fold(written.expressions[0].name): variable}
    try:
        body = read_expression(written.this, stage)
    finally:
        stage.elements = before
    body = body if name == "transform" else operators.condition(body)
    return operators.call(name, (array, variable, body), FUNCTIONS[name].result_type((array, variable, body)))


def read_fold(node: exp.Anonymous, stage: QueryStage) -> Expr:
    """`aggregate(array, 0, (sum, x) -> sum + x)`: the first name stands for what was computed before."""
    array, start = (read_expression(part, stage) for part in node.expressions[:2])
    written = node.expressions[2]
    if not isinstance(array.type, Array):
        raise Mistake(f'argument 1 of "{node.name.lower()}": {array.type} is not an array')
    if len(written.expressions) != 2:
        raise Mistake("two names stand before ->: that of what was computed before, and that of the element")
    depth = 1 + 2 * sum(1 for _ in _find_lambdas_around(node))
    made = Call("lambda_variable", (Literal(depth, INT),), start.type)
    element = Call("lambda_variable", (Literal(depth + 1, INT),), array.type.element)
    before, names = stage.elements, [fold(name.name) for name in written.expressions]
    stage.elements = {**before, names[0]: made, names[1]: element}
    try:
        body = read_expression(written.this, stage)
    finally:
        stage.elements = before
    if body.type != start.type:
        raise Mistake(f"the start has type {start.type}, and each step {body.type}", f"CAST the start AS {body.type}")
    return operators.call("aggregate", (array, start, made, element, body), start.type)


def _read_transform(node: exp.Transform, stage: QueryStage) -> Expr:
    call = exp.Anonymous(this="transform", expressions=[node.this, node.expression])
    call.parent = node.parent
    return _function(call, stage)


def _find_lambdas_around(node: exp.Expr) -> Iterator[exp.Lambda]:
    around = node.parent
    while around is not None:
        if isinstance(around, exp.Lambda):
            yield around
        around = around.parent


def _read_name(node: exp.Identifier, stage: QueryStage) -> Expr:
    """A name in the body of x -> ...: that of an element, or of a column."""
    element = stage.elements.get(fold(node.name))
    return stage.column(exp.Column(this=node.copy())) if element is None else element


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


def _read_window_time(node: exp.Anonymous, stage: QueryStage) -> Expr:
    """`window_time(window)`: the last instant of the window."""
    assert stage.window is not None
    (argument,) = node.expressions if len(node.expressions) == 1 else (None,)
    named = isinstance(argument, exp.Column) and not argument.table and argument.name.lower() == stage.window.name
    if not named and argument != stage.window.node:
        raise Mistake('"window_time" takes the window of GROUP BY', f"write window_time({stage.window.name})")
    return Call("-", (stage.window.end, Literal(dt.timedelta(microseconds=1), DAY_TIME)), TIMESTAMP)


def _window_refusal(name: str, stage: QueryStage) -> NotMaintained:
    if name == "session_window" and stage.window is None:
        return NotMaintained("session window outside group by")
    return NotMaintained("struct column" if stage.window is not None else "window outside group by")


def _field(node: exp.Dot, stage: QueryStage) -> Expr:
    """`window(...).start`."""
    if stage.window is not None and node.this == stage.window.node:
        return stage.window.bound(node.expression.name)
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() in ("window", "session_window"):
        raise _window_refusal(node.this.name.lower(), stage)
    raise NotMaintained("struct column", "keep the parts in columns of their own")


def _read_window(node: exp.Window, stage: QueryStage) -> Expr:
    name = window_function(node)
    if stage.windowing is None:
        hint = (
            "compute it in a query of its own, in FROM" if stage.clause != "WHERE" else "use QUALIFY in place of WHERE"
        )
        raise Mistake(f'window function "{name}" is not allowed in {stage.clause}', hint)
    return stage.windowing(stage, node)


def window_function(node: exp.Window) -> str:
    """The name of the function before OVER."""
    name = called_function(node.this)
    if name is None:
        raise Mistake("OVER follows a function")
    return name


def _value_of_query(node: exp.Expr, stage: QueryStage) -> Expr:
    if stage.subquery is None:
        raise NotMaintained("subquery in ON" if stage.clause == "ON" else "subquery as a value")
    return stage.subquery(stage, node)


def _in(node: exp.In, stage: QueryStage) -> Expr:
    if node.args.get("query"):
        return _read_quantified(node, stage)
    return in_list(node, lambda part: read_expression(part, stage))


def _read_quantified(node: exp.Expr, stage: QueryStage, operator: str | None = None) -> Expr:
    if stage.quantified is None:
        raise NotMaintained("subquery in ON" if stage.clause == "ON" else "subquery as a value")
    return stage.quantified(stage, node, operator)


_QUANTIFIED: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""Comparisons that ANY and ALL may follow."""


_READERS: Mapping[type[exp.Expr], Callable[[Any, QueryStage], Expr]] = {
    exp.Column: _read_column,
    exp.Anonymous: _function,
    exp.Identifier: _read_name,
    exp.Transform: _read_transform,
    exp.Filter: lambda node, stage: read_expression(node.this, stage),  # no aggregate here: its reader says why
    exp.Dot: _field,
    exp.Window: _read_window,
    exp.In: _in,
    exp.Exists: _read_quantified,
}
