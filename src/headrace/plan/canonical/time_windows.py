"""Time windows: with the group-by above them they are one node, whose groups are per window; elsewhere their bounds
are computed row by row.

The start of a window tells its end, so either of them among the keys means grouping by window, and further keys may
be computed from them. Conditions on the bounds are conditions on groups then. Wherever something else is done with
bounds, a row of tumbling windows has its one window as values, and a row of sliding windows is there once for each of
its windows: a union of as many queries.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.model.errors import Problem, UnsupportedSql
from headrace.model.expr import Call, Column, Expr, Literal, columns_of, substitute
from headrace.model.relation import AggregateCall, Field, Output
from headrace.model.types import BIGINT, BOOLEAN, DAY_TIME, TIMESTAMP
from headrace.plan.canonical.drafts import (
    CoreInput,
    DraftCore,
    DraftQuery,
    DraftWindow,
    Grouped,
    United,
    Windowed,
    column_at,
    fields_of_node,
    filter_core,
    query_of_node,
)

MOST_WINDOWS = 64
"""Windows of one row that are kept as rows of their own."""

START = "window start"
END = "window end"
"""Names of the bounds among the node's fields: no output can have them by accident."""


def group_by_window(node: Grouped, alias: str) -> DraftQuery:
    """The node under an alias, with the windows that its core reads taken into it."""
    windows = [input_ for input_ in node.core.inputs if isinstance(input_.of, Windowed)]
    if len(windows) == 1 and (taking := _Taking.of(node, windows[0])).is_possible:
        return taking.query(alias)
    keys = [key.expr for key in node.keys]
    arguments = [expr for call in node.calls for expr in call.inputs]
    core, exprs = _spread_in_core(node.core, (*keys, *arguments), alias)
    values = dict(zip((*keys, *arguments), exprs, strict=True))
    outputs = tuple(Output(key.name, values[key.expr]) for key in node.keys)
    calls = tuple(call.over(lambda expr: values[expr]) for call in node.calls)
    return query_of_node(replace(node, core=core, keys=outputs, calls=calls), alias)


def spread_windows(query: DraftQuery, alias: str) -> DraftQuery:
    """The query with windows that nobody groups by as columns. `alias` begins names that nothing else has."""
    core, exprs = _spread_in_core(query.core, [output.expr for output in query.outputs], alias)
    outputs = (Output(output.name, expr) for output, expr in zip(query.outputs, exprs, strict=True))
    return DraftQuery(core, tuple(outputs))


def _spread_in_core(core: DraftCore, exprs: Sequence[Expr], alias: str) -> tuple[DraftCore, tuple[Expr, ...]]:
    inputs, predicates, values = list[CoreInput](), list[Expr](), dict[str, Expr]()
    for number, input_ in enumerate(core.inputs):
        if not isinstance(input_.of, Windowed):
            inputs.append(input_)
            continue
        rows = _spread_rows(input_.of, f"{alias}w{number}")
        inputs += rows.core.inputs
        predicates += rows.core.predicates
        values |= {f"{input_.alias}.{name}": expr for name, expr in rows.values.items()}
    own = (substitute(predicate, values) for predicate in core.predicates)
    return DraftCore(tuple(inputs), (*predicates, *own)), tuple(substitute(expr, values) for expr in exprs)


