"""Window functions: what follows OVER, and what a function makes of the rows at hand.

Each function becomes a field of an `Over` on top of the rows at hand. Functions of one order share one; equal functions
share a field. A ranking alone may become a TopK later (`ranking`), where a condition keeps the first rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.aggregate_syntax import WrittenAggregate, read_written
from headrace.declare.query.aggregates import read_aggregate
from headrace.declare.query.correlation import split_conditions
from headrace.declare.query.expressions import read_value, window_function
from headrace.declare.query.frames import FULL_FRAME, read_frame
from headrace.declare.query.known_functions import MAINTAINED_AGGREGATES
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_spans import compare_value
from headrace.declare.query.ranking import read_order
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import fold
from headrace.declare.query.span_aggregates import is_of_spans, join_results, split_call
from headrace.declare.query.spelling import refuse_distinct
from headrace.declare.query.stage import QueryStage
from headrace.model.dialect import SqlDialect
from headrace.model.expr import Call, Column, Expr, Literal, columns_of
from headrace.model.relation import (
    AggregateCall,
    AggregateFunction,
    Frame,
    Order,
    Over,
    PlaceCall,
    Relation,
    WindowCall,
    WindowFunction,
    fields_of,
)
from headrace.model.types import BIGINT, DOUBLE, INT, INTEGERS, INTERVALS, NULL

_IN_FRAME = {
    **dict.fromkeys(("first", "first_value", "any_value"), WindowFunction.FIRST_VALUE),
    **dict.fromkeys(("last", "last_value"), WindowFunction.LAST_VALUE),
    "nth_value": WindowFunction.NTH_VALUE,
}
_BESIDE = {"lag": WindowFunction.LAG, "lead": WindowFunction.LEAD}
_OF_PLACE = {
    function.value: function
    for function in (
        WindowFunction.ROW_NUMBER,
        WindowFunction.RANK,
        WindowFunction.DENSE_RANK,
        WindowFunction.PERCENT_RANK,
        WindowFunction.CUME_DIST,
        WindowFunction.NTILE,
    )
}
_OF_DISTINCT = (AggregateFunction.COUNT, AggregateFunction.ARRAY_AGG, AggregateFunction.STRING_AGG)
_ASCENDING = (AggregateFunction.PERCENTILE_CONT, AggregateFunction.MODE)
"""Functions that Spark computes over frames in ascending order only."""
_LISTS = (AggregateFunction.ARRAY_AGG, AggregateFunction.STRING_AGG)
_WITH_FRACTIONS = (WindowFunction.PERCENT_RANK, WindowFunction.CUME_DIST)


@dataclass(frozen=True, slots=True)
class WrittenWindow:
    """What is written after OVER, with what a named window adds."""

    partition: tuple[exp.Expr, ...]
    order: exp.Expr | None
    spec: exp.Expr | None


def read_window(stage: QueryStage, node: exp.Window) -> Expr:
    """The value of a window function for each row at hand."""
    name, window = window_function(node), _written_window(node, stage)
    inside = replace(stage, clause="a window function", windowing=None)
    partition = (*(_read_partition(part, inside) for part in window.partition), *_find_own_rows(inside))
    order = () if window.order is None else read_order(window.order, inside)
    if window.order is not None and not order and (stage.environment.report.errors or not stage.scope.complete):
        raise Mistake("")  # it is there, and what is wrong with it is told already
    if _counts_groups(window):
        window, order = _count_groups(inside, window, partition, order)
    call = _WindowReader(node, name, inside, window, order).call()
    stage.relation = inside.relation  # subqueries inside have extended it
    if isinstance(call.compute, AggregateCall) and is_of_spans(call.compute):
        parts = (replace(call, compute=part, type=part.type) for part in split_call(call.compute))
        return join_results(call.compute, [_add_call(stage, name, partition, order, part) for part in parts])
    value = _add_call(stage, name, partition, order, call)
    is_spark = stage.environment.text.dialect is SqlDialect.SPARK
    if isinstance(call.compute, AggregateCall) and call.compute.function is AggregateFunction.ARRAY_AGG:
        # A list of PostgreSQL's is NULL without rows, where ours is empty.
        return value if is_spark else Call("nullif", (value, Literal((), call.type)), call.type)
    counts = isinstance(call.compute, PlaceCall) and name in _OF_PLACE and call.type == BIGINT
    return operators.convert(value, INT) if counts and (is_spark or name == "ntile") else value


def _counts_groups(window: WrittenWindow) -> bool:
    return window.spec is not None and str(window.spec.args.get("kind")).upper() == "GROUPS"


def _count_groups(
    stage: QueryStage, window: WrittenWindow, partition: tuple[Expr, ...], order: tuple[Order, ...]
) -> tuple[WrittenWindow, tuple[Order, ...]]:
    """A frame of so many groups of peers as one of so many numbers around that of the row's group."""
    if not order:
        raise Mistake("GROUPS needs ORDER BY", "rows that it does not tell apart are a group")
    rank = WindowCall("", BIGINT, PlaceCall(WindowFunction.DENSE_RANK))
    group = _add_call(stage, "dense_rank", partition, order, rank)
    assert window.spec is not None, "it is a frame of groups"
    spec = window.spec.copy()
    spec.set("kind", "RANGE")
    return replace(window, spec=spec), (Order(group, descending=False, nulls_first=True),)


