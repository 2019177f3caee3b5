"""PostgreSQL's comparisons in Spark's words: with elements of arrays, patterns, bounds, infinity and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_building import (
    compare_json,
)
from headrace.declare.query.postgres_intervals import write_span
from headrace.declare.query.postgres_json import (
    compare_with_elements,
    read_array,
)
from headrace.declare.query.postgres_nodes import (
    ConvertCall,
    TypeOf,
    make_call,
    mark,
)
from headrace.declare.query.postgres_overlaps import compare_overlap
from headrace.declare.query.postgres_spans import compare_by_order, refuse_greatest
from headrace.declare.query.postgres_times import (
    names_infinity,
    read_infinity,
)
from headrace.model.types import (
    DATE,
    TIMESTAMP,
)


def coalesce_values(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """Beside a date or a time 'infinity' is one, too."""
    if not any(map(names_infinity, arguments)):
        span = write_span(exp.Anonymous(this="coalesce", expressions=arguments), type_of)
        return span or make_call("coalesce", *arguments)
    types = [type_of(one) for one in arguments if not names_infinity(one)]
    known = next((type_ for type_ in types if type_ in (DATE, TIMESTAMP)), None)
    return make_call("coalesce", *(read_infinity(one, known) or one for one in arguments))


def _compare_any(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
    """`x = ANY (ARRAY[...])` and `x <> ALL (ARRAY[...])` are IN and NOT IN."""
    word, options = _find_options(node.expression)
    elements = None if word else compare_with_elements(node, type_of)
    if elements is not None:
        return elements
    left, options, in_spark = node.this, options or [node.expression], False
    if word or not isinstance(node.expression, exp.Any | exp.All):
        sides = _find_sides(node, options, type_of)
        if sides is not None:
            left, options, in_spark = sides[0], sides[1:], True
    if not word and in_spark:
        return mark(type(node)(this=left, expression=options[0]))
    if not word:
        return compare_infinity(node, type_of) or compare_json(node, type_of) or node
    member = mark(exp.In(this=left, expressions=options))
    if isinstance(node, exp.EQ) and word == "any":
        return member
    if isinstance(node, exp.NEQ) and word == "all":
        return mark(exp.Not(this=member))
    return _compare_each(type(node), left, word, options, in_spark=in_spark)


def _find_sides(node: exp.Binary, others: list[exp.Expr], type_of: TypeOf) -> list[exp.Expr] | None:
    """What to compare in place of both sides, where PostgreSQL does not compare what we hold."""
    if isinstance(node.this.unnest(), exp.Tuple):
        return None
    for side in (node.this, *others):
        if isinstance(side.unnest(), exp.Query):
            type_of(side)  # so that its columns are read
    return compare_by_order([node.this, *others], type_of, is_order=isinstance(node, _ORDERING))


def _compare_each(
    type_: type[exp.Binary], left: exp.Expr, word: str, options: list[exp.Expr], *, in_spark: bool
) -> exp.Expr:
    """`x < ANY (ARRAY[...])`: one comparison for each element."""
    tests: list[exp.Expr] = [type_(this=left.copy(), expression=option) for option in options]
    if in_spark:
        tests = [mark(test) for test in tests]
    joined = exp.or_(*tests, copy=False) if word == "any" else exp.and_(*tests, copy=False)
    return mark(exp.Paren(this=joined))


def _compare_json(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
    sides = compare_by_order([node.this, node.expression], type_of, is_order=False)
    if sides is not None:
        return mark(type(node)(this=sides[0], expression=sides[1]))
    return compare_infinity(node, type_of) or compare_json(node, type_of) or node


def compare_infinity(node: exp.Binary, type_of: TypeOf) -> exp.Expr | None:
    """A comparison with 'infinity' of a date or a time; None without it."""
    for far, other in ((node.this, node.expression), (node.expression, node.this)):
        found = read_infinity(far, type_of(other)) if names_infinity(far) else None
        if found is not None:
            left, right = (found, other) if far is node.this else (other, found)
            return mark(type(node)(this=left, expression=right))
    return None


def _find_options(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """`any` or `all`, and the elements of the array after it; nothing if there is no array."""
    word, inner = "", node
    if isinstance(node, exp.Any | exp.All):
        word, inner = ("any" if isinstance(node, exp.Any) else "all"), node.this.unnest()
    elif isinstance(node, exp.Anonymous) and node.name.lower() in ("any", "some", "all") and len(node.expressions) == 1:
        word, inner = ("all" if node.name.lower() == "all" else "any"), node.expressions[0].unnest()
    if word and isinstance(inner, exp.Literal) and inner.is_string:
        return word, [*read_array(inner.name)] or [exp.Null()]
    return (word, inner.expressions) if word and isinstance(inner, exp.Array) else ("", [])


def _like_any(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
    word, options = _find_options(node.expression)
    if not word or node.args.get("negate"):
        return node
    parts = [type(node)(this=node.this.copy(), expression=pattern) for pattern in options]
    joined = exp.or_(*parts, copy=False) if word == "any" else exp.and_(*parts, copy=False)
    return mark(exp.Paren(this=joined))


def _between(node: exp.Between, type_of: TypeOf) -> exp.Expr:
    sides = compare_by_order([node.this, node.args["low"], node.args["high"]], type_of, is_order=True)
    if sides is not None:
        node = exp.Between(this=sides[0], low=sides[1], high=sides[2], symmetric=node.args.get("symmetric"))
        if not node.args.get("symmetric"):
            return mark(node)
    if not node.args.get("symmetric"):
        bounds = (node.args["low"], node.args["high"])
        if not any(map(names_infinity, (node.this, *bounds))):
            return node
        type_of(node.this)  # which the tree remembers for its copies
        pairs = zip((exp.GTE, exp.LTE), bounds, strict=True)
        return mark(exp.Paren(this=exp.and_(*(kind(this=node.this.copy(), expression=b) for kind, b in pairs))))
    # Not by `least` and `greatest`, which skip a bound that is NULL.
    low, high = node.args["low"], node.args["high"]
    one = exp.Between(this=node.this, low=low, high=high)
    other = exp.Between(this=node.this.copy(), low=high.copy(), high=low.copy())
    return mark(exp.Paren(this=mark(exp.Or(this=one, expression=other))))


def _find_member(node: exp.In, type_of: TypeOf) -> exp.Expr:
    """`x IN ('1 day', '24:00')` of intervals and times of day."""
    if not node.expressions or isinstance(node.this.unnest(), exp.Tuple):
        return node
    sides = compare_by_order([node.this, *node.expressions], type_of, is_order=False)
    return node if sides is None else mark(exp.In(this=sides[0], expressions=sides[1:]))


def _take_extreme(name: str) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        refuse_greatest(name, arguments, type_of)
        return make_call(name, *arguments)

    return convert


def _leave_out(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    span = write_span(exp.Anonymous(this="nullif", expressions=arguments), type_of) if len(arguments) == 2 else None
    return span or make_call("nullif", *arguments)


CONDITION_CALLS: Mapping[str, ConvertCall] = {
    "nullif": _leave_out,
    **{name: _take_extreme(name) for name in ("greatest", "least")},
}

_ORDERING = (exp.LT, exp.LTE, exp.GT, exp.GTE)


def _collate(node: exp.Collate, type_of: TypeOf) -> exp.Expr:
    """Text is compared by its characters, as in the collation C."""
    if node.expression.name.upper() not in ("C", "POSIX"):
        raise NotMaintained(f'expression: COLLATE "{node.expression.name}"', 'text is compared as in COLLATE "C"')
    return mark(exp.Paren(this=node.this))


CONDITION_NODES: Mapping[type[exp.Expr], Callable[[Any, TypeOf], exp.Expr]] = {
    exp.Between: _between,
    exp.Collate: _collate,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _compare_any),
    exp.ILike: _like_any,
    exp.In: _find_member,
    exp.Like: _like_any,
    exp.NullSafeEQ: _compare_json,
    exp.NullSafeNEQ: _compare_json,
    exp.Overlaps: compare_overlap,
}
