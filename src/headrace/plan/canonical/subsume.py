"""Which block can be read from which: rows of one that, filtered or grouped once more, are the rows of another.

    joins        same inputs and classes, every condition of the wider implied by the narrower, and all columns there
    top-k        the same rows of the same partitions with fewer columns: a projection
    group-bys    the same, with conditions and keys of the narrower over the keys of the wider, no HAVING in the wider,
                 functions that merge (count, sum of exact numbers, min, max), windows that are multiples

Rows for which the wider has no answer have none in the narrower: otherwise a bad row would stop views that it does not
concern. Only sums that become too large stop all that share them.

A condition is implied exactly if adding it leaves the canonical form of the others as it is. In self-joins aliases are
compared by their numbers alone, so some pairs are not found; what is found is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from headrace.model.block import Aggregation, Block, BlockInput, Derivation, DerivationKind, Window
from headrace.model.expr import Call, Column, Expr, Literal, conjuncts, rename_columns, substitute
from headrace.model.relation import AggregateCall, AggregateFunction, Output, Ranking
from headrace.model.types import BIGINT, BOOLEAN, FRACTIONS, NULL, TIMESTAMP
from headrace.plan.canonical.block_aliases import with_aliases
from headrace.plan.canonical.block_key import call_json
from headrace.plan.canonical.expression_key import compact, key_of
from headrace.plan.canonical.function_facts import lacks_answers
from headrace.plan.canonical.predicates import conditions_of


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left to do: keep the rows that satisfy all conjuncts, group them where there is an aggregation, compute.

    Conjuncts and the aggregation's keys, arguments and time read the outputs of the wider block by name. So do outputs
    and `having`, or, after an aggregation, the names of its keys, bounds and calls.
    """

    conjuncts: tuple[Expr, ...]
    aggregation: Aggregation | None
    outputs: tuple[Output, ...]


_MERGED_BY = {
    AggregateFunction.COUNT: AggregateFunction.SUM,
    AggregateFunction.SUM: AggregateFunction.SUM,
    AggregateFunction.MIN: AggregateFunction.MIN,
    AggregateFunction.MAX: AggregateFunction.MAX,
}


def subsumes(wide: Block, narrow: Block) -> Remainder | None:
    """How to read `narrow` from the rows of `wide`, or None when that is not known to be possible."""
    wide, narrow = _with_shared_aliases(wide), _with_shared_aliases(narrow)
    if set(wide.inputs) != set(narrow.inputs) or wide.classes != narrow.classes:
        return None
    left = _find_left_over(wide, narrow)
    if left is None:
        return None
    match wide.top, narrow.top:
        case None, None:
            return _of_joins(wide, narrow, left)
        case Aggregation(), Aggregation():
            return _Groups(wide, wide.top, narrow, narrow.top).remainder(left)
        case Derivation(), Derivation() if wide.top.kind is narrow.top.kind is DerivationKind.TOPK and not left:
            return _FirstRows(wide, wide.top, narrow, narrow.top).remainder()
    return None


def _with_shared_aliases(block: Block) -> Block:
    """Inner blocks by their fingerprints: `v/1` of one view may be `w/2` of another."""
    ids = {i.source: i.source if i.fingerprint is None else f"@{i.fingerprint}" for i in block.inputs}
    aliases = {i.alias: f"{ids[i.source]}{i.alias.removeprefix(i.source)}" for i in block.inputs}
    renamed = with_aliases(block, aliases, {})
    return replace(renamed, inputs=tuple(BlockInput(aliases[i.alias], ids[i.source]) for i in block.inputs))


def _conditions(block: Block) -> tuple[Expr, ...]:
    filters = (part for one in block.filters for part in one.conjuncts)
    return (*filters, *(residual.predicate for residual in block.residuals))


def _find_left_over(wide: Block, narrow: Block) -> tuple[Expr, ...] | None:
    """Conditions that the wide block does not apply yet; None if it applies one that the narrow block does not, or if
    they may guard one that it applies.
    """
    have, want = _conditions(wide), _conditions(narrow)
    equal = tuple(_equalities(narrow))
    if conditions_of((*equal, *want, *have)) != conditions_of((*equal, *want)):
        return None
    done = set(map(key_of, have))
    left = tuple(condition for condition in want if key_of(condition) not in done)
    return None if left and any(map(lacks_answers, have)) else left


def _equalities(block: Block) -> Iterator[Expr]:
    for members in block.classes:
        first, *others = (Column(f"{alias}.{column}", NULL) for alias, column in members)
        yield from (Call("=", (first, other), BOOLEAN) for other in others)


