"""Relational algebra: what a view means, as a tree of a dozen operators over multisets of rows.

    Scan                rows of a source                 Join        inner, left, right, full, semi, anti
    Filter, Projection  row by row                       Aggregate   group by, one row per group
    Windows             one row per time window          Distinct    each row once
    Sessions            rows with their sessions         TopK        first rows of each partition
    UnionAll            rows of all inputs               Unfold      one row per element of arrays
    Over                each row with what window functions make of the rows around it
    Stamped             rows of a source with the time of their change

Rows are bags: duplicates count. An aggregate without keys has exactly one row, also over nothing. `ORDER BY` has no
operator: a view is a bag. HAVING is a Filter above an Aggregate. Names of fields are unique within a relation. Deltas
(`meaning.deltas`) use three more operators that no SQL produces: Scan of another `Version`, Negate and Matching.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.model.expr import Expr, Literal
from headrace.model.types import BIGINT, TIMESTAMP, Array, Type


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
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"
    SKEWNESS = "skewness"
    KURTOSIS = "kurtosis"
    COVAR_POP = "covar_pop"
    COVAR_SAMP = "covar_samp"
    CORR = "corr"
    FIRST = "first"
    MODE = "mode"
    PERCENTILE_CONT = "percentile_cont"
    PERCENTILE_DISC = "percentile_disc"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    ARRAY_AGG = "array_agg"
    STRING_AGG = "string_agg"


@dataclass(frozen=True, slots=True)
class Order:
    """One sort key. Spark's default: NULLs first ascending, last descending."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of a group: `count` without argument counts rows; NULL arguments are skipped.

    `others` are further arguments: the second one of `corr` and its kin, the other columns of a `count` of distinct
    rows. Values are taken in `order`, equal ones by the argument, ascending. `option` is the separator of `string_agg`
    and the fraction of a percentile.

    Two functions look at NULL arguments, too: `first` counts rows whose first sort key is not NULL, and `array_agg`
    with another argument counts rows for which that is not NULL.
    """

    name: str
    function: AggregateFunction
    argument: Expr | None
    distinct: bool
    type: Type
    others: tuple[Expr, ...] = ()
    order: tuple[Order, ...] = ()
    option: Literal | None = None

    @property
    def inputs(self) -> tuple[Expr, ...]:
        """All expressions over the rows: the argument, the others, the sort keys."""
        argument = () if self.argument is None else (self.argument,)
        return (*argument, *self.others, *(key.expr for key in self.order))

    def over(self, change: Callable[[Expr], Expr]) -> AggregateCall:
        """The call with each of its expressions changed, in the order of `inputs`: some hand out values one by one."""
        argument = None if self.argument is None else change(self.argument)
        others = tuple(map(change, self.others))
        order = tuple(replace(key, expr=change(key.expr)) for key in self.order)
        return replace(self, argument=argument, others=others, order=order)


def over_nothing(call: AggregateCall) -> Literal:
    """The value of a call without any row that counts."""
    match call.function:
        case AggregateFunction.COUNT:
            return Literal(0, call.type)
        case AggregateFunction.ARRAY_AGG:
            return Literal((), call.type)
        case _:
            return Literal(None, call.type)


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
class Sessions:
    """Rows with the session that holds their `time`; rows with NULL time are dropped.

    Rows of one partition belong to one session if no two neighbours in time are more than the gap apart. A session
    lasts from its first time to its last time plus the gap. The fields `start` and `end` are added after the input's.
    """

    input: Relation
    partition: tuple[Expr, ...]
    time: Expr
    gap_ms: int
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Unfold:
    """Each row once for every element of the arrays in `columns`, which hold the elements instead.

    Of several arrays the elements at one place go together, with NULL where an array is shorter. NULL has no elements,
    like an array without any; with `outer` a row without elements stays, with NULLs. `place` names the added BIGINT
    field that counts elements from 1.
    """

    input: Relation
    columns: tuple[str, ...]
    place: str | None = None
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Stamped:
    """Every change of a source's rows, with the time at which it came in the field `time`, which is added last.

    A row that goes does not take away the one that came: it is there with the opposite weight and a time of its own. So
    the rows up to an instant add up to what the source held then. Rows that are there when this is first computed came
    then, or, `from_beginning`, have always been there. It depends on when rows came, not only on which there are.
    """

    input: Relation
    time: str
    from_beginning: bool


BEGINNING = dt.datetime(1, 1, 1)
"""Before every event."""


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


class WindowFunction(StrEnum):
    """Functions of the place that a row has in its partition. Aggregates over a frame are `AggregateCall`s."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"
    PERCENT_RANK = "percent_rank"
    CUME_DIST = "cume_dist"
    NTILE = "ntile"
    LAG = "lag"
    LEAD = "lead"
    FIRST_VALUE = "first_value"
    LAST_VALUE = "last_value"
    NTH_VALUE = "nth_value"


@dataclass(frozen=True, slots=True)
class PlaceCall:
    """A function of a row's place. `count` is the distance of `lag` and `lead`, the number of `ntile` and `nth_value`.

    `arguments` are the value that is read at another row and, of `lag` and `lead`, what stands for a row that is not
    there. With `skips_nulls` rows whose value is NULL are passed over.
    """

    function: WindowFunction
    arguments: tuple[Expr, ...] = ()
    count: int = 1
    skips_nulls: bool = False