def _read_partition(node: exp.Expr, stage: QueryStage) -> Expr:
    value = read_value(node, stage)
    if stage.environment.text.dialect is not SqlDialect.POSTGRES:
        return value
    return compare_value(value, find_origin_type(node), is_order=False)


def _find_own_rows(stage: QueryStage) -> tuple[Expr, ...]:
    """What tells the rows apart that each row of the query around has for itself."""
    if not stage.correlated:
        return ()
    sides = split_conditions(stage.correlated, {field.name for field in fields_of(stage.relation)})
    if sides is None:
        environment = stage.environment
        refuse("correlated subquery", environment.books.outer_place or environment.text.origin)
    return tuple(dict.fromkeys(side.inner for side in sides))


def windows_in(*clauses: exp.Expr | None) -> Iterator[exp.Window]:
    """The window functions of clauses, without those of subqueries."""
    for clause in clauses:
        if isinstance(clause, exp.Window):
            yield clause
        elif clause is not None and not isinstance(clause, exp.Query):
            yield from windows_in(*clause.iter_expressions())


def _written_window(node: exp.Window, stage: QueryStage, seen: tuple[str, ...] = ()) -> WrittenWindow:
    own = WrittenWindow(tuple(node.args.get("partition_by") or ()), node.args.get("order"), node.args.get("spec"))
    if not node.args.get("alias"):
        return own
    name = fold(node.args["alias"].name)
    base = stage.named_windows.get(name)
    if base is None or name in seen:
        raise Mistake(f'window "{node.args["alias"].name}" is not declared', "add WINDOW name AS (...) after HAVING")
    named = _written_window(base, stage, (*seen, name))
    if own == WrittenWindow((), None, None):
        return named
    if own.partition or (own.order and named.order) or named.spec:
        hint = "a window that another one is built on has its own PARTITION BY, and no frame"
        raise Mistake(f'what is written after window "{name}" is said there already', hint)
    return WrittenWindow(named.partition, own.order or named.order, own.spec)


def _add_call(
    stage: QueryStage, name: str, partition: tuple[Expr, ...], order: tuple[Order, ...], call: WindowCall
) -> Expr:
    """The field of a call, in the window that has its order if there is one."""
    key = (partition, order, call)
    known = stage.read_windows.get(key)
    if known is None:
        environment = stage.environment
        field = environment.books.fresh(f"{environment.path}{name}")
        read = {
            column for expr in (*partition, *(one.expr for one in order), *call.inputs) for column in columns_of(expr)
        }
        named = replace(call, name=field)
        found = _add_to_window(stage.relation, partition, order, named, read)
        stage.relation = found or Over(stage.relation, partition, order, (named,))
        known = stage.read_windows[key] = Column(field, call.type)
    return known


