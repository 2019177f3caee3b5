"""Atomic conditions as restrictions: which values an expression (the subject) may have.

    x > 5             x in (5, ...)                     x IS NULL             x in {NULL}
    x IN (1, 2)       x in {1, 2}                       a <= b                compare(a, b) in {-1, 0}
    x LIKE 'a%'       like(x, 'a%') in {TRUE}           NOT x LIKE 'a%'       like(x, 'a%') in {FALSE}

With that, conditions on one subject combine as sets do, whatever they are. `compare` is used within this module and
its caller only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.model.expr import FALSE, Call, Expr, Literal, conjunction
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Simple,
    Type,
    Value,
    is_numeric,
)
from headrace.plan.canonical.expression_key import key_of
from headrace.plan.canonical.expressions import comparable, in_, in_order, negation
from headrace.plan.canonical.value_sets import (
    ALL_VALUES,
    END,
    NOTHING,
    ONLY_NULL,
    START,
    Span,
    ValueSet,
    after,
    before,
    value_of,
)

Truth = bool | None
COMPARE = "compare"

_SIGNS: dict[str, tuple[int, ...]] = {"=": (0,), "<>": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
_OPERATORS = {signs: operator for operator, signs in _SIGNS.items()}
_ORDERED: tuple[Simple, ...] = (STRING, DATE, TIMESTAMP, DAY_TIME)


@dataclass(frozen=True, slots=True)
class Restriction:
    """The subject's value is in the set."""

    subject: Expr
    values: ValueSet

    @property
    def key(self) -> str:
        return key_of(self.subject)

    @property
    def is_never(self) -> bool:
        return not self.values

    @property
    def is_always(self) -> bool:
        return ValueSet(present(self.subject).spans, True) <= self.values


def present(subject: Expr) -> ValueSet:
    """All values that the subject can have, but NULL."""
    if is_comparison_of_two(subject):
        return ValueSet.of((-1, 0, 1))
    return ValueSet.of((False, True)) if subject.type == BOOLEAN else ALL_VALUES


def is_comparison_of_two(subject: Expr) -> bool:
    return isinstance(subject, Call) and subject.function == COMPARE


def restriction(atom: Expr, wanted: frozenset[Truth]) -> Restriction:
    """The condition that a canonical boolean expression has one of these truth values."""
    if isinstance(atom, Call):
        found = _by_function(atom, wanted)
        if found is not None:
            return found
    return Restriction(atom, ValueSet.of(sorted(t for t in wanted if t is not None), None in wanted))


def _by_function(atom: Call, wanted: frozenset[Truth]) -> Restriction | None:
    match atom.function:
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            return _comparison(atom, wanted)
        case "in":
            return _in(atom, wanted)
        case "<=>":
            return _null_safe(atom, wanted)
        case "is_null":
            return _is_null(atom, wanted)
    return None


def _combine_values(subject: Expr, true: ValueSet, null: ValueSet, wanted: frozenset[Truth]) -> Restriction:
    """Makes a restriction from the subject's values that make the atom true or NULL; all others make it false."""
    false = ValueSet(present(subject).spans, True) - true - null
    chosen = NOTHING
    for truth, values in ((True, true), (False, false), (None, null)):
        chosen = chosen | values if truth in wanted else chosen
    return Restriction(subject, chosen)


def _comparison(atom: Call, wanted: frozenset[Truth]) -> Restriction | None:
    left, right = atom.arguments
    if key_of(left) == key_of(right):
        return _with_itself(left, 0 in _SIGNS[atom.function], wanted)
    if not isinstance(right, Literal):
        subject = Call(COMPARE, (left, right), INT)
        return _combine_values(subject, ValueSet.of(_SIGNS[atom.function]), ONLY_NULL, wanted)
    if not _has_order(left.type, right):
        return None
    return _combine_values(left, _side(atom.function, right.value), ONLY_NULL, wanted)


def _with_itself(expr: Expr, holds: bool, wanted: frozenset[Truth]) -> Restriction:
    """A comparison of an expression with itself: it is NULL or not, and nothing else."""
    if expr.type != BOOLEAN:
        return _combine_values(expr, present(expr) if holds else NOTHING, ONLY_NULL, wanted)
    known: frozenset[Truth] = frozenset((True, False)) if holds in wanted else frozenset()
    return restriction(expr, known | (wanted & {None}))


def _has_order(type_: Type, literal: Literal) -> bool:
    """Whether Python orders this literal among the subject's values as SQL does."""
    if literal.value is None or literal.value != literal.value:
        return False
    if is_numeric(type_):
        return is_numeric(literal.type)
    return type_ in _ORDERED and literal.type == type_


def _side(function: str, value: Value) -> ValueSet:
    spans: dict[str, tuple[Span, ...]] = {
        "=": ((before(value), after(value)),),
        "<": ((START, before(value)),),
        "<=": ((START, after(value)),),
        ">": ((after(value), END),),
        ">=": ((before(value), END),),
        "<>": ((START, before(value)), (after(value), END)),
    }
    return ValueSet(spans[function])


def _in(atom: Call, wanted: frozenset[Truth]) -> Restriction | None:
    subject, *options = atom.arguments
    literals = [option for option in options if isinstance(option, Literal) and _has_order(subject.type, option)]
    if len(literals) < len(options):
        return None
    return _combine_values(subject, ValueSet.of(option.value for option in literals), ONLY_NULL, wanted)