class FrameUnit(StrEnum):
    ROWS = "rows"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class RowEdge:
    """Where a frame begins or ends: so many rows after the row itself, or before it, if negative.

    0 is the row, and in a RANGE frame its peers, too.
    """

    rows: int


@dataclass(frozen=True, slots=True)
class RangeEdge:
    """Where a RANGE frame begins or ends: at rows whose key is `value`, which is `offset` away from the row's own."""

    offset: Literal
    precedes: bool
    value: Expr


FrameEdge = RowEdge | RangeEdge | None
"""None is the first or the last row of the partition."""

CURRENT_ROW = RowEdge(0)


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row, in the order of its partition, that a function looks at.

    Peers are rows that ORDER BY does not tell apart. `key` is the only sort key where an edge is a `RangeEdge`, in the
    type of its values.
    """

    unit: FrameUnit = FrameUnit.RANGE
    start: FrameEdge = None
    end: FrameEdge = None
    key: Expr | None = None


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One window function: a field that it adds to each row. Functions that have no frame have that of all rows."""

    name: str
    type: Type
    compute: PlaceCall | AggregateCall
    frame: Frame = Frame()

    @property
    def inputs(self) -> tuple[Expr, ...]:
        """All expressions over the rows."""
        own = self.compute.arguments if isinstance(self.compute, PlaceCall) else self.compute.inputs
        edges = (edge.value for edge in (self.frame.start, self.frame.end) if isinstance(edge, RangeEdge))
        return (*own, *edges, *(() if self.frame.key is None else (self.frame.key,)))

    @property
    def by_whole_row(self) -> bool:
        """Whether rows that ORDER BY does not tell apart may have different answers: ties are broken by the row."""
        if isinstance(self.compute, PlaceCall):
            return self.compute.function not in _OF_PEERS
        return self.frame.unit is FrameUnit.ROWS and (self.frame.start, self.frame.end) != (None, None)

    def over(self, change: Callable[[Expr], Expr]) -> WindowCall:
        """The call with each of its expressions changed, in the order of `inputs`."""
        compute = self.compute
        if isinstance(compute, PlaceCall):
            compute = replace(compute, arguments=tuple(map(change, compute.arguments)))
        else:
            compute = compute.over(change)
        start, end = (_change_edge(edge, change) for edge in (self.frame.start, self.frame.end))
        key = None if self.frame.key is None else change(self.frame.key)
        return replace(self, compute=compute, frame=replace(self.frame, start=start, end=end, key=key))


_OF_PEERS = (
    WindowFunction.RANK,
    WindowFunction.DENSE_RANK,
    WindowFunction.PERCENT_RANK,
    WindowFunction.CUME_DIST,
)


def _change_edge(edge: FrameEdge, change: Callable[[Expr], Expr]) -> FrameEdge:
    return replace(edge, value=change(edge.value)) if isinstance(edge, RangeEdge) else edge


@dataclass(frozen=True, slots=True)
class Over:
    """Every row with one more field for each of the calls, computed from the rows of its partition.

    Rows are in the order of `order`; ties are broken by the whole row, field by field ascending, so that the answer is
    one. Equal rows are different rows next to each other.
    """

    input: Relation
    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    calls: tuple[WindowCall, ...]


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


Relation = (
    Scan
    | Filter
    | Projection
    | Join
    | UnionAll
    | Distinct
    | Aggregate
    | Windows
    | Sessions
    | Unfold
    | Stamped
    | TopK
    | Over
    | Negate
    | Matching
)


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
        case Windows() | Sessions():
            return (*fields_of(relation.input), Field(relation.start, TIMESTAMP), Field(relation.end, TIMESTAMP))
        case Stamped(input_, time):
            return (*fields_of(input_), Field(time, TIMESTAMP))
        case Unfold(input_, columns, place):
            own = () if place is None else (Field(place, BIGINT),)
            return (*unfold_fields(fields_of(input_), columns), *own)
        case TopK():
            rank = () if relation.rank_name is None else (Field(relation.rank_name, BIGINT),)
            return (*fields_of(relation.input), *rank)
        case Over(input_, _, _, calls):
            return (*fields_of(input_), *(Field(call.name, call.type) for call in calls))
        case Filter(input_) | Distinct(input_) | Negate(input_) | Matching(input_):
            return fields_of(input_)


def unfold_fields(fields: tuple[Field, ...], columns: tuple[str, ...]) -> tuple[Field, ...]:
    """Fields with the type of the elements where a column is unfolded."""

    def unfold(field: Field) -> Field:
        if field.name not in columns:
            return field
        assert isinstance(field.type, Array), f'"{field.name}" has no elements: {field.type}'
        return Field(field.name, field.type.element)

    return tuple(map(unfold, fields))


def stamps_of(relation: Relation) -> tuple[Stamped, ...]:
    """What depends on when rows came: the rest follows from the rows that sources hold."""
    own = (relation,) if isinstance(relation, Stamped) else ()
    return (*own, *(stamp for input_ in inputs_of(relation) for stamp in stamps_of(input_)))


def scans_of(relation: Relation) -> tuple[Scan, ...]:
    """All scans, left to right."""
    if isinstance(relation, Scan):
        return (relation,)
    return tuple(scan for input_ in inputs_of(relation) for scan in scans_of(input_))
