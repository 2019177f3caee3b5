"""Short forms of PostgreSQL's written out, before a query is read: rows that are compared, lists of fractions, and
names of functions that its kin have.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from sqlglot import exp

_EQUALITIES: dict[type[exp.Expr], bool] = {
    exp.EQ: True,
    exp.NullSafeEQ: True,
    exp.NEQ: False,
    exp.NullSafeNEQ: False,
}
"""Comparisons that hold of rows if they hold of all columns, or of any."""
_STRICT: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.LT, exp.LTE: exp.LT, exp.GT: exp.GT, exp.GTE: exp.GT}
_WITH_FRACTIONS = ("percentile_cont", "percentile_disc")


def spread_rows(tree: exp.Expr) -> None:
    """`(a, b) < (c, d)` compares column by column, from the left."""
    for node in list(tree.find_all(*_EQUALITIES, *_STRICT)):
        left, right = _find_columns(node.this), _find_columns(node.expression)
        if left and len(left) == len(right):
            node.replace(exp.Paren(this=_compare(type(node), left, right)))


def _find_columns(node: exp.Expr) -> list[exp.Expr]:
    """The columns of `(a, b)` and `ROW(a, b)`."""
    inner = node.unnest()
    is_row = isinstance(inner, exp.Tuple) or (isinstance(inner, exp.Anonymous) and inner.name.lower() == "row")
    return list(inner.expressions) if is_row else []


def _compare(kind: type[exp.Expr], left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> exp.Expr:
    if kind in _EQUALITIES:
        tests = [kind(this=one.copy(), expression=other.copy()) for one, other in zip(left, right, strict=True)]
        join = exp.And if _EQUALITIES[kind] else exp.Or
        return functools.reduce(lambda one, other: join(this=one, expression=other), tests)
    if len(left) == 1:
        return kind(this=left[0].copy(), expression=right[0].copy())
    first = _STRICT[kind](this=left[0].copy(), expression=right[0].copy())
    tie = exp.EQ(this=left[0].copy(), expression=right[0].copy())
    rest = exp.And(this=tie, expression=exp.Paren(this=_compare(kind, left[1:], right[1:])))
    return exp.Or(this=first, expression=rest)


def spread_fractions(tree: exp.Expr) -> None:
    """`percentile_cont(ARRAY[0.5, 0.9])` is an array of one for each."""
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.lower() not in _WITH_FRACTIONS or not isinstance(call.parent, exp.WithinGroup):
            continue
        fractions = call.expressions[0].unnest() if len(call.expressions) == 1 else None
        if not isinstance(fractions, exp.Array) or not fractions.expressions:
            continue
        whole: exp.Expr = call.parent
        while isinstance(whole.parent, exp.Filter | exp.WithinGroup):
            whole = whole.parent
        stand_in = exp.Null()
        whole.replace(stand_in)
        found = [_take_fraction(whole, one) for one in fractions.expressions]
        has_rows = exp.Not(this=exp.Is(this=found[0].copy(), expression=exp.Null()))
        stand_in.replace(exp.Case(ifs=[exp.If(this=has_rows, true=exp.Array(expressions=found))]))


def _take_fraction(whole: exp.Expr, fraction: exp.Expr) -> exp.Expr:
    made = whole.copy()
    call = next(inner for inner in made.find_all(exp.Anonymous) if inner.name.lower() in _WITH_FRACTIONS)
    call.set("expressions", [fraction.copy()])
    return made


_OTHER_NAMES = {
    ("arg_max", 2): "max_by",
    ("arg_min", 2): "min_by",
    ("argmax", 2): "max_by",
    ("argmin", 2): "min_by",
    ("countif", 1): "count_if",
    ("favg", 1): "avg",
    ("fsum", 1): "sum",
    ("kahan_sum", 1): "sum",
    ("list", 1): "array_agg",
    ("list_agg", 1): "array_agg",
    ("proctime", 0): "now",
    ("first", 2): "min_by",
    ("json_object_keys", 1): "jsonb_object_keys",
    ("last", 2): "max_by",
    ("truncate", 1): "trunc",
    ("truncate", 2): "trunc",
}
"""Functions with one meaning and several names, of PostgreSQL and of Timescale, RisingWave and others that speak its
dialect, by name and number of arguments.
"""


def name_functions(tree: exp.Expr) -> None:
    """One name for each function: `last(price, at)` is `max_by(price, at)`."""
    for call in list(tree.find_all(exp.Anonymous)):
        name = _OTHER_NAMES.get((call.name.lower(), len(call.expressions)))
        if name is not None:
            call.set("this", name)
        elif (
            call.name.lower() == "datediff"
            and len(call.expressions) == 3
            and isinstance(call.expressions[0], exp.Literal)
        ):
            call.set("expressions", [exp.var(call.expressions[0].name), *call.expressions[1:]])
        elif call.name.lower() in _ENDS and not isinstance(call.parent, exp.Window):
            _take_end(call)


_ENDS = ("first", "first_value", "last", "last_value")


def _take_end(call: exp.Anonymous) -> None:
    """`first_value(x ORDER BY y)` of a group is the first element of `array_agg(x ORDER BY y)`."""
    order = call.expressions[0] if len(call.expressions) == 1 else None
    if not isinstance(order, exp.Order):
        return
    if call.name.lower().startswith("last"):
        for key in order.expressions:
            key.set("desc", not key.args.get("desc"))
            key.set("nulls_first", not key.args.get("nulls_first"))
    whole = call.parent if isinstance(call.parent, exp.Filter) else call
    stand_in = exp.Null()
    whole.replace(stand_in)
    call.set("this", "array_agg")
    stand_in.replace(exp.Bracket(this=exp.Paren(this=whole), expressions=[exp.Literal.number(1)]))
