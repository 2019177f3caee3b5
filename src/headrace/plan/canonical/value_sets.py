"""Sets of values of one expression: unions of intervals, and NULL as one more member.

Every condition on one expression is such a set (`x > 5`, `x IN (1, 2)`, `x IS NULL`), AND is intersection, OR is
union. The order of values is total: Python's for the types that occur, with NaN above everything, so an interval
without an upper end holds NaN.

An interval lies between two cuts. A cut is the place just before or just after a value, which makes open and closed
ends one case:

    x > 5     (after 5, END)          x = 5     (before 5, after 5)          x <= 5    (START, after 5)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Cut = tuple[int, Any, bool]
"""(-1, 0 or 1 for START, a value, END; the value; whether just after it). Cuts compare as tuples."""

Span = tuple[Cut, Cut]

START: Cut = (-1, None, False)
END: Cut = (1, None, False)


def before(value: Any) -> Cut:
    return (0, value, False)


def after(value: Any) -> Cut:
    return (0, value, True)


@dataclass(frozen=True, slots=True)
class ValueSet:
    """`spans` are sorted, not empty, and do not touch; `null` says whether NULL is a member."""

    spans: tuple[Span, ...] = ()
    null: bool = False

    @classmethod
    def of(cls, values: Iterable[Any], null: bool = False) -> ValueSet:
        """Exactly these values."""
        return cls(_join_spans((before(value), after(value)) for value in values), null)

    def __bool__(self) -> bool:
        return self.null or bool(self.spans)

    def __or__(self, other: ValueSet) -> ValueSet:
        return ValueSet(_join_spans((*self.spans, *other.spans)), self.null or other.null)

    def __and__(self, other: ValueSet) -> ValueSet:
        return ValueSet(tuple(_overlaps(self.spans, other.spans)), self.null and other.null)

    def __sub__(self, other: ValueSet) -> ValueSet:
        return self & ValueSet(_gaps(other.spans), not other.null)

    def __le__(self, other: ValueSet) -> bool:
        """Whether every member is a member of the other."""
        return not self - other

    @property
    def without_null(self) -> ValueSet:
        return ValueSet(self.spans)

    @property
    def gaps(self) -> tuple[Span, ...]:
        """What lies between the spans, and before and after them."""
        return _gaps(self.spans)

    @property
    def values(self) -> tuple[Any, ...] | None:
        """The members when they are single values, in order; None when there are intervals. NULL is not listed."""
        found = tuple(value_of(span) for span in self.spans)
        return None if any(value is None for value in found) else found


NOTHING = ValueSet()
ONLY_NULL = ValueSet((), True)
ALL_VALUES = ValueSet(((START, END),))
"""Everything but NULL, in a type with infinitely many values."""


def value_of(span: Span) -> Any:
    """The one value of a span, or None when it holds more."""
    (low_kind, low, low_after), (high_kind, high, high_after) = span
    is_point = low_kind == high_kind == 0 and low == high and not low_after and high_after
    return low if is_point else None


def _join_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    done: list[Span] = []
    for low, high in sorted(spans):
        if done and low <= done[-1][1]:
            done[-1] = (done[-1][0], max(done[-1][1], high))
        else:
            done.append((low, high))
    return tuple(done)


def _overlaps(left: tuple[Span, ...], right: tuple[Span, ...]) -> Iterator[Span]:
    """Both are walked once: of two spans, the one that ends first meets nothing more."""
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low < high:
            yield low, high
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1


def _gaps(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    cuts = (START, *(cut for span in spans for cut in span), END)
    pairs = zip(cuts[::2], cuts[1::2], strict=True)
    return tuple((low, high) for low, high in pairs if low < high)
