"""Relational algebra: what a view means, as a tree of a dozen operators over multisets of rows.

    Scan                rows of a source                 Join        inner, left, right, full, semi, anti
    Filter, Projection  row by row                       Aggregate   group by, one row per group
    Windows             one row per time window          Distinct    each row once
    UnionAll            rows of all inputs               TopK        first rows of each partition

Rows are bags: duplicates count. An aggregate without keys has exactly one row, also over nothing. `ORDER BY` has no
operator: a view is a bag. HAVING is a Filter above an Aggregate. Names of fields are unique within a relation. Deltas
(`meaning.deltas`) use three more operators that no SQL produces: Scan of another `Version`, Negate and Matching.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.model.expr import Expr
from headrace.model.types import BIGINT, TIMESTAMP, Type


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a relation's rows."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Output:
    """A named expression: one column that a projection makes."""

    name: str
    expr: Expr


class Version(StrEnum):
    """Which rows of a source a scan reads: all of them now, before a batch of changes, or the changes themselves."""

    NOW = "now"
    BEFORE = "before"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of a source under an alias: field names are `alias.column`, `columns` the source's own in that order."""

    source: str
    alias: str
    columns: tuple[str, ...]
    types: tuple[Type, ...]
    version: Version = Version.NOW


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which the predicate is true (not false, not NULL)."""

    input: Relation
    predicate: Expr


@dataclass(frozen=True, slots=True)
class Projection:
    """New rows, one per input row."""

    input: Relation
    outputs: tuple[Output, ...]


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs for which `on` is true. Semi and anti keep rows (and fields) of the left side only.

    `NOT IN` is an anti join on `(x = y) is not false`, which is exactly its meaning with NULLs. A cross product is
    `on` TRUE.
    """

    kind: JoinKind
    left: Relation
    right: Relation
    on: Expr


@dataclass(frozen=True, slots=True)
class UnionAll:
    """Rows of all inputs, by position; field names are the first input's, types are equal."""

    inputs: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each row once."""

    input: Relation


class AggregateFunction(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of a group: `count` without argument counts rows; NULL arguments are skipped."""

    name: str
    function: AggregateFunction
    argument: Expr | None
    distinct: bool
    type: Type


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group: the keys, then the aggregates. NULL keys form a group."""

    input: Relation
    keys: tuple[Output, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Each row once for every window [start, end) that holds its `time`; rows with NULL time are dropped.

    Tumbling when `slide_ms == size_ms`, else hopping. Windows start at multiples of the slide plus the offset since
    1970-01-01 UTC. The fields `start` and `end` are added after the input's.
    """

    input: Relation
    time: Expr
    size_ms: int
    slide_ms: int
    offset_ms: int
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Order:
    """One sort key. Spark's default: NULLs first ascending, last descending."""

    expr: Expr
    descending: bool
    nulls_first: bool


class Ranking(StrEnum):
    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


@dataclass(frozen=True, slots=True)
class TopK:
    """Rows whose ranking within their partition lies in (offset, offset + limit].

    For `row_number` ties of the order are broken by the whole row, field by field ascending, so that the answer is
    one. `rank_name` names the added BIGINT field that holds the ranking, when the query asks for it.
    """

    input: Relation
    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    ranking: Ranking = Ranking.ROW_NUMBER
    rank_name: str | None = None


@dataclass(frozen=True, slots=True)
class Negate:
    """The rows of the input with opposite weights: taken away instead of added."""

    input: Relation


@dataclass(frozen=True, slots=True)
class Matching:
    """Rows of `input` that meet at least one row of `touched`, of any non-zero weight.

    They meet when all `keys` (pairs of expressions over `input` and `touched`) are NULL-safe equal and `on` is true.
    Restricts a recomputation to what a batch of changes can have touched.
    """

    input: Relation
    touched: Relation
    keys: tuple[tuple[Expr, Expr], ...]
    on: Expr


Relation = Scan | Filter | Projection | Join | UnionAll | Distinct | Aggregate | Windows | TopK | Negate | Matching


def inputs_of(relation: Relation) -> tuple[Relation, ...]:
    """The relations an operator reads, left to right."""
    match relation:
        case Scan():
            return ()
        case Join(_, left, right, _):
            return (left, right)
        case UnionAll(inputs):
            return inputs
        case Matching(input_, touched, _, _):
            return (input_, touched)
        case _:
            return (relation.input,)


def fields_of(relation: Relation) -> tuple[Field, ...]:
    """The columns of a relation's rows, in order."""
    match relation:
        case Scan(_, alias, columns, types):
            return tuple(Field(f"{alias}.{column}", type_) for column, type_ in zip(columns, types, strict=True))
        case Projection(_, outputs):
            return tuple(Field(output.name, output.expr.type) for output in outputs)
        case Join(kind, left, right, _):
            return fields_of(left) if kind in (JoinKind.SEMI, JoinKind.ANTI) else fields_of(left) + fields_of(right)
        case UnionAll(inputs):
            return fields_of(inputs[0])
        case Aggregate(_, keys, calls):
            return tuple(Field(key.name, key.expr.type) for key in keys) + tuple(
                Field(call.name, call.type) for call in calls
            )
        case Windows():
            return (*fields_of(relation.input), Field(relation.start, TIMESTAMP), Field(relation.end, TIMESTAMP))
        case TopK():
            rank = () if relation.rank_name is None else (Field(relation.rank_name, BIGINT),)
            return (*fields_of(relation.input), *rank)
        case Filter(input_) | Distinct(input_) | Negate(input_) | Matching(input_):
            return fields_of(input_)


def scans_of(relation: Relation) -> tuple[Scan, ...]:
    """All scans, left to right."""
    if isinstance(relation, Scan):
        return (relation,)
    return tuple(scan for input_ in inputs_of(relation) for scan in scans_of(input_))