def _spread_rows(node: Windowed, alias: str) -> DraftQuery:
    """Rows with their windows: one query for each window that a row can be in."""
    most = -(-node.window.size_ms // node.window.slide_ms)
    if most > MOST_WINDOWS:
        problem = Problem(
            f"a row is in {most:,} windows, and at most {MOST_WINDOWS} are maintained where no GROUP BY follows",
            hint="group by window_start and window_end, or let windows slide further",
        )
        raise UnsupportedSql("many windows outside group by", problem)
    if most == 1:
        return _rows_in_window(node, 0)
    return query_of_node(United(tuple(_rows_in_window(node, back) for back in range(most))), alias)


def _rows_in_window(node: Windowed, back: int) -> DraftQuery:
    """Rows with their last window, or one that starts so many slides before it."""
    window = node.window
    time = substitute(window.time, node.query.values)
    lengths = (Literal(window.slide_ms, BIGINT), Literal(window.offset_ms, BIGINT))
    start: Expr = Call("window_start", (time, *lengths), TIMESTAMP)
    if back:
        start = Call("-", (start, _span(back * window.slide_ms)), TIMESTAMP)
    end = Call("+", (start, _span(window.size_ms)), TIMESTAMP)
    is_there = Call("not", (Call("is_null", (time,), BOOLEAN),), BOOLEAN)
    if window.slide_ms != window.size_ms:
        is_there = Call(">", (end, time), BOOLEAN)
    outputs = (*node.query.outputs, Output(window.start, start), Output(window.end, end))
    return DraftQuery(filter_core(node.query.core, (is_there,)), outputs)


def _span(milliseconds: int) -> Literal:
    return Literal(dt.timedelta(milliseconds=milliseconds), DAY_TIME)


@dataclass(frozen=True, slots=True)
class _Taking:
    """A group-by, the windowed rows among its inputs, and how its expressions read without them."""

    node: Grouped
    rows: DraftQuery
    window: DraftWindow
    rest: tuple[CoreInput, ...]
    bounds: Mapping[str, str]
    values: Mapping[str, Expr]

    @classmethod
    def of(cls, node: Grouped, input_: CoreInput) -> _Taking:
        assert isinstance(input_.of, Windowed)
        rows, window = input_.of.query, input_.of.window
        rest = tuple(other for other in node.core.inputs if other is not input_)
        bounds = {f"{input_.alias}.{window.start}": START, f"{input_.alias}.{window.end}": END}
        values = {f"{input_.alias}.{name}": expr for name, expr in rows.values.items()}
        return cls(node, rows, window, rest, bounds, values)

    def reads_bounds(self, expr: Expr) -> bool:
        return bool(columns_of(expr) & set(self.bounds))

    def query(self, alias: str) -> DraftQuery:
        if not any(self.reads_bounds(key.expr) for key in self.node.keys):
            return query_of_node(self._without_windows(), alias)
        node = self._with_window()
        plain = {field: column_at(alias, Field(field, TIMESTAMP)) for field in self.bounds.values()}
        named = {column: plain[field] for column, field in self.bounds.items()}
        computed = {key.name: substitute(key.expr, named) for key in self.node.keys if self.reads_bounds(key.expr)}
        fields = fields_of_node(self.node)
        outputs = (Output(field.name, computed.get(field.name, column_at(alias, field))) for field in fields)
        return DraftQuery(DraftCore((CoreInput(alias, node),)), tuple(outputs))

    @property
    def is_possible(self) -> bool:
        """Whether all that is done with the bounds can be done with groups."""
        keys = [key.expr for key in self.node.keys if self.reads_bounds(key.expr)]
        predicates = [predicate for predicate in self.node.core.predicates if self.reads_bounds(predicate)]
        arguments = [expr for call in self.node.calls for expr in call.inputs]
        by_window = any(isinstance(key, Column) for key in keys)
        if any(columns_of(expr) - set(self.bounds) for expr in (*keys, *predicates)):
            return False
        if any(map(self.reads_bounds, arguments)) or ((keys or predicates) and not by_window):
            return False
        # A row counts once for each of its windows.
        return by_window or self.window.slide_ms == self.window.size_ms

    def _core(self, more: Iterable[Expr] = ()) -> DraftCore:
        plain = (predicate for predicate in self.node.core.predicates if not self.reads_bounds(predicate))
        kept = (substitute(predicate, self.values) for predicate in plain)
        return DraftCore((*self.rows.core.inputs, *self.rest), (*self.rows.core.predicates, *kept, *more))

    def _without_windows(self) -> Grouped:
        """Tumbling windows that nobody reads: every row has exactly one, unless its time is NULL."""
        unknown = Call("is_null", (substitute(self.window.time, self.rows.values),), BOOLEAN)
        core = self._core((Call("not", (unknown,), BOOLEAN),))
        return Grouped(core, self._keys(), self._calls())

    def _with_window(self) -> Grouped:
        fields = {column: Column(field, TIMESTAMP) for column, field in self.bounds.items()}
        having = (
            substitute(predicate, fields) for predicate in self.node.core.predicates if self.reads_bounds(predicate)
        )
        window = replace(self.window, time=substitute(self.window.time, self.rows.values), start=START, end=END)
        return Grouped(self._core(), self._keys(), self._calls(), window, tuple(having))

    def _keys(self) -> tuple[Output, ...]:
        kept = (key for key in self.node.keys if not self.reads_bounds(key.expr))
        return tuple(Output(key.name, substitute(key.expr, self.values)) for key in kept)

    def _calls(self) -> tuple[AggregateCall, ...]:
        return tuple(call.over(lambda expr: substitute(expr, self.values)) for call in self.node.calls)