def _null_safe(atom: Call, wanted: frozenset[Truth]) -> Restriction | None:
    left, right = atom.arguments
    if not isinstance(right, Literal) or not _has_order(left.type, right):
        return None
    return _combine_values(left, ValueSet.of((right.value,)), NOTHING, wanted)


def _is_null(atom: Call, wanted: frozenset[Truth]) -> Restriction:
    (inner,) = atom.arguments
    if inner.type != BOOLEAN:
        return _combine_values(inner, ONLY_NULL, NOTHING, wanted)
    # A condition of its own: NULL when that one is neither true nor false.
    truths: set[Truth] = set()
    truths |= {None} if True in wanted else set()
    truths |= {True, False} if False in wanted else set()
    return restriction(inner, frozenset(truths))


# Back to expressions


def as_conjuncts(found: Restriction) -> tuple[Expr, ...]:
    """The restriction as conditions joined by AND: ends of the range, then holes in it."""
    subject, values = found.subject, found.values
    if is_comparison_of_two(subject) or subject.type == BOOLEAN:
        return (_finite(subject, values),)
    if not values.null:
        return _conditions(subject, values)
    if not values.spans:
        return (_null_test(subject),)
    return tuple(_any((_null_test(subject), part)) for part in _conditions(subject, values.without_null))


def as_disjuncts(found: Restriction) -> tuple[Expr, ...]:
    """The restriction as conditions joined by OR: single values, then ranges."""
    subject, values = found.subject, found.values
    if is_comparison_of_two(subject) or subject.type == BOOLEAN:
        return (_finite(subject, values),)
    null = (_null_test(subject),) if values.null else ()
    if not values.spans or _are_points(values.gaps):
        return (*null, *(_conditions(subject, values.without_null) if values.spans else ()))
    points = tuple(value_of(span) for span in values.spans if value_of(span) is not None)
    ranges = (span for span in values.spans if value_of(span) is None)
    single = (_among(subject, points),) if points else ()
    return (*null, *single, *(conjunction(_ends(subject, span)) for span in ranges))


def _conditions(subject: Expr, values: ValueSet) -> tuple[Expr, ...]:
    if values == ALL_VALUES:
        return (negation(_null_test(subject)),)
    points = values.values
    if points is not None:
        return (_among(subject, points),)
    whole = (values.spans[0][0], values.spans[-1][1])
    holes = [gap for gap in values.gaps if whole[0] < gap[0] and gap[1] < whole[1]]
    missing = tuple(value_of(hole) for hole in holes if value_of(hole) is not None)
    wide = (hole for hole in holes if value_of(hole) is None)
    excluded = (negation(_among(subject, missing)),) if missing else ()
    return (*_ends(subject, whole), *excluded, *(_outside(subject, hole) for hole in wide))


def _are_points(spans: Iterable[Span]) -> bool:
    return all(value_of(span) is not None for span in spans)


def _among(subject: Expr, values: tuple[Any, ...]) -> Expr:
    return in_(subject, tuple(_literal(subject, value) for value in values))


def _ends(subject: Expr, span: Span) -> tuple[Expr, ...]:
    (low_kind, low, low_after), (high_kind, high, high_after) = span
    bounds = []
    if low_kind == 0:
        bounds.append(_compare_with(subject, ">" if low_after else ">=", low))
    if high_kind == 0:
        bounds.append(_compare_with(subject, "<=" if high_after else "<", high))
    return tuple(bounds)


def _outside(subject: Expr, hole: Span) -> Expr:
    (_, low, low_after), (_, high, high_after) = hole
    below = _compare_with(subject, "<=" if low_after else "<", low)
    above = _compare_with(subject, ">" if high_after else ">=", high)
    return _any((below, above))


def _compare_with(subject: Expr, function: str, value: Any) -> Expr:
    return Call(function, (subject, _literal(subject, value)), BOOLEAN)


def _literal(subject: Expr, value: Any) -> Literal:
    """The literal of a value, as canonical comparisons have it."""
    if not is_numeric(subject.type):
        return Literal(value, subject.type)
    literal = comparable(subject, Literal(value, DOUBLE if isinstance(value, float) else BIGINT))[1]
    assert isinstance(literal, Literal)
    return literal


def _finite(subject: Expr, values: ValueSet) -> Expr:
    """The restriction of a comparison of two expressions, or of a boolean."""
    chosen = values.values
    assert chosen is not None, f"not single values: {values}"
    full = present(subject).values == chosen
    if is_comparison_of_two(subject):
        assert isinstance(subject, Call)
        operator = "=" if full or not chosen else _OPERATORS[chosen]
        condition: Expr = Call(operator, subject.arguments, BOOLEAN)
    else:
        condition = negation(subject) if chosen == (False,) else subject
    if not chosen:
        return _null_test(condition)
    if full:
        return negation(_null_test(condition))
    return negation(Call("<=>", (condition, FALSE), BOOLEAN)) if values.null else condition


def _null_test(expr: Expr) -> Expr:
    return Call("is_null", (expr,), BOOLEAN)


def _any(parts: Iterable[Expr]) -> Expr:
    """OR without further rewriting of its parts."""
    flat = in_order(
        inner
        for part in parts
        for inner in (part.arguments if isinstance(part, Call) and part.function == "or" else (part,))
    )
    return flat[0] if len(flat) == 1 else Call("or", flat, BOOLEAN)


def any_of(restrictions: Iterable[Restriction]) -> Expr:
    """OR of restrictions; FALSE of none."""
    parts = tuple(part for found in restrictions for part in as_disjuncts(found))
    return _any(parts) if parts else FALSE
