"""Conditions in canonical form: one set of conjuncts for conditions that, by the rules below, let the same rows pass.

Only TRUE passes, so NULL counts as FALSE here, and every step may use that:

    1. conjunctive normal form, NOT inside the atoms; a disjunction that would need over 64 clauses stays whole
    2. atoms become restrictions; in a clause, those of one subject unite: `x > 5 OR x <= 5` is `x IS NOT NULL`
    3. clauses of one restriction intersect, and decide others: `x > 5 AND (x < 3 OR y = 1)` is `x > 5 AND y = 1`
    4. columns made equal form classes; a constant holds for the whole class
    5. `IS NOT NULL` that follows from another conjunct goes; so does a clause that follows from another one

A disjunction of parts that can fail is not distributed: guards like `x <> 0 AND 1 / x > 2` work only within their part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from headrace.model.expr import FALSE, Call, Column, Expr, Literal, conjunction
from headrace.plan.canonical.equal_columns import EqualColumns
from headrace.plan.canonical.expression_key import key_of
from headrace.plan.canonical.expressions import are_comparable, canonical, in_order
from headrace.plan.canonical.function_facts import can_fail, is_strict
from headrace.plan.canonical.restrictions import COMPARE, Restriction, Truth, any_of, as_conjuncts, present, restriction
from headrace.plan.canonical.value_sets import ValueSet

MAX_CLAUSES = 64

Clause = Mapping[str, Restriction]
"""Restrictions of different subjects, by the subject's key, joined by OR. The empty clause is false."""

