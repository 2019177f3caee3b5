"""Filters on time: a time compared with now() plus or minus a constant, so that it is known when a row leaves or
enters.

Other spellings are brought to this form where that is exact: `now() - ts < INTERVAL 7 DAYS`, and comparisons with the
current date, which is the current time without its hours.
"""

from __future__ import annotations

import datetime as dt

from headrace.declare.query.calls import NOW, TODAY
from headrace.model.expr import Call, Expr, Literal, conjunction, conjuncts, is_deterministic
from headrace.model.relation import Filter, Relation
from headrace.model.types import BOOLEAN, DATE, DAY_TIME, INT, INTERVALS, TIMESTAMP

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def use_time(relation: Relation) -> Relation:
    """A filter with its conditions on time in the one form."""
    if not isinstance(relation, Filter) or is_deterministic(relation.predicate):
        return relation
    parts = (usable for part in conjuncts(relation.predicate) for usable in conjuncts(_usable(part)))
    return Filter(relation.input, conjunction(tuple(parts)))


def is_time_filter(part: Expr) -> bool:
    """Whether a condition compares something without now() with now() plus or minus a constant."""
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return False
    left, right = part.arguments
    return (is_deterministic(left) and _is_shifted_now(right)) or (is_deterministic(right) and _is_shifted_now(left))


def _is_shifted_now(expr: Expr) -> bool:
    if isinstance(expr, Call) and expr.function in ("+", "-") and expr.arguments[0] == NOW:
        return isinstance(expr.arguments[1], Literal) and expr.arguments[1].type in INTERVALS
    return expr == NOW


def _usable(part: Expr) -> Expr:
    """The condition with the time on the left and now() on the right, if it can be written so."""
    if is_deterministic(part) or not isinstance(part, Call) or part.function not in MIRRORED:
        return part
    left, right = part.arguments
    operator = part.function
    if not is_deterministic(left):
        left, right, operator = right, left, MIRRORED[operator]
    if not is_deterministic(left):
        return part
    return (
        _by_difference(operator, left, right)
        or _by_date(operator, left, right)
        or _compare_sides(operator, left, right)
    )


def _compare_sides(operator: str, left: Expr, right: Expr) -> Expr:
    return Call(operator, (left, right), BOOLEAN)


def _by_difference(operator: str, span: Expr, difference: Expr) -> Expr | None:
    """`span > now() - ts` is `ts > now() - span`."""
    if isinstance(difference, Call) and difference.function == "-" and difference.arguments[0] == NOW:
        time = difference.arguments[1]
        if time.type == TIMESTAMP and isinstance(span, Literal) and span.type == DAY_TIME:
            return _compare_sides(operator, time, Call("-", (NOW, span), TIMESTAMP))
    return None


def _by_date(operator: str, left: Expr, right: Expr) -> Expr | None:
    """Comparisons with the current date plus some days.

    The date of now is at most d just when now is before the end of d, and at least d just when now is not before its
    start.
    """
    days = _days_from_today(right)
    if days is None or left.type != DATE:
        return None
    after_end, after_start = _since(left, 1 - days), _since(left, -days)
    match operator:
        case ">=":
            return _compare_sides(">", *after_end)
        case ">":
            return _compare_sides(">", *after_start)
        case "<=":
            return _compare_sides("<=", *after_start)
        case "<":
            return _compare_sides("<=", *after_end)
    return conjunction((_compare_sides(">", *after_end), _compare_sides("<=", *after_start)))


def _since(date: Expr, days: int) -> tuple[Expr, Expr]:
    """The sides of a comparison of the start of a day, some days after this date, with now."""
    midnight = Call("cast", (date,), TIMESTAMP)
    span = Literal(dt.timedelta(days=days), DAY_TIME)
    return midnight, Call("-", (NOW, span), TIMESTAMP) if days else NOW


def _days_from_today(expr: Expr) -> int | None:
    """How many days after the current date an expression is."""
    if expr == TODAY:
        return 0
    if not isinstance(expr, Call) or len(expr.arguments) != 2 or not isinstance(expr.arguments[1], Literal):
        return None
    inner, amount = _days_from_today(expr.arguments[0]), expr.arguments[1].value
    days = amount.days if isinstance(amount, dt.timedelta) else amount
    sign = {"date_add": 1, "+": 1, "date_sub": -1, "-": -1}.get(expr.function)
    if inner is None or sign is None or not isinstance(days, int) or expr.type != DATE:
        return None
    return None if expr.arguments[1].type not in (INT, DAY_TIME) else inner + sign * days
