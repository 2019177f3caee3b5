"""A group-by over time windows as one node: groups are per window, and conditions on the bounds are conditions on
groups.

The start of a window tells its end, so either of them among the keys means grouping by window, and further keys may
be computed from them. Anything else that reads bounds row by row has no place in a block, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.model.errors import Problem, UnsupportedSql
from headrace.model.expr import Call, Column, Expr, columns_of, substitute
from headrace.model.relation import AggregateCall, Field, Output
from headrace.model.types import BOOLEAN, TIMESTAMP
from headrace.plan.canonical.drafts import (
    CoreInput,
    DraftCore,
    DraftQuery,
    DraftWindow,
    Grouped,
    Windowed,
    column_at,
    fields_of_node,
    query_of_node,
)

START = "window start"
END = "window end"
"""Names of the bounds among the node's fields: no output can have them by accident."""


def group_by_window(node: Grouped, alias: str) -> DraftQuery:
    """The node under an alias, with the windows that its core reads taken into it."""
    windows = [input_ for input_ in node.core.inputs if isinstance(input_.of, Windowed)]
    if not windows:
        return query_of_node(node, alias)
    if len(windows) > 1:
        raise say_misplaced_window()
    return _Taking.of(node, windows[0]).query(alias)


def say_misplaced_window() -> UnsupportedSql:
    problem = Problem(
        "a time window is used other than in GROUP BY",
        hint="group by window(...), and read its start and end from the result",
    )
    return UnsupportedSql("window outside group by", problem)


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
        self._check()
        if not any(self.reads_bounds(key.expr) for key in self.node.keys):
            return query_of_node(self._without_windows(), alias)
        node = self._with_window()
        plain = {field: column_at(alias, Field(field, TIMESTAMP)) for field in self.bounds.values()}
        named = {column: plain[field] for column, field in self.bounds.items()}
        computed = {key.name: substitute(key.expr, named) for key in self.node.keys if self.reads_bounds(key.expr)}
        fields = fields_of_node(self.node)
        outputs = (Output(field.name, computed.get(field.name, column_at(alias, field))) for field in fields)
        return DraftQuery(DraftCore((CoreInput(alias, node),)), tuple(outputs))

    def _check(self) -> None:
        keys = [key.expr for key in self.node.keys if self.reads_bounds(key.expr)]
        predicates = [predicate for predicate in self.node.core.predicates if self.reads_bounds(predicate)]
        arguments = [call.argument for call in self.node.calls if call.argument is not None]
        by_window = any(isinstance(key, Column) for key in keys)
        if any(columns_of(expr) - set(self.bounds) for expr in (*keys, *predicates)):
            raise say_misplaced_window()
        if any(map(self.reads_bounds, arguments)) or ((keys or predicates) and not by_window):
            raise say_misplaced_window()
        if not by_window and self.window.slide_ms != self.window.size_ms:
            raise say_misplaced_window()  # a row counts once for each of its windows

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
        return tuple(
            call if call.argument is None else replace(call, argument=substitute(call.argument, self.values))
            for call in self.node.calls
        )
