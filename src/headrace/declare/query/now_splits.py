"""Conditions on time wherever they stand: each row meets one until an instant and does not meet it after that.

So rows are split by such a condition: into those that meet it, those that do not, and those without a time, each kept
by filters on time. In each part the condition is a constant. `ts > now() - INTERVAL 1 HOUR OR urgent` becomes

    rows with ts > now() - INTERVAL 1 HOUR        all of them
    rows with ts <= now() - INTERVAL 1 HOUR       those that are urgent
    rows without ts                               those that are urgent

No row is in two parts at one instant, so the parts together are the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headrace.declare.query.now import is_time_filter, use_condition
from headrace.meaning.functions import PYTHON_PREFIX
from headrace.model.expr import FALSE, TRUE, Call, Column, Expr, Literal, conjuncts, is_deterministic, transform, walk
from headrace.model.types import BOOLEAN, STRING

MOST_PARTS = 16
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
UNKNOWN = Literal(None, BOOLEAN)

Part = tuple[tuple[Expr, ...], tuple[Expr, ...]]
"""Conditions on rows, and what some expressions are for the rows that meet them."""


def split_by_time(exprs: Sequence[Expr]) -> tuple[Part, ...] | None:
    """Parts of rows in which no expression reads the time; None if there is no such split, or one into too many."""
    found: list[Part] = []
    for part in _split((), tuple(map(_spell_out, exprs))):
        if len(found) == MOST_PARTS or not all(map(is_deterministic, part[1])):
            return None
        found.append(part)
    return tuple(found)


def hide_conditions(expr: Expr) -> tuple[Expr, dict[str, Expr]]:
    """An expression with columns in place of the conditions by which rows can be split, and what these stand for."""
    hidden: dict[str, Expr] = {}

    def hide(node: Expr) -> Expr:
        if not _decides(node):
            return node
        name = f"condition {len(hidden)}"
        hidden[name] = node
        return Column(name, BOOLEAN)

    return transform(_spell_out(expr), hide), hidden


def _spell_out(expr: Expr) -> Expr:
    """Comparisons with now() in the one form that tells when a row leaves or enters."""
    return transform(expr, _spell_out_call)


def _spell_out_call(expr: Expr) -> Expr:
    if is_deterministic(expr) or not isinstance(expr, Call):
        return expr
    match expr:
        case Call("<>", (left, right)):
            equal = _spell_out_call(Call("=", (left, right), BOOLEAN))
            return Call("not", (equal,), BOOLEAN)
        case Call("in", (value, *options)):
            equalities = tuple(_spell_out_call(Call("=", (value, option), BOOLEAN)) for option in options)
            return equalities[0] if len(equalities) == 1 else Call("or", equalities, BOOLEAN)
        case Call("=", (left, right)):
            parts = conjuncts(use_condition(expr))
            if len(parts) == 1 and is_time_filter(parts[0]):
                assert isinstance(parts[0], Call)
                parts = tuple(Call(operator, parts[0].arguments, BOOLEAN) for operator in ("<=", ">="))
            return Call("and", parts, BOOLEAN) if len(parts) > 1 else expr
    return use_condition(expr)


def _split(conditions: tuple[Expr, ...], exprs: tuple[Expr, ...]) -> Iterator[Part]:
    exprs = tuple(transform(expr, fold_condition) for expr in exprs)
    condition = next((node for expr in exprs for node in walk(expr) if _decides(node)), None)
    if condition is None:
        yield conditions, exprs
        return
    assert isinstance(condition, Call)
    time, moving = condition.arguments
    opposite = Call(OPPOSITE[condition.function], (time, moving), BOOLEAN)
    has_none = Call("is_null", (time,), BOOLEAN)

    def put(value: Expr, chosen: Callable[[Expr], bool]) -> tuple[Expr, ...]:
        return tuple(transform(expr, lambda node: value if chosen(node) else node) for expr in exprs)

    def equals(node: Expr) -> bool:
        return node == condition

    def of_same_time(node: Expr) -> bool:
        return _decides(node) and isinstance(node, Call) and node.arguments[0] == time

    yield from _split((*conditions, condition), put(TRUE, equals))
    yield from _split((*conditions, opposite), put(FALSE, equals))
    if not any(_decides(test) and isinstance(test, Call) and test.arguments[0] == time for test in conditions):
        yield from _split((*conditions, has_none), put(UNKNOWN, of_same_time))


def _decides(node: Expr) -> bool:
    """Whether rows can be split by a condition. Its time is computed for all rows, also where it was guarded."""
    if not isinstance(node, Call) or node.function not in OPPOSITE or not is_time_filter(node):
        return False
    return is_deterministic(node.arguments[0]) and not any(map(_may_fail, walk(node.arguments[0])))


def _may_fail(node: Expr) -> bool:
    if not isinstance(node, Call):
        return False
    parses = node.function == "cast" and node.arguments[0].type == STRING
    return parses or node.function in ("/", "div", "%", "pmod", "only_row") or node.function.startswith(PYTHON_PREFIX)


def fold_condition(expr: Expr) -> Expr:
    """AND, OR, NOT and CASE without what constants among their conditions decide."""
    match expr:
        case Call("and", arguments):
            rest = tuple(one for one in arguments if one != TRUE)
            return FALSE if FALSE in rest else TRUE if not rest else _join_rest(expr, rest)
        case Call("or", arguments):
            rest = tuple(one for one in arguments if one != FALSE)
            return TRUE if TRUE in rest else FALSE if not rest else _join_rest(expr, rest)
        case Call("not", (Literal(value),)):
            return UNKNOWN if value is None else Literal(not value, BOOLEAN)
        case Call("case", arguments):
            return _fold_case(expr, arguments)
    return expr


def _join_rest(call: Call, rest: tuple[Expr, ...]) -> Expr:
    different = tuple(dict.fromkeys(rest))
    return different[0] if len(different) == 1 else _of(call, different)


def _of(call: Call, arguments: tuple[Expr, ...]) -> Expr:
    return Call(call.function, arguments, call.type)


def _fold_case(call: Call, arguments: tuple[Expr, ...]) -> Expr:
    kept: list[Expr] = []
    for condition, value in zip(arguments[:-1:2], arguments[1:-1:2], strict=True):
        if condition == TRUE:
            return _of(call, (*kept, value)) if kept else value
        if not (isinstance(condition, Literal) and condition.value in (False, None)):
            kept += [condition, value]
    return _of(call, (*kept, arguments[-1])) if kept else arguments[-1]
