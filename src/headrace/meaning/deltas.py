"""The change of a query's answer, as a query over changes.

`delta(relation)` is a relation over what sources were before a batch, the changes of the batch, and what sources are
after it, such that for every history

    answer after  =  answer before  +  delta

It is plain algebra: it can be read, printed, planned and run by any engine. With A, B after the batch, A', B' before it
and dA, dB the changes:

    filter, project, windows, union     the operator over dA
    inner join                          dA * B  +  A' * dB
    semi, anti join                     dA * B  +  (op after - op before) of those rows of A' that meet a row of dB
    left, right, full join              inner join + the rows of an anti join, padded with NULLs
    aggregate, distinct, top-k, over,   (op after - op before) of the groups, rows or partitions that dA touches
    sessions
    the same without keys               (op after - op before) of everything

Time is a source, too: as it goes from `now_before` to `now`, a filter on `now` loses and gains rows of A'. An operator
that reads the time in any other place is computed as a whole, after minus before.

Everything in `model.relation` can be maintained like this. What a query costs to maintain is another question: only
aggregates, top-k and windows without keys, and operators other than filters that read the time, look at more than what
changed and what meets it.

A delta may pair a row that left with one that came, which were never there at the same time. Where an expression fails
for such a pair (division by zero, overflow), the delta fails and the query would not have.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.meaning.scalar import NOW_BEFORE
from headrace.model.expr import FALSE, TRUE, Call, Column, Expr, Literal, is_deterministic, transform
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Matching,
    Negate,
    Output,
    Over,
    Projection,
    Relation,
    Scan,
    Sessions,
    Stamped,
    TopK,
    Unfold,
    UnionAll,
    Version,
    Windows,
    fields_of,
    inputs_of,
)
from headrace.model.rewrite import expressions_of, with_expressions, with_inputs
from headrace.model.types import BOOLEAN

Unchanged = frozenset[str]
NONE: Unchanged = frozenset()


def delta(relation: Relation, unchanged: Unchanged = NONE) -> Relation | None:
    """The change of a query's answer; None when it reads only sources in `unchanged`, and not the time."""
    return _Deltas(unchanged).delta(relation)


def before(relation: Relation, unchanged: Unchanged = NONE) -> Relation:
    """The query over what its sources were, at the time that was. Unchanged sources are read as they are."""
    return _Deltas(unchanged).before(relation)


class _Deltas:
    """One derivation. Equal parts are the same object: as a graph the answer is small where as a tree it is large."""

    def __init__(self, unchanged: Unchanged) -> None:
        self._unchanged = unchanged
        self._deltas: dict[Relation, Relation | None] = {}
        self._befores: dict[Relation, Relation] = {}

    def delta(self, relation: Relation) -> Relation | None:
        if relation not in self._deltas:
            self._deltas[relation] = self._derive(relation)
        return self._deltas[relation]

    def before(self, relation: Relation) -> Relation:
        if relation not in self._befores:
            inputs = tuple(map(self.before, inputs_of(relation)))
            self._befores[relation] = with_expressions(with_inputs(relation, inputs), _at_time_before)
            if isinstance(relation, Scan) and relation.source not in self._unchanged:
                self._befores[relation] = replace(relation, version=Version.BEFORE)
        return self._befores[relation]

    def _derive(self, relation: Relation) -> Relation | None:
        if reads_time(relation):
            return self._move_filter(relation) if isinstance(relation, Filter) else self._whole(relation)
        if not any(map(self.delta, inputs_of(relation))) and not isinstance(relation, Scan):
            return None
        match relation:
            case Scan():
                return None if relation.source in self._unchanged else replace(relation, version=Version.CHANGE)
            case Filter() | Projection() | Windows() | Unfold() | Negate():
                return self._linear(relation)
            case UnionAll():
                return self._union(relation)
            case Join():
                return self._join(relation)
            case Distinct():
                return self._regroup(relation, tuple(Column(f.name, f.type) for f in fields_of(relation)))
            case Aggregate():
                return self._regroup(relation, tuple(key.expr for key in relation.keys))
            case TopK() | Over() | Sessions():
                return self._regroup(relation, relation.partition)
            case Stamped():
                raise AssertionError("what came when is not known of tables")
            case Matching():
                raise AssertionError("the delta of a delta")

    def _linear(self, relation: Filter | Projection | Windows | Unfold | Negate) -> Relation | None:
        change = self.delta(relation.input)
        return None if change is None else replace(relation, input=change)

    def _union(self, relation: UnionAll) -> Relation | None:
        """The change of a union. Without its first input a union would have other names."""
        changes = (self.delta(input_) for input_ in relation.inputs)
        return _sum(*(change and _rename_fields(change, fields_of(relation)) for change in changes))

    def _join(self, join: Join) -> Relation | None:
        match join.kind:
            case JoinKind.INNER:
                return self._inner(join)
            case JoinKind.SEMI | JoinKind.ANTI:
                return self._semi(join)
            case _:
                return self.delta(outer_as_union(join))

    def _inner(self, join: Join) -> Relation | None:
        left, right = self.delta(join.left), self.delta(join.right)
        return _sum(
            left and replace(join, left=left),
            right and replace(join, left=self.before(join.left), right=right),
        )

    def _semi(self, join: Join) -> Relation | None:
        """The left side as in any linear operator; then what the right side lets in and keeps out of what was there."""
        left, right = self.delta(join.left), self.delta(join.right)
        from_left = left and replace(join, left=left)
        if right is None:
            return from_left
        met = Matching(self.before(join.left), right, (), join.on)
        was = replace(join, left=met, right=self.before(join.right))
        return _sum(from_left, replace(join, left=met), Negate(was))

    def _regroup(self, relation: Distinct | Aggregate | TopK | Over | Sessions, keys: tuple[Expr, ...]) -> Relation:
        """The operator over the groups that the change touches, after minus before."""
        change = self.delta(relation.input)
        assert change is not None, "nothing changes"
        if not keys:
            return self._whole(relation)
        pairs = tuple((key, key) for key in keys)
        after = Matching(relation.input, change, pairs, TRUE)
        was = Matching(self.before(relation.input), change, pairs, TRUE)
        return _difference(replace(relation, input=after), replace(relation, input=was))

    def _whole(self, relation: Relation) -> Relation:
        return _difference(relation, self.before(relation))

    def _move_filter(self, relation: Filter) -> Relation:
        """A filter that reads the time: the change of its input now, and what went in and out while time passed."""
        was, holds = self.before(relation.input), relation.predicate
        held = _at_time_before(holds)
        change = self.delta(relation.input)
        came, went = Filter(was, _and_not(holds, held)), Filter(was, _and_not(held, holds))
        return UnionAll((*((Filter(change, holds),) if change else ()), came, Negate(went)))


