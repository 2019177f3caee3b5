"""What a query looks like on its way from the algebra to blocks.

    Query = Core + outputs            rows of all inputs that satisfy the predicates, and what is computed from them
    Core  = inputs + predicates       inputs are scans, and nodes: whatever is not select, project or inner join

Every input has an alias without a dot; columns are `alias.field`. Predicates and outputs read columns of the core's
inputs only. The expressions of a node read the columns of its own core, or, in an outer join and a union, the outputs
of its sides by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.expr import FALSE, Column, Expr, Literal, columns_of, substitute
from headrace.model.relation import (
    AggregateCall,
    Field,
    JoinKind,
    Order,
    Output,
    Ranking,
    Scan,
    WindowCall,
    unfold_fields,
)
from headrace.model.types import BIGINT, TIMESTAMP


@dataclass(frozen=True, slots=True)
class CoreInput:
    alias: str
    of: Scan | Node


@dataclass(frozen=True, slots=True)
class DraftCore:
    inputs: tuple[CoreInput, ...]
    predicates: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftQuery:
    core: DraftCore
    outputs: tuple[Output, ...]

    @property
    def values(self) -> Mapping[str, Expr]:
        """What each output is, by its name."""
        return {output.name: output.expr for output in self.outputs}


@dataclass(frozen=True, slots=True)
class DraftWindow:
    """Lengths in milliseconds; `start` and `end` name the bounds among the node's fields."""

    time: Expr
    size_ms: int
    slide_ms: int
    offset_ms: int
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Grouped:
    """One row per group (and window). `having` reads the fields: names of keys, window bounds and calls."""

    core: DraftCore
    keys: tuple[Output, ...]
    calls: tuple[AggregateCall, ...]
    window: DraftWindow | None = None
    having: tuple[Expr, ...] = ()

    @property
    def readers(self) -> tuple[Expr, ...]:
        """What it computes from its core."""
        arguments = (expr for call in self.calls for expr in call.inputs)
        return (*_exprs(self.keys), *arguments, *(() if self.window is None else (self.window.time,)))


@dataclass(frozen=True, slots=True)
class Windowed:
    """Each row once for every window that holds its time. Exists only until the group-by above it takes it in."""

    query: DraftQuery
    window: DraftWindow


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """Each row of `columns` once."""

    core: DraftCore
    columns: tuple[Output, ...]

    @property
    def readers(self) -> tuple[Expr, ...]:
        return _exprs(self.columns)


@dataclass(frozen=True, slots=True)
class Ranked:
    """First rows of each partition. `partition` and `order` read the core, like `columns`, which break the ties of
    row_number.
    """

    core: DraftCore
    columns: tuple[Output, ...]
    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    limit: int
    offset: int
    ranking: Ranking
    rank_name: str | None

    @property
    def readers(self) -> tuple[Expr, ...]:
        return (*_exprs(self.columns), *self.partition, *(order.expr for order in self.order))


@dataclass(frozen=True, slots=True)
class Sessioned:
    """Rows with the sessions of their partition. `partition` and `time` read the core, like `columns`."""

    core: DraftCore
    columns: tuple[Output, ...]
    partition: tuple[Expr, ...]
    time: Expr
    gap_ms: int
    start: str
    end: str

    @property
    def readers(self) -> tuple[Expr, ...]:
        return (*_exprs(self.columns), *self.partition, self.time)


@dataclass(frozen=True, slots=True)
class Framed:
    """Every row with its window functions. All expressions read the core, like `columns`, which break ties of those
    that look at single rows.
    """

    core: DraftCore
    columns: tuple[Output, ...]
    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    calls: tuple[WindowCall, ...]

    @property
    def readers(self) -> tuple[Expr, ...]:
        inputs = (expr for call in self.calls for expr in call.inputs)
        return (*_exprs(self.columns), *self.partition, *(order.expr for order in self.order), *inputs)

    @property
    def breaks_ties(self) -> bool:
        """Whether all columns count, since an answer depends on the order of rows that ORDER BY does not tell apart."""
        return any(call.by_whole_row for call in self.calls)


@dataclass(frozen=True, slots=True)
class Sided:
    """A left, full, semi or anti join; `on` reads the outputs of both sides by name."""

    kind: JoinKind
    left: DraftQuery
    right: DraftQuery
    on: tuple[Expr, ...]

    @property
    def keeps_right(self) -> bool:
        """Whether the right side's fields are among its own."""
        return self.kind not in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True, slots=True)
class United:
    """Rows of all branches, whose outputs have equal names in equal order."""

    branches: tuple[DraftQuery, ...]


@dataclass(frozen=True, slots=True)
class Unfolded:
    """Each row of the query once for every element of the arrays among its outputs that `columns` names."""

    query: DraftQuery
    columns: tuple[str, ...]
    place: str | None
    outer: bool

    @property
    def kept(self) -> frozenset[str]:
        """The outputs that stay as they are."""
        return frozenset(self.query.values) - set(self.columns)