def _add_to_window(
    relation: Relation, partition: tuple[Expr, ...], order: tuple[Order, ...], call: WindowCall, read: set[str]
) -> Relation | None:
    """The windows on top of the rows with a call added to the one of its order, if that has the columns it reads."""
    if not isinstance(relation, Over):
        return None
    if (relation.partition, relation.order) == (partition, order):
        if read <= {field.name for field in fields_of(relation.input)}:
            return replace(relation, calls=(*relation.calls, call))
        return None
    below = _add_to_window(relation.input, partition, order, call, read)
    return None if below is None else replace(relation, input=below)


@dataclass(frozen=True, slots=True)
class _WindowReader:
    """Reads the function before OVER."""

    node: exp.Window
    name: str
    stage: QueryStage
    window: WrittenWindow
    order: tuple[Order, ...]

    def call(self) -> WindowCall:
        if self.name in self.stage.environment.declared.functions:
            raise Mistake(f'function "{self.name}" does not take OVER')
        for names, read in (
            (_OF_PLACE, self._read_place),
            (_BESIDE, self._read_beside),
            (_IN_FRAME, self._read_in_frame),
        ):
            if self.name in names:
                return read(self._written())
        if self.name not in MAINTAINED_AGGREGATES:
            raise NotMaintained(f"window function: {self.name}")
        return self._read_aggregate()

    def _written(self) -> WrittenAggregate:
        """The parts of a function that is not an aggregate."""
        written = read_written(self.node.this)
        if written.only_if is not None:
            raise Mistake(f'"{self.name}" does not take FILTER', "FILTER (WHERE ...) goes with aggregates")
        if written.distinct or written.order:
            raise Mistake(f'"{self.name}" takes neither DISTINCT nor ORDER BY in its parentheses')
        arguments = written.arguments
        if arguments and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
            skips = isinstance(arguments[0], exp.IgnoreNulls)
            written = replace(written, arguments=(arguments[0].this, *arguments[1:]), nulls=not skips)
        return written

    # Functions

    def _read_place(self, written: WrittenAggregate) -> WindowCall:
        function = _OF_PLACE[self.name]
        self._need_order()
        self._refuse_frame()
        self._refuse_nulls(written)
        if function is WindowFunction.NTILE:
            (count,) = self._take(written, 1, 1)
            return WindowCall("", BIGINT, PlaceCall(function, count=self._constant(count, "number of parts", 1)))
        self._take(written, 0, 0)
        return WindowCall("", DOUBLE if function in _WITH_FRACTIONS else BIGINT, PlaceCall(function))

    def _read_beside(self, written: WrittenAggregate) -> WindowCall:
        self._need_order()
        self._refuse_frame()
        value, *others = self._take(written, 1, 3)
        distance = self._constant(others[0], "distance") if others else 1
        function = _BESIDE[self.name]
        if distance < 0:
            other = WindowFunction.LEAD if function is WindowFunction.LAG else WindowFunction.LAG
            function, distance = other, -distance
        read = self._value(value)
        arguments: tuple[Expr, ...] = (read,)
        if len(others) > 1:
            default = read_value(others[1], self.stage)
            if default != operators.UNKNOWN:
                arguments = (read, operators.convert(default, read.type))
        return WindowCall("", read.type, PlaceCall(function, arguments, distance, written.nulls is False))

    def _read_in_frame(self, written: WrittenAggregate) -> WindowCall:
        function, count, skips = _IN_FRAME[self.name], 1, written.nulls is False
        value, *others = self._take(written, 2 if function is WindowFunction.NTH_VALUE else 1, 2)
        if function is WindowFunction.NTH_VALUE:
            count = self._constant(others[0], "place", 1)
        elif others:
            skips = self._skips_nulls(others[0])
        read = self._value(value)
        return WindowCall("", read.type, PlaceCall(function, (read,), count, skips), self._frame())

    def _read_aggregate(self) -> WindowCall:
        call = read_aggregate(self.node.this, self.stage, "").over(self.stage.finished)
        if call.distinct and call.function not in _OF_DISTINCT:
            raise refuse_distinct(self.name)
        if call.order and call.function in _ASCENDING:
            hint = "without DESC, or with GROUP BY in a query of its own, joined to the rows"
            raise NotMaintained(f"window function: {self.name} in descending order", hint)
        if call.function in _LISTS and not call.order and not call.distinct:
            call = replace(call, order=self.order)
        return WindowCall("", call.type, call, self._frame())

    # Their parts

    def _need_order(self) -> None:
        """Spark asks for an order where functions depend on it; PostgreSQL takes any."""
        if not self.order and self.window.order is None and self._is_spark:
            raise Mistake(f'"{self.name}" needs ORDER BY', f"{self.name}() OVER (PARTITION BY ... ORDER BY ...)")
        if not self.order and self.window.order is not None and self._is_spark and self.name in _OF_PLACE:
            raise Mistake(f'"{self.name}" needs ORDER BY', f"{self.name}() OVER (PARTITION BY ... ORDER BY ...)")

    @property
    def _is_spark(self) -> bool:
        return self.stage.environment.text.dialect is SqlDialect.SPARK

    def _refuse_frame(self) -> None:
        if self.window.spec is not None and self._is_spark:
            raise Mistake(f'"{self.name}" takes no frame', "leave ROWS or RANGE out")

    def _refuse_nulls(self, written: WrittenAggregate) -> None:
        if written.nulls is not None:
            raise Mistake(f'"{self.name}" takes neither IGNORE NULLS nor RESPECT NULLS')

    def _take(self, written: WrittenAggregate, least: int, most: int) -> tuple[exp.Expr, ...]:
        if not least <= len(written.arguments) <= most:
            said = f"{least}" if least == most else f"{least} to {most}"
            raise Mistake(f'"{self.name}" takes {said if most else "no"} arguments')
        if any(isinstance(one, exp.Star) for one in written.arguments):
            raise Mistake(f'"{self.name}" takes values, not "*"')
        return written.arguments

    def _value(self, node: exp.Expr) -> Expr:
        value = read_value(node, self.stage)
        if value.type == NULL:
            told = self.stage.environment.report.errors
            raise Mistake("") if told else Mistake(f'the type of "{self.name}" is not known', "CAST(NULL AS ...)")
        if value.type in INTERVALS:
            raise NotMaintained(f"window function: {self.name} of {value.type}")
        return value

    def _constant(self, node: exp.Expr, what: str, least: int | None = None) -> int:
        value = _literal_of(read_value(node, self.stage))
        if value is None or value.type not in INTEGERS or not isinstance(value.value, int):
            raise Mistake(f'the {what} of "{self.name}" must be a whole number that is written as a constant')
        if (least is not None and value.value < least) or abs(value.value) >= 2**31:
            raise Mistake(f'the {what} of "{self.name}" must be from {least or 0} to {2**31 - 1}')
        return value.value

    def _skips_nulls(self, node: exp.Expr) -> bool:
        value = _literal_of(read_value(node, self.stage))
        if value is None or not isinstance(value.value, bool):
            raise Mistake(f'the second argument of "{self.name}" is TRUE, to leave NULLs out, or FALSE')
        return value.value

    def _frame(self) -> Frame:
        if self.window.spec is None:
            return read_frame(None, self.order, self.stage) if self.order else FULL_FRAME
        return read_frame(self.window.spec, self.order, self.stage)


def _literal_of(value: Expr) -> Literal | None:
    """The constant that an expression is; a minus sign may stand before it."""
    if isinstance(value, Call) and value.function == "cast":
        return _literal_of(value.arguments[0])
    if isinstance(value, Call) and value.function == "negate":
        inner = _literal_of(value.arguments[0])
        return replace(inner, value=-inner.value) if inner is not None and isinstance(inner.value, int) else None
    return value if isinstance(value, Literal) else None