_IS_TRUE: frozenset[Truth] = frozenset((True,))


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a row must satisfy: columns in one class are equal, and every conjunct is true. `is_empty`: no row ever
    does.

    Conjuncts are sorted, and hold no equality of two columns.
    """

    classes: tuple[tuple[Column, ...], ...]
    conjuncts: tuple[Expr, ...]
    is_empty: bool = False


NEVER = Conditions((), (FALSE,), is_empty=True)


def canonical_conjuncts(predicate: Expr) -> tuple[Expr, ...]:
    """The conjuncts of one predicate, equalities of columns among them; (FALSE,) when it never holds."""
    found = conditions_of((predicate,))
    return in_order((*found.conjuncts, *equalities(found.classes)))


def equalities(classes: Iterable[tuple[Column, ...]]) -> tuple[Expr, ...]:
    """Each class as equalities of its first column with the others."""
    return tuple(canonical(Call("=", (first, other), FALSE.type)) for first, *rest in classes for other in rest)


def conditions_of(predicates: Iterable[Expr]) -> Conditions:
    """Predicates joined by AND, in canonical form."""
    clauses = [clause for predicate in predicates for clause in _clauses(canonical(predicate), _IS_TRUE)]
    facts = _Facts.start()
    if not facts.learn(clauses):
        return NEVER
    return facts.conditions()


def _clauses(expr: Expr, wanted: frozenset[Truth]) -> list[Clause]:
    """Conjunctive normal form of "the canonical expression has one of the truth values wanted"."""
    if isinstance(expr, Literal):
        return [] if expr.value in wanted else [{}]
    if isinstance(expr, Call):
        match expr.function:
            case "not":
                return _clauses(expr.arguments[0], frozenset(None if t is None else not t for t in wanted))
            case "and" | "or" if len(wanted & {True, False}) == 1:
                return _combine_clauses(expr, wanted)
            case "<=>" if isinstance(expr.arguments[1], Literal) and isinstance(expr.arguments[1].value, bool):
                return _clauses(expr.arguments[0], _of_null_safe(expr.arguments[1].value, wanted))
    return _unless_decided(restriction(expr, wanted))


def _of_null_safe(value: bool, wanted: frozenset[Truth]) -> frozenset[Truth]:
    """Truth values of p for which `p <=> value` is as wanted; it is never NULL."""
    same: frozenset[Truth] = frozenset((value,)) if True in wanted else frozenset()
    other: frozenset[Truth] = frozenset((not value, None)) if False in wanted else frozenset()
    return same | other


def _unless_decided(found: Restriction) -> list[Clause]:
    if found.is_always:
        return []
    return [{}] if found.is_never else [{found.key: found}]


def _combine_clauses(expr: Call, wanted: frozenset[Truth]) -> list[Clause]:
    """Combines the parts of AND or OR: every part must be as wanted (true AND, not false AND, false OR, not true OR),
    or one of them.
    """
    if (expr.function == "and") == (True in wanted):
        return [clause for part in expr.arguments for clause in _clauses(part, wanted)]
    parts = [_clauses(part, wanted) for part in expr.arguments]
    common = [clause for clause in parts[0] if all(clause in other for other in parts[1:])]
    parts = [[clause for clause in part if clause not in common] for part in parts]
    simple = all(len(part) <= 1 for part in parts)
    if not simple and (can_fail(expr) or prod(map(len, parts)) > MAX_CLAUSES):
        return [*common, *_unless_decided(restriction(_undistribute(parts), _IS_TRUE))]
    return [*common, *(one for chosen in itertools.product(*parts) if not _is_true(one := _unite_clauses(chosen)))]


def _undistribute(parts: Iterable[list[Clause]]) -> Expr:
    """OR of parts that are AND of clauses, as one expression."""
    whole = (conjunction(tuple(any_of(clause.values()) for clause in part)) for part in parts)
    return canonical(Call("or", tuple(whole), FALSE.type))


def _unite_clauses(clauses: Iterable[Clause]) -> Clause:
    united: dict[str, Restriction] = {}
    for clause in clauses:
        for key, found in clause.items():
            known = united.get(key)
            united[key] = found if known is None else Restriction(found.subject, known.values | found.values)
    return united


def _is_true(clause: Clause) -> bool:
    return any(found.is_always for found in clause.values())


@dataclass(slots=True)
class _Facts:
    """What is known so far: one restriction per subject, equal columns, and clauses that are still open."""

    known: dict[str, Restriction]
    equal: EqualColumns
    open: list[Clause]

    @classmethod
    def start(cls) -> _Facts:
        return cls({}, EqualColumns(), [])

    def learn(self, clauses: list[Clause]) -> bool:
        """Take clauses in until nothing changes; False when they contradict each other."""
        self.open = clauses
        changed = True
        while changed:
            before = (dict(self.known), list(self.open))
            pending, self.open = self.open, []
            if not all(self._take(clause) for clause in pending) or not self._spread_constants():
                return False
            changed = before != (self.known, self.open)
        self.open = _without_implied(self.open)
        return True

    def _take(self, clause: Clause) -> bool:
        left = self._simplify_clause(clause)
        if left is None:
            return True
        if len(left) > 1:
            self.open.append(left)
            return True
        return all(self._restrict(found) for found in left.values()) and bool(left)

    def _simplify_clause(self, clause: Clause) -> Clause | None:
        """The clause without parts that cannot be; None when it always holds."""
        left: dict[str, Restriction] = {}
        for key, found in clause.items():
            allowed = self._find_allowed(found.subject)
            if allowed <= found.values:
                return None
            if allowed & found.values:
                values = found.values if allowed.null else found.values.without_null
                left[key] = Restriction(found.subject, values)
        return left

    def _find_allowed(self, subject: Expr) -> ValueSet:
        """What is known of a subject's values, from conjuncts about it or about what is computed from it."""
        key = key_of(subject)
        values = self.known[key].values if key in self.known else ValueSet(present(subject).spans, True)
        if values.null and key in self._not_null(key):
            values = values.without_null
        return values

    def _not_null(self, but: str) -> frozenset[str]:
        """Keys of expressions that other conjuncts than the subject's own need not to be NULL."""
        return frozenset(
            key
            for found_key, found in self.known.items()
            if found_key != but and not found.values.null
            for key in _find_needed(found.subject)
        )

    def _restrict(self, found: Restriction) -> bool:
        known = self.known.get(found.key)
        values = found.values if known is None else known.values & found.values
        self.known[found.key] = Restriction(found.subject, values)
        if _is_equality(found.subject, values):
            self._unite(found.subject)
        return bool(values)

    def _unite(self, subject: Expr) -> None:
        """Make two columns equal, and say so of every pair in their class: other conjuncts may name any of them."""
        assert isinstance(subject, Call)
        for pair in self.equal.unite(*subject.arguments):
            equality = restriction(pair, _IS_TRUE)
            self.known.setdefault(equality.key, equality)
            self.known[equality.key] = Restriction(equality.subject, equality.values & self.known[equality.key].values)

    def _spread_constants(self) -> bool:
        for members in self.equal.classes():
            constants = [found for column in members if (found := self.known.get(key_of(column))) and _is_one(found)]
            for column, constant in itertools.product(members, constants):
                if not self._restrict(Restriction(column, constant.values)):
                    return False
        return all(found.values for found in self.known.values())

    def conditions(self) -> Conditions:
        kept = (found for key, found in self.known.items() if not self._follows(key, found))
        single = (conjunct for found in kept for conjunct in as_conjuncts(found))
        return Conditions(
            tuple(self.equal.classes()), in_order((*single, *(any_of(clause.values()) for clause in self.open)))
        )

    def _follows(self, key: str, found: Restriction) -> bool:
        """Whether a restriction need not be said: it is an equality in a class, or NOT NULL that is implied, or
        nothing.
        """
        if _is_equality(found.subject, found.values):
            return True
        allowed = ValueSet(present(found.subject).spans, key not in self._not_null(key))
        return allowed <= found.values


def _is_equality(subject: Expr, values: ValueSet) -> bool:
    """Whether the restriction says that two columns are equal and of types that may share a class."""
    if not isinstance(subject, Call) or subject.function != COMPARE or values.values != (0,) or values.null:
        return False
    left, right = subject.arguments
    return isinstance(left, Column) and isinstance(right, Column) and are_comparable(left.type, right.type)


def _is_one(found: Restriction) -> bool:
    return found.values.values is not None and len(found.values.values) == 1 and not found.values.null


def _find_needed(subject: Expr) -> Iterator[str]:
    """Keys of what must not be NULL for the subject not to be NULL (itself apart)."""
    if isinstance(subject, Call) and (subject.function == COMPARE or is_strict(subject.function)):
        for argument in subject.arguments:
            yield key_of(argument)
            yield from _find_needed(argument)


def _without_implied(clauses: list[Clause]) -> list[Clause]:
    """Drops clauses that follow from another one; of two equal ones the first stays."""
    kept: list[Clause] = []
    for clause in clauses:
        if any(_implies(other, clause) for other in kept):
            continue
        kept = [other for other in kept if not _implies(clause, other)]
        kept.append(clause)
    return kept


def _implies(clause: Clause, other: Clause) -> bool:
    return all(key in other and found.values <= other[key].values for key, found in clause.items())