def reads_time(relation: Relation) -> bool:
    """Whether the operator itself, not its inputs, depends on `now`."""
    return not all(map(is_deterministic, expressions_of(relation)))


def outer_as_union(join: Join) -> Relation:
    """An outer join as its pairs and, padded with NULLs, the rows without a partner."""
    sides = {JoinKind.LEFT: ("left",), JoinKind.RIGHT: ("right",), JoinKind.FULL: ("left", "right")}[join.kind]
    alone = {
        "left": Join(JoinKind.ANTI, join.left, join.right, join.on),
        "right": Join(JoinKind.ANTI, join.right, join.left, join.on),
    }
    padded = (_pad_rows(alone[side], fields_of(join)) for side in sides)
    return UnionAll((replace(join, kind=JoinKind.INNER), *padded))


def _pad_rows(relation: Relation, fields: tuple[Field, ...]) -> Relation:
    """Rows with all the fields; those that the relation has not are NULL."""
    present = {field.name for field in fields_of(relation)}
    return Projection(relation, tuple(Output(f.name, _column_or_null(f, f.name in present)) for f in fields))


def _column_or_null(field: Field, present: bool) -> Expr:
    return Column(field.name, field.type) if present else Literal(None, field.type)


def _rename_fields(relation: Relation, fields: tuple[Field, ...]) -> Relation:
    """Gives rows other names."""
    if fields_of(relation) == fields:
        return relation
    pairs = zip(fields, fields_of(relation), strict=True)
    return Projection(relation, tuple(Output(new.name, Column(old.name, old.type)) for new, old in pairs))


def _at_time_before(expr: Expr) -> Expr:
    return transform(
        expr,
        lambda node: replace(node, function=NOW_BEFORE) if isinstance(node, Call) and node.function == "now" else node,
    )


def _and_not(holds: Expr, other: Expr) -> Expr:
    """The first is true and the second is false or NULL."""
    return Call("and", (holds, Call("not", (Call("coalesce", (other, FALSE), BOOLEAN),), BOOLEAN)), BOOLEAN)


def _difference(after: Relation, was: Relation) -> Relation:
    return UnionAll((after, Negate(was)))


def _sum(*terms: Relation | None) -> Relation | None:
    """All terms that are there, as one flat union."""
    flat = [part for term in terms if term for part in (term.inputs if isinstance(term, UnionAll) else (term,))]
    return UnionAll(tuple(flat)) if len(flat) > 1 else flat[0] if flat else None
