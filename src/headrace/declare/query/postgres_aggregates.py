"""PostgreSQL's aggregates with their arguments in the types by which Spark computes what PostgreSQL does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.aggregate_syntax import WrittenAggregate, called_function, read_written
from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_intervals import write_span
from headrace.declare.query.postgres_nodes import (
    IN_SPARK_WORDS,
    TypeOf,
    at_place_of,
    make_call,
    make_cast,
    mark,
)
from headrace.declare.query.postgres_numbers import LEAST_SCALE, WHOLE_DIGITS
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_spans import choose_by_order, refuse_sorting
from headrace.model.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INTEGERS,
    Decimal,
    is_numeric,
)


def _sum(arguments: list[exp.Expr], type_of: TypeOf) -> list[exp.Expr]:
    """Sums of bigint are numeric: dividing them is no division of integers. Those of real are rounded at each step, and
    depend on the order of rows.
    """
    if type_of(arguments[0]) == FLOAT:
        raise NotMaintained("aggregate: sum of real", "use sum(x::double precision)")
    return [make_cast(arguments[0], "DECIMAL(19, 0)")] if type_of(arguments[0]) == BIGINT else arguments


def _average(arguments: list[exp.Expr], type_of: TypeOf) -> list[exp.Expr]:
    """Averages keep at least sixteen digits after the point, and so have at most 18 before it."""
    type_ = type_of(arguments[0])
    whole = WHOLE_DIGITS.get(type_) if type_ in INTEGERS else None
    if isinstance(type_, Decimal):
        whole = type_.precision - type_.scale
    if whole is None:
        return arguments
    scale = max(LEAST_SCALE, type_.scale if isinstance(type_, Decimal) else 0)
    return [make_cast(arguments[0], f"DECIMAL({min(whole + scale, 38)}, {scale})")]


_ARGUMENTS: Mapping[str, Callable[[list[exp.Expr], TypeOf], list[exp.Expr]]] = {"sum": _sum, "avg": _average}


def convert_arguments(written: WrittenAggregate, type_of: TypeOf) -> WrittenAggregate:
    """An aggregate with its arguments in the types by which Spark computes what PostgreSQL does."""
    if written.distinct and written.function == "count":
        found = [write_span(argument, type_of) for argument in written.arguments if not isinstance(argument, exp.Star)]
        if found and all(one is not None for one in found):
            keys = tuple(make_call("interval_order", one) for one in found if one is not None)
            return replace(written, arguments=keys)
    for argument in written.arguments if written.distinct else ():
        if written.function not in ("sum", "avg", "min", "max"):
            refuse_sorting(argument, "DISTINCT of", type_of)
    sorted_ = _convert_sorted(written, type_of)
    if sorted_ is not None:
        return sorted_
    if written.function in _UNORDERED and not written.within:
        for key in written.order:
            type_of(key.this)  # so that what is wrong in it is found
        written = replace(written, order=())
    if written.function == "array_agg":
        return replace(written, nulls=True)
    if written.function == "percentile_disc" and len(written.order) == 1:
        type_of(written.order[0].this)  # which is the type of the result; the tree remembers it
    convert = _ARGUMENTS.get(written.function)
    if convert is None or len(written.arguments) != 1 or isinstance(written.arguments[0], exp.Star):
        return written
    return replace(written, arguments=tuple(convert(list(written.arguments), type_of)))


def _convert_sorted(written: WrittenAggregate, type_of: TypeOf) -> WrittenAggregate | None:
    """Sums of intervals, and the largest of values that are not sorted by their text; None for other aggregates."""
    if written.function in _OF_VALUES_IN_ORDER and written.within:
        for key in written.order:
            if choose_by_order(key.this, type_of) is not None:
                hint = "take it of a number: extract(epoch FROM x), or min(x) and max(x)"
                raise NotMaintained(f"aggregate: {written.function} of {find_origin_type(key.this)}", hint)
    if len(written.arguments) != 1 or isinstance(written.arguments[0], exp.Star):
        return None
    (argument,) = written.arguments
    if written.function in ("sum", "avg"):
        span = write_span(argument, type_of)
        return None if span is None else replace(written, arguments=(make_call("interval_packed", span),), order=())
    if written.function not in ("min", "max"):
        return None
    by = choose_by_order(argument, type_of)
    if by is None:
        return None
    value = write_span(argument, type_of) or argument
    return replace(written, function=f"{written.function}_by", arguments=(value, by), distinct=False, order=())


_OF_VALUES_IN_ORDER = ("percentile_cont", "percentile_disc")

_UNORDERED = frozenset(
    """sum avg count min max bool_and bool_or every bit_and bit_or bit_xor variance var_pop var_samp stddev stddev_pop
    stddev_samp corr covar_pop covar_samp""".split()
)
"""Aggregates that PostgreSQL takes with ORDER BY, and that do not depend on it."""


def convert_aggregate(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """An aggregate as a node, with its arguments in these types, to write it out."""
    name, arguments = node.name.lower(), list(node.expressions)
    if isinstance(node, exp.Anonymous) and name == "string_agg" and isinstance(arguments[-1], exp.Order):
        call, order = (
            make_call(name, *arguments[:-1], arguments[-1].this),
            exp.Order(expressions=arguments[-1].expressions),
        )
        return at_place_of(node, mark(exp.WithinGroup(this=call, expression=order)))
    if isinstance(node, exp.Anonymous) and name in _UNORDERED and arguments and isinstance(arguments[-1], exp.Order):
        arguments[-1] = arguments[-1].this
        node.set("expressions", arguments)
    if isinstance(node, exp.Anonymous) and name == "array_agg":
        raise NotMaintained("aggregate: array_agg", "use string_agg(x::text, ',' ORDER BY x)")
    if isinstance(node, exp.Anonymous) and name == "grouping" and len(arguments) > 1:
        return at_place_of(node, make_cast(make_call("grouping_id", *arguments), "INT"))
    if isinstance(node, exp.Filter | exp.WithinGroup) and called_function(node) == "percentile_disc":
        return _keep_type(node, type_of)
    if not isinstance(node, exp.Anonymous) or name not in _ARGUMENTS or len(arguments) != 1:
        return node
    if node.meta.get(IN_SPARK_WORDS) or isinstance(arguments[0], exp.Star):
        return node
    distinct = isinstance(arguments[0], exp.Distinct)
    inner = list(arguments[0].expressions) if distinct else arguments
    made = _ARGUMENTS[name](inner, type_of)
    if made is inner:
        return node
    new = make_call(name, *([exp.Distinct(expressions=made)] if distinct else made))
    return at_place_of(node, new)


def _keep_type(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`percentile_disc` is a value of the column, in its type; Spark's is always a double."""
    (key,) = read_written(node).order
    if node.meta.get(IN_SPARK_WORDS) or type_of(key.this) == DOUBLE:
        return node
    if not is_numeric(type_of(key.this)):
        hint = "Spark has it of numbers: min(x), or the first of the rows in order"
        raise NotMaintained(f"aggregate: percentile_disc of {type_of(key.this)}, in Spark's words", hint)
    for inner in (node, node.this):
        mark(inner)
    return at_place_of(node, make_cast(node, str(type_of(key.this))))