def _read_over(expr: Expr, available: Mapping[str, Column]) -> Expr | None:
    """The expression over other columns, which hold the values of the expressions with these keys."""
    if (found := available.get(key_of(expr))) is not None:
        return found
    if isinstance(expr, Literal):
        return expr
    if isinstance(expr, Column):
        return None
    arguments = _read_all(expr.arguments, available)
    return None if arguments is None else replace(expr, arguments=arguments)


def _read_all(exprs: Iterable[Expr], available: Mapping[str, Column]) -> tuple[Expr, ...] | None:
    found = tuple(_read_over(expr, available) for expr in exprs)
    present = tuple(expr for expr in found if expr is not None)
    return present if len(present) == len(found) else None


def _of_joins(wide: Block, narrow: Block, left: tuple[Expr, ...]) -> Remainder | None:
    available = {key_of(output.expr): Column(output.name, output.expr.type) for output in wide.outputs}
    rest = _read_all(left, available)
    values = _read_all((output.expr for output in narrow.outputs), available)
    if rest is None or values is None:
        return None
    return Remainder(rest, None, _name_outputs(narrow.outputs, values))


def _name_outputs(outputs: tuple[Output, ...], values: Iterable[Expr]) -> tuple[Output, ...]:
    return tuple(Output(output.name, value) for output, value in zip(outputs, values, strict=True))


@dataclass(frozen=True, slots=True)
class _FirstRows:
    """A top-k that may be read from another one, which has more columns."""

    wide: Block
    wide_top: Derivation
    narrow: Block
    narrow_top: Derivation

    def remainder(self) -> Remainder | None:
        ours, theirs = self.wide_top, self.narrow_top
        bounds = (ours.limit, ours.offset, ours.ranking) == (theirs.limit, theirs.offset, theirs.ranking)
        if not bounds or _ranked_by(ours) != _ranked_by(theirs) or not self._breaks_ties_alike():
            return None
        fields = {key_of(output.expr): output.name for output in ours.columns[0]}
        names = {output.name: fields.get(key_of(output.expr), "") for output in theirs.columns[0]}
        if theirs.rank_name is not None:
            names[theirs.rank_name] = ours.rank_name or ""
        shown = {key_of(output.expr): Column(output.name, output.expr.type) for output in self.wide.outputs}
        values = _read_all((rename_columns(output.expr, names) for output in self.narrow.outputs), shown)
        return None if values is None else Remainder((), None, _name_outputs(self.narrow.outputs, values))

    def _breaks_ties_alike(self) -> bool:
        """Rows that the order does not tell apart are ranked by all their other columns, one after the other. So the
        narrower row must be the beginning of the wider one; by row_number, since the others keep all ties. And no
        column that only the wider has may fail for a row.
        """
        ours, theirs = _find_tie_breakers(self.wide_top), _find_tie_breakers(self.narrow_top)
        more = ours[len(theirs) :]
        if self.wide_top.ranking is not Ranking.ROW_NUMBER:
            known = set(map(key_of, theirs))
            more = tuple(expr for expr in ours if key_of(expr) not in known)
        elif tuple(map(key_of, ours[: len(theirs)])) != tuple(map(key_of, theirs)):
            return False
        return all(isinstance(expr, Column) for expr in more)


def _ranked_by(top: Derivation) -> tuple[object, ...]:
    """Partition and order over the core, whatever the top calls its columns."""
    exprs = {output.name: key_of(output.expr) for output in top.columns[0]}

    def at(expr: Expr) -> str:
        return exprs[expr.name] if isinstance(expr, Column) else key_of(expr)

    order = tuple((at(one.expr), one.descending, one.nulls_first) for one in top.order)
    return frozenset(map(at, top.partition)), order


def _find_tie_breakers(top: Derivation) -> tuple[Expr, ...]:
    """Columns on which rows of one rank may differ, in their order."""
    agreed = {expr.name for expr in (*top.partition, *(one.expr for one in top.order)) if isinstance(expr, Column)}
    return tuple(output.expr for output in top.columns[0] if output.name not in agreed)


def _find_read(top: Aggregation) -> Iterator[Expr]:
    """What a group-by computes of each row."""
    yield from (key.expr for key in top.keys)
    yield from (expr for call in top.calls for expr in call.inputs)
    yield from () if top.window is None else (top.window.time,)


