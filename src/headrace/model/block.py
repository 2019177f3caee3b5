"""Blocks: the normal form in which views are planned.

A view is a few blocks. Each is a select-project-join core over sources and earlier blocks, with at most one operator
on top:

    inputs --filters--> joined by classes --residuals--> [aggregation | derivation] --outputs-->

Column names inside a block are `alias.column`. An alias is the source's name, or `source#k` in a self-join. A
derivation has no join core of its own: its inputs (filtered) go to the operator as they are. The last block of a view
carries the view's name, inner ones `V/1`, `V/2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.expr import Expr, is_disjunction
from headrace.model.full_query import FullQuery
from headrace.model.relation import AggregateCall, Order, Output, Ranking, WindowCall

ColumnId = tuple[str, str]
"""(alias, column)"""


@dataclass(frozen=True, slots=True)
class BlockInput:
    """A source or an earlier block, read under an alias. `fingerprint` is the earlier block's, None for a source."""

    alias: str
    source: str
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """All conjuncts over one alias, canonical and sorted. `text` joins their texts, without alias, by ` AND `."""

    alias: str
    conjuncts: tuple[Expr, ...]
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        if len(self.texts) == 1:
            return self.texts[0]
        parts = zip(self.conjuncts, self.texts, strict=True)
        return " AND ".join(f"({text})" if is_disjunction(part) else text for part, text in parts)


@dataclass(frozen=True, slots=True)
class Residual:
    """A predicate over several aliases that is not an equality of two columns."""

    aliases: tuple[str, ...]
    predicate: Expr
    text: str


@dataclass(frozen=True, slots=True)
class Window:
    """Tumbling when `slide_ms == size_ms`. `time` is over the core's columns."""

    time: Expr
    size_ms: int
    slide_ms: int
    offset_ms: int
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Group-by on top of the core. `having` and the block's outputs read the names of keys, window bounds and calls."""

    keys: tuple[Output, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | None
    having: Expr | None


@dataclass(frozen=True, slots=True)
class SessionGap:
    """What ends a session. `time` reads the columns of the derivation, `start` and `end` name the bounds."""

    time: Expr
    gap_ms: int
    start: str
    end: str


class DerivationKind(StrEnum):
    DISTINCT = "distinct"
    TOPK = "topk"
    SESSIONS = "sessions"
    WINDOW = "window"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"
    UNION_ALL = "union_all"
    PYTHON = "python"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True)
class Unfolding:
    """Columns that hold arrays become one row for each element (`relation.Unfold`)."""

    columns: tuple[str, ...]
    place: str | None = None
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Stamp:
    """Changes get the time at which they came as a column (`relation.Stamped`)."""

    time: str
    from_beginning: bool


@dataclass(frozen=True, slots=True)
class Derivation:
    """Every other operator. Distinct, topk, sessions and window read the core's `columns` (named expressions over it),
    and all that the `calls` of a window read is among these; the joins read two inputs and `on`; union_all reads for
    each input its `columns` (one tuple per input, equal names), and only passes their changes on, each row as often as
    `unfold` says, or with the time that `stamp` asks for. Recompute reads all rows of its inputs, whichever have
    changed.
    """

    kind: DerivationKind
    columns: tuple[tuple[Output, ...], ...] = ()
    on: Expr | None = None
    partition: tuple[Expr, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    ranking: Ranking = Ranking.ROW_NUMBER
    rank_name: str | None = None
    recomputed: FullQuery | None = None
    session: SessionGap | None = None
    unfold: Unfolding | None = None
    calls: tuple[WindowCall, ...] = ()
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """One step of a view.

    `classes` are the sets of columns made equal by the joins. `keep` names, per alias, the columns that reach the
    output (also inside expressions); aliases without kept columns are absent. `outputs` are the block's columns: names
    as the view (or an outer block) sees them. `fingerprint` is of the block's meaning with inner blocks expanded.
    """

    id: str
    inputs: tuple[BlockInput, ...]
    classes: tuple[tuple[ColumnId, ...], ...]
    filters: tuple[BlockFilter, ...]
    residuals: tuple[Residual, ...]
    keep: Mapping[str, tuple[str, ...]]
    outputs: tuple[Output, ...]
    top: Aggregation | Derivation | None
    fingerprint: str
