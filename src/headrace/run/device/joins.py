"""Keeps the answer of a query that is joins, filters and projections of sources, without computing it again.

Most templates are one inner join of latest rows. The query is taken apart once into its scans (`leaves`), the parts of
its conditions and its outputs; every leaf keeps its rows, indexed by what other leaves ask for. A changed row of a leaf
then walks from index to index: it costs what it meets, not what is there. Matches are remembered by their rows, so a
row that goes costs what it matched.

    leaf A changes by dA, then leaf B by dB:      dA * B  +  (A + dA) * dB

which is what `meaning.deltas` says, with each leaf changed in turn. A condition `column > now() - interval` is not
tested but makes rows of its leaf leave when their time is over. Everything else that reads the time, and everything
that is not a join, a filter or a projection, is for the evaluator of `meaning`, which is also the judge of this module.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from headrace.meaning.row_functions import predicate_of, row_of
from headrace.meaning.scalar import Surroundings
from headrace.model.expr import Call, Column, Expr, Literal, columns_of, conjunction, conjuncts, is_deterministic
from headrace.model.expr import substitute as substitute_columns
from headrace.model.relation import Filter, Join, JoinKind, Projection, Relation, Scan, fields_of
from headrace.model.types import FRACTIONS, Array, Row, Value

Weighted = tuple[Row, int]
Index = dict[Value | Row, dict[Row, int]]
"""Rows of a leaf by the values that another leaf asks for; a single value is not put in a tuple."""


@dataclass(frozen=True, slots=True)
class Flat:
    """A query taken apart. Columns are called `LEAF.COLUMN`, with the number of the leaf."""

    leaves: tuple[Scan, ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[Expr, ...]


class _NotFlat(Exception):
    """The query has an operator that this module does not know."""


def flatten(relation: Relation, sets: frozenset[str] = frozenset()) -> Flat | None:
    """The query taken apart; None if it is more than joins, filters and projections.

    `sets` are sources in which no row occurs twice: two scans of one that have all columns equal are one scan.
    """
    leaves: list[Scan] = []
    conditions: list[Expr] = []
    try:
        values = _take_apart(relation, leaves, conditions, is_top=True)
    except _NotFlat:
        return None
    outputs = tuple(values[one.name] for one in fields_of(relation))
    return _merge_scans(Flat(tuple(leaves), tuple(conditions), outputs), sets)


def _take_apart(
    relation: Relation, leaves: list[Scan], conditions: list[Expr], is_top: bool = False
) -> Mapping[str, Expr]:
    """What each field of a relation is, over columns of leaves."""
    match relation:
        case Scan():
            leaves.append(relation)
            return dict(
                zip((one.name for one in fields_of(relation)), _columns(relation, len(leaves) - 1), strict=True)
            )
        case Filter(input_, predicate):
            values = _take_apart(input_, leaves, conditions)
            conditions.extend(conjuncts(substitute_columns(predicate, values)))
            return values
        case Projection(input_, outputs):
            values = _take_apart(input_, leaves, conditions)
            if not is_top and any(_has_two_forms(output.expr) for output in outputs):
                raise _NotFlat
            return {output.name: substitute_columns(output.expr, values) for output in outputs}
        case Join(JoinKind.INNER, left, right, on):
            values = {**_take_apart(left, leaves, conditions), **_take_apart(right, leaves, conditions)}
            conditions.extend(conjuncts(substitute_columns(on, values)))
            return values
        case _:
            raise _NotFlat


def _has_two_forms(expr: Expr) -> bool:
    """Computed floats are put into one form (`zset.normal`) where they are projected, so they cannot be moved."""
    return isinstance(expr, Call) and (expr.type in FRACTIONS or isinstance(expr.type, Array))


def _columns(scan: Scan, number: int) -> tuple[Column, ...]:
    return tuple(Column(f"{number}.{name}", type_) for name, type_ in zip(scan.columns, scan.types, strict=True))


def _merge_scans(flat: Flat, sets: frozenset[str]) -> Flat:
    """Lifting reads `pairs` once per side and asks for the same pair: one scan of it is enough."""
    same = {frozenset(part.arguments) for part in flat.conditions if isinstance(part, Call) and part.function == "="}
    for first, scan in enumerate(flat.leaves):
        for second in range(first + 1, len(flat.leaves)):
            pairs = list(zip(_columns(scan, first), _columns(flat.leaves[second], second), strict=False))
            alike = scan.source in sets and flat.leaves[second].source == scan.source
            if alike and all(frozenset(pair) in same for pair in pairs):
                return _merge_scans(_without(flat, second, {b.name: a for a, b in pairs}), sets)
    return flat


def _without(flat: Flat, gone: int, instead: Mapping[str, Expr]) -> Flat:
    leaves = flat.leaves[:gone] + flat.leaves[gone + 1 :]
    later = {
        old.name: new
        for number in range(gone, len(leaves))
        for old, new in zip(_columns(leaves[number], number + 1), _columns(leaves[number], number), strict=True)
    }
    moved = {**later, **instead}
    conditions = dict.fromkeys(substitute_columns(one, moved) for one in flat.conditions)
    # NULL = NULL is not true, but no pair has a NULL.
    kept = tuple(one for one in conditions if not (isinstance(one, Call) and _is_itself(one)))
    return Flat(leaves, kept, tuple(substitute_columns(one, moved) for one in flat.outputs))


def _is_itself(call: Call) -> bool:
    return call.function == "=" and call.arguments[0] == call.arguments[1]


@dataclass(frozen=True, slots=True)
class _Step:
    """Go on to another leaf: by the index whose key the row at hand has (`key`), or to all its rows."""

    index: Index
    key: Callable[[Row], Value | Row] | None
    holds: Callable[[Row], bool] | None


@dataclass(frozen=True, slots=True, eq=False)
class _JoinedMatch:
    """One row of each leaf that meet, and the row of the answer that they give."""

    rows: tuple[Row, ...]
    output: Row


@dataclass(frozen=True, slots=True)
class _Way:
    """The steps from one leaf to all others. `places` are where the rows of leaves are within the joined row."""

    steps: tuple[_Step, ...]
    make: Callable[[Row], Row]
    places: tuple[slice, ...]


@dataclass(slots=True)
class _Leaf:
    """Rows of one scan that pass its own conditions. `expiry` is when a row leaves by itself, if it does."""

    scan: Scan
    admits: Callable[[Row], bool]
    expiry: Callable[[Row], dt.datetime | None] | None
    rows: dict[Row, int] = field(default_factory=dict)
    indexes: dict[tuple[Expr, ...], tuple[Callable[[Row], Value | Row], Index]] = field(default_factory=dict)
    matches: dict[Row, set[_JoinedMatch]] = field(default_factory=dict)
    leaving: list[tuple[dt.datetime, int, Row]] = field(default_factory=list)
    entered: int = 0

    def admit(self, changes: Iterable[Weighted], now: dt.datetime) -> list[Weighted]:
        """The part of a change that this leaf sees, and remembers when what comes in has to leave."""
        found = []
        for row, weight in changes:
            if weight < 0:
                if row in self.rows:
                    found.append((row, weight))
            elif self.admits(row) and self._stays(row, now):
                found.append((row, weight))
        return found

    def _stays(self, row: Row, now: dt.datetime) -> bool:
        if self.expiry is None:
            return True
        until = self.expiry(row)
        if until is None or until <= now:
            return False
        self.entered += 1  # rows of one instant are not compared with each other
        heapq.heappush(self.leaving, (until, self.entered, row))
        return True

    def expired(self, now: dt.datetime) -> list[Weighted]:
        found: dict[Row, int] = {}
        while self.leaving and self.leaving[0][0] <= now:
            row = heapq.heappop(self.leaving)[2]
            if row in self.rows:
                found[row] = -self.rows[row]
        return list(found.items())

    def add(self, changes: Iterable[Weighted]) -> None:
        for row, weight in changes:
            _add(self.rows, row, weight)
            for key, index in self.indexes.values():
                place = key(row)
                if place is not None:
                    rows = index.setdefault(place, {})
                    _add(rows, row, weight)
                    if not rows:
                        del index[place]


def _add(rows: dict[Row, int], row: Row, weight: int) -> None:
    total = rows.get(row, 0) + weight
    if total:
        rows[row] = total
    else:
        rows.pop(row, None)


class JoinedRows:
    """The answer of a flat query over rows that come and go."""

    def __init__(self, flat: Flat, around: Surroundings) -> None:
        self._around = around
        self._flat = flat
        self._leaves = [self._make_leaf(number) for number in range(len(flat.leaves))]
        self._shared = [part for part in flat.conditions if _owner_of(part) is None]
        self._ways = [self._find_way(number) for number in range(len(flat.leaves))]
        self._by_source: dict[str, list[int]] = defaultdict(list)
        for number, leaf in enumerate(flat.leaves):
            self._by_source[leaf.source].append(number)

    @staticmethod
    def can_run(flat: Flat) -> bool:
        """Whether nothing reads the time but conditions that make rows leave."""
        conditions = [part for part in flat.conditions if _time_of(part) is None]
        return all(map(is_deterministic, (*conditions, *flat.outputs)))

    @property
    def reads_time(self) -> bool:
        return any(leaf.leaving for leaf in self._leaves)

    def change(self, source: str, changes: Iterable[Weighted], now: dt.datetime) -> list[Weighted]:
        """The change of the answer, rows with weights that may cancel; what is over by `now` leaves first."""
        found, changes = self.advance(now), list(changes)
        for number in self._by_source.get(source, ()):
            found += self._change_leaf(number, self._leaves[number].admit(changes, now))
        return found

    def advance(self, now: dt.datetime) -> list[Weighted]:
        found: list[Weighted] = []
        for number, leaf in enumerate(self._leaves):
            if leaf.leaving and leaf.leaving[0][0] <= now:
                found += self._change_leaf(number, leaf.expired(now))
        return found

    def _change_leaf(self, number: int, changes: list[Weighted]) -> list[Weighted]:
        leaf = self._leaves[number]
        known = [(row, weight) for row, weight in changes if row in leaf.rows]
        made = [one for row, weight in known for one in self._weigh_again(number, row, weight)]
        made += self._match(number, [(row, weight) for row, weight in changes if row not in leaf.rows])
        leaf.add(changes)
        for row, _ in known:
            if row not in leaf.rows:
                self._forget(number, row)
        return made

    def _match(self, number: int, rows: list[Weighted]) -> list[Weighted]:
        """What rows that were not there before give, with all that they meet."""
        way = self._ways[number]
        for step in way.steps:
            if not rows:
                return []
            rows = _walk(step, rows)
        made = []
        for joined, weight in rows:
            match = _JoinedMatch(tuple([joined[place] for place in way.places]), way.make(joined))
            for leaf, row in zip(self._leaves, match.rows, strict=True):
                leaf.matches.setdefault(row, set()).add(match)
            made.append((match.output, weight))
        return made

    def _weigh_again(self, number: int, row: Row, weight: int) -> Iterator[Weighted]:
        """What it changes that a row is there more or less often than it was."""
        for match in self._leaves[number].matches.get(row, ()):
            times = weight
            for other, leaf in enumerate(self._leaves):
                if other != number:
                    times *= leaf.rows[match.rows[other]]
            yield match.output, times

    def _forget(self, number: int, row: Row) -> None:
        for match in self._leaves[number].matches.pop(row, ()):
            for other, leaf in enumerate(self._leaves):
                if other != number:
                    rest = leaf.matches[match.rows[other]]
                    rest.discard(match)
                    if not rest:
                        del leaf.matches[match.rows[other]]

    def _make_leaf(self, number: int) -> _Leaf:
        scan, names = self._flat.leaves[number], self._names(number)
        own = [part for part in self._flat.conditions if _owner_of(part) == number]
        times = [found for part in own if (found := _time_of(part)) is not None]
        tests = tuple(part for part in own if _time_of(part) is None)
        expiry = _expiry([(names.index(column), lives) for column, lives in times]) if times else None
        return _Leaf(scan, predicate_of(conjunction(tests), names, self._around), expiry)

    def _names(self, number: int) -> tuple[str, ...]:
        return tuple(column.name for column in _columns(self._flat.leaves[number], number))

    def _find_way(self, start: int) -> _Way:
        """The way from a leaf to all others, each time to the one that most values are known of."""
        bound, names, left = {start}, self._names(start), list(self._shared)
        steps, places = [], {start: slice(0, len(names))}
        while len(bound) < len(self._leaves):
            keys = {number: _find_keys(left, bound, number) for number in range(len(self._leaves))}
            target = min(keys.keys() - bound, key=lambda number: (-len(keys[number]), number))
            used = keys[target]
            left = [part for part in left if all(part is not key.part for key in used)]
            bound.add(target)
            ready = tuple(part for part in left if _leaves_of(part) <= bound)
            left = [part for part in left if part not in ready]
            index = self._index(target, tuple(key.there for key in used))
            key = _make_key(tuple(key.here for key in used), names, self._around) if used else None
            places[target] = slice(len(names), len(names) + len(self._names(target)))
            names += self._names(target)
            steps.append(_Step(index, key, predicate_of(conjunction(ready), names, self._around) if ready else None))
        make = row_of(self._flat.outputs, names, self._around)
        return _Way(tuple(steps), make, tuple(places[number] for number in range(len(self._leaves))))

    def _index(self, number: int, by: tuple[Expr, ...]) -> Index:
        leaf = self._leaves[number]
        if by not in leaf.indexes:
            key = _make_key(by, self._names(number), self._around) if by else lambda row: ()
            leaf.indexes[by] = (key, {})
        return leaf.indexes[by][1]


def _walk(step: _Step, rows: list[Weighted]) -> list[Weighted]:
    found: list[Weighted] = []
    key, index, holds = step.key, step.index, step.holds
    for row, weight in rows:
        place = () if key is None else key(row)
        for other, times in index.get(place, _NOTHING).items():  # no row is kept under None
            joined = row + other
            if holds is None or holds(joined):
                found.append((joined, weight * times))
    return found


_NOTHING: dict[Row, int] = {}


@dataclass(frozen=True, slots=True)
class _Key:
    """`part` asks that something known (`here`) equals something of the next leaf (`there`)."""

    part: Expr
    here: Expr
    there: Expr


def _find_keys(parts: list[Expr], bound: set[int], target: int) -> list[_Key]:
    found = []
    for part in parts:
        if isinstance(part, Call) and part.function == "=" and part.arguments[0].type == part.arguments[1].type:
            first, second = part.arguments
            for here, there in ((first, second), (second, first)):
                if _leaves_of(there) == {target} and _leaves_of(here) and _leaves_of(here) <= bound:
                    found.append(_Key(part, here, there))
    return found


def _make_key(exprs: tuple[Expr, ...], names: tuple[str, ...], around: Surroundings) -> Callable[[Row], Value | Row]:
    """A function to the values of expressions, or to the value if it is one; None, which meets nothing, for NULL."""
    if all(isinstance(expr, Column) for expr in exprs):
        values: Callable[[Row], Value | Row] = itemgetter(*(names.index(str(expr)) for expr in exprs))
    else:
        several = row_of(exprs, names, around)
        values = several if len(exprs) > 1 else lambda row: several(row)[0]
    if len(exprs) == 1:
        return values
    return lambda row: None if None in (found := values(row)) else found  # type: ignore[operator]  # a tuple


def _owner_of(part: Expr) -> int | None:
    """The one leaf that a condition is about; one about no column at all is taken to be about the first."""
    leaves = _leaves_of(part)
    return min(leaves, default=0) if len(leaves) <= 1 else None


def _leaves_of(expr: Expr) -> set[int]:
    return {int(name.split(".", 1)[0]) for name in columns_of(expr)}


def _time_of(part: Expr) -> tuple[str, dt.timedelta] | None:
    """The column and interval of `column > now() - interval`, or of the same the other way round."""
    match part:
        case Call(">", (Column(name), Call("-", (Call("now"), Literal(dt.timedelta() as lives))))):
            return name, lives
        case Call("<", (Call("-", (Call("now"), Literal(dt.timedelta() as lives))), Column(name))):
            return name, lives
    return None


def _expiry(times: list[tuple[int, dt.timedelta]]) -> Callable[[Row], dt.datetime | None]:
    def until(row: Row) -> dt.datetime | None:
        ends = []
        for position, lives in times:
            since = row[position]
            if not isinstance(since, dt.datetime):
                return None
            ends.append(since + lives if since < dt.datetime.max - lives else dt.datetime.max)
        return min(ends)

    return until