@dataclass(frozen=True, slots=True)
class _Groups:
    """A group-by that may be read from the groups of another one."""

    wide: Block
    wide_top: Aggregation
    narrow: Block
    narrow_top: Aggregation

    def remainder(self, left: tuple[Expr, ...]) -> Remainder | None:
        if self.wide_top.having is not None or (left and not self.wide_top.keys) or not self._answers_alike(left):
            return None
        rest = _read_all(left, self._keys())
        if rest is None:
            return None
        return self._same_groups(rest) if self._groups_alike() else self._merge_groups(rest)

    def _answers_alike(self, left: tuple[Expr, ...]) -> bool:
        """Whether each row that the wide group-by has no answer for stops the narrow one anyway."""
        ours = {key_of(expr) for expr in _find_read(self.wide_top) if lacks_answers(expr)}
        return not ours or (not left and ours <= set(map(key_of, _find_read(self.narrow_top))))

    def _find_shown(self) -> Mapping[str, Column]:
        """Fields of the wide group-by that are among its outputs, by their names in it."""
        return {o.expr.name: Column(o.name, o.expr.type) for o in self.wide.outputs if isinstance(o.expr, Column)}

    def _keys(self) -> Mapping[str, Column]:
        shown = self._find_shown()
        return {key_of(key.expr): shown[key.name] for key in self.wide_top.keys if key.name in shown}

    def _calls(self) -> Mapping[str, Column]:
        shown = self._find_shown()
        return {compact(call_json(call)): shown[call.name] for call in self.wide_top.calls if call.name in shown}

    def _groups_alike(self) -> bool:
        ours, theirs = self.wide_top, self.narrow_top
        same_keys = {key_of(key.expr) for key in ours.keys} == {key_of(key.expr) for key in theirs.keys}
        return same_keys and ours.window == theirs.window

    def _same_groups(self, rest: tuple[Expr, ...]) -> Remainder | None:
        """Rows are groups already: what is asked of them is there, or not."""
        shown, keys, calls, top = self._find_shown(), self._keys(), self._calls(), self.narrow_top
        fields = {key.name: keys.get(key_of(key.expr)) for key in top.keys}
        fields |= {call.name: calls.get(compact(call_json(call))) for call in top.calls}
        if top.window is not None:
            fields |= {name: shown.get(name) for name in (top.window.start, top.window.end)}
        available = {key_of(Column(name, NULL)): column for name, column in fields.items() if column is not None}
        having = _read_all(() if top.having is None else conjuncts(top.having), available)
        values = _read_all((output.expr for output in self.narrow.outputs), available)
        if having is None or values is None:
            return None
        return Remainder((*rest, *having), None, _name_outputs(self.narrow.outputs, values))

    def _merge_groups(self, rest: tuple[Expr, ...]) -> Remainder | None:
        """Several groups become one."""
        top = self.narrow_top
        keys = _read_all((key.expr for key in top.keys), self._keys())
        calls = tuple(self._merging(call) for call in top.calls)
        present = tuple(call for call in calls if call is not None)
        if keys is None or len(present) < len(calls) or not self._windows_fit():
            return None
        counts = self._counts_of_nothing()
        having = None if top.having is None else substitute(top.having, counts)
        aggregation = Aggregation(_name_outputs(top.keys, keys), present, self._window(), having)
        outputs = tuple(Output(output.name, substitute(output.expr, counts)) for output in self.narrow.outputs)
        return Remainder(rest, aggregation, outputs)

    def _merging(self, call: AggregateCall) -> AggregateCall | None:
        """Sums of floats depend on their order, averages and distinct values do not add up."""
        column = self._calls().get(compact(call_json(call)))
        rounds = call.function is AggregateFunction.SUM and call.type in FRACTIONS
        if column is None or call.distinct or rounds or call.function not in _MERGED_BY:
            return None
        return replace(call, function=_MERGED_BY[call.function], argument=column)

    def _counts_of_nothing(self) -> Mapping[str, Expr]:
        """Whether counts of nothing matter.

        Without keys there is a group of no rows: its count is 0, where a sum of counts would be NULL.
        """
        if self.narrow_top.keys or self.narrow_top.window is not None:
            return {}
        counts = (call for call in self.narrow_top.calls if call.function is AggregateFunction.COUNT)
        zero = Literal(0, BIGINT)
        return {c.name: Call("coalesce", (Column(c.name, BIGINT), zero), BIGINT) for c in counts}

    def _windows_fit(self) -> bool:
        ours, theirs = self.wide_top.window, self.narrow_top.window
        if ours is None or theirs is None:
            return ours is theirs  # windows drop rows without a time, so groups without windows need others
        tumbling = ours.slide_ms == ours.size_ms and theirs.slide_ms == theirs.size_ms
        multiple = theirs.size_ms % ours.size_ms == 0 and (theirs.offset_ms - ours.offset_ms) % ours.size_ms == 0
        same_time = key_of(ours.time) == key_of(theirs.time)
        return tumbling and multiple and same_time and ours.start in self._find_shown()

    def _window(self) -> Window | None:
        ours, theirs = self.wide_top.window, self.narrow_top.window
        if ours is None or theirs is None:
            return None
        return replace(theirs, time=Column(self._find_shown()[ours.start].name, TIMESTAMP))