@dataclass(frozen=True, slots=True)
class Dated:
    """All changes of a source with their times: always of all its columns, so that whoever asks shares them."""

    query: DraftQuery
    time: str
    from_beginning: bool


Node = Grouped | Windowed | Deduplicated | Ranked | Framed | Sessioned | Sided | United | Unfolded | Dated


def fields_of_node(node: Node) -> tuple[Field, ...]:
    match node:
        case Grouped(_, keys, calls, window):
            bounds = () if window is None else (Field(window.start, TIMESTAMP), Field(window.end, TIMESTAMP))
            return (*_fields(keys), *bounds, *(Field(call.name, call.type) for call in calls))
        case Windowed(query, window):
            return (*_fields(query.outputs), Field(window.start, TIMESTAMP), Field(window.end, TIMESTAMP))
        case Deduplicated(_, columns):
            return _fields(columns)
        case Ranked():
            rank = () if node.rank_name is None else (Field(node.rank_name, BIGINT),)
            return (*_fields(node.columns), *rank)
        case Sessioned():
            return (*_fields(node.columns), Field(node.start, TIMESTAMP), Field(node.end, TIMESTAMP))
        case Framed(_, columns, _, _, window_calls):
            return (*_fields(columns), *(Field(call.name, call.type) for call in window_calls))
        case Sided(_, left, right):
            return (*_fields(left.outputs), *(_fields(right.outputs) if node.keeps_right else ()))
        case United(branches):
            return _fields(branches[0].outputs)
        case Dated(query, time):
            return (*_fields(query.outputs), Field(time, TIMESTAMP))
        case Unfolded(query, columns, place):
            own = () if place is None else (Field(place, BIGINT),)
            return (*unfold_fields(_fields(query.outputs), columns), *own)


def _exprs(outputs: Iterable[Output]) -> tuple[Expr, ...]:
    return tuple(output.expr for output in outputs)


def _fields(outputs: Iterable[Output]) -> tuple[Field, ...]:
    return tuple(Field(output.name, output.expr.type) for output in outputs)


def query_of_node(node: Node, alias: str) -> DraftQuery:
    """All fields of a node, as a query that reads it and nothing else."""
    outputs = (Output(field.name, column_at(alias, field)) for field in fields_of_node(node))
    return DraftQuery(DraftCore((CoreInput(alias, node),)), tuple(outputs))


def column_at(alias: str, field: Field) -> Column:
    return Column(f"{alias}.{field.name}", field.type)


def alias_of(column: str) -> str:
    return column.partition(".")[0]


def field_of(column: str) -> str:
    return column.partition(".")[2]


def aliases_in(expr: Expr) -> frozenset[str]:
    return frozenset(map(alias_of, columns_of(expr)))


def node_of(query: DraftQuery) -> Node | None:
    """The node that a query only renames or computes from, if it has no predicate and no other input."""
    if len(query.core.inputs) == 1 and not query.core.predicates and not isinstance(query.core.inputs[0].of, Scan):
        return query.core.inputs[0].of
    return None


def add_predicates(query: DraftQuery, predicates: Iterable[Expr]) -> DraftQuery:
    """The query with more predicates, which read its outputs by name."""
    more = (substitute(predicate, query.values) for predicate in predicates)
    return DraftQuery(DraftCore(query.core.inputs, (*query.core.predicates, *more)), query.outputs)


def filter_core(core: DraftCore, predicates: Iterable[Expr]) -> DraftCore:
    """The core with more predicates over its own inputs."""
    return DraftCore(core.inputs, (*core.predicates, *predicates))


def scans_below(core: DraftCore) -> tuple[Scan, ...]:
    return tuple(scan for input_ in core.inputs for scan in _scans_of(input_.of))


def _scans_of(of: Scan | Node) -> tuple[Scan, ...]:
    match of:
        case Scan():
            return (of,)
        case Sided(_, left, right):
            return (*scans_below(left.core), *scans_below(right.core))
        case United(branches):
            return tuple(scan for branch in branches for scan in scans_below(branch.core))
        case Windowed(query) | Unfolded(query) | Dated(query):
            return scans_below(query.core)
        case Grouped(core) | Deduplicated(core) | Ranked(core) | Framed(core) | Sessioned(core):
            return scans_below(core)


def nothing(query: DraftQuery) -> DraftQuery:
    """A query of the same outputs without rows: it reads the first source by name, and keeps none of its rows."""
    scan = min(scans_below(query.core), key=lambda scan: scan.source)
    outputs = tuple(Output(output.name, Literal(None, output.expr.type)) for output in query.outputs)
    return DraftQuery(DraftCore((CoreInput("none", scan),), (FALSE,)), outputs)


def is_nothing(query: DraftQuery) -> bool:
    return FALSE in query.core.predicates
