"""The types of aggregates and window functions that are evaluated and not maintained: those that Spark gives them."""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.expressions import read_expression, window_function
from headrace.declare.query.known_functions import AGGREGATES
from headrace.declare.query.report import refuse
from headrace.declare.query.stage import QueryStage
from headrace.model.promotion import average_type, sum_type
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, TINYINT, Type, is_numeric

_FIXED: dict[str, Type] = {
    **dict.fromkeys(("count", "count_if", "approx_count_distinct", "regr_count", "grouping_id"), BIGINT),
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile"), INT),
    **dict.fromkeys(("percent_rank", "cume_dist", "std", "stddev", "stddev_pop", "stddev_samp", "variance"), DOUBLE),
    **dict.fromkeys(("var_pop", "var_samp", "corr", "covar_pop", "covar_samp", "skewness", "kurtosis"), DOUBLE),
    **dict.fromkeys(("bool_and", "bool_or", "every", "some", "any"), BOOLEAN),
    **dict.fromkeys(("regr_avgx", "regr_avgy", "regr_intercept", "regr_r2", "regr_slope"), DOUBLE),
    **dict.fromkeys(("regr_sxx", "regr_sxy", "regr_syy"), DOUBLE),
    "grouping": TINYINT,
}
_OF_NUMBERS = ("median", "percentile")
_OF_ARGUMENT = ("min", "max", "min_by", "max_by", "bit_and", "bit_or", "bit_xor")
_OF_ARGUMENT_OVER = ("lag", "lead", "nth_value", "first_value", "last_value", "first", "last", "any_value")


def window_type(node: exp.Window, stage: QueryStage) -> Type:
    """The type of a function with OVER."""
    name, call = window_function(node), node.this
    while not isinstance(call, exp.Anonymous):
        call = call.this
    if name in _OF_ARGUMENT_OVER and call.expressions:
        return read_expression(call.expressions[0], stage).type
    return _type(name, call, stage, "window function")


def aggregate_type(node: exp.Expr, stage: QueryStage) -> Type:
    """The type of a function over a group."""
    call = node
    while not isinstance(call, exp.Anonymous):
        call = call.this
    return _type(call.name.lower(), call, stage, "aggregate")


def _type(name: str, call: exp.Anonymous, stage: QueryStage, kind: str) -> Type:
    found = _FIXED.get(name) or _type_of_argument(name, call, stage)
    if found is None:
        refuse(f"{kind}: {name}", stage.environment.at(call))
    return found


def _type_of_argument(name: str, call: exp.Anonymous, stage: QueryStage) -> Type | None:
    arguments = call.expressions
    if arguments and isinstance(arguments[0], exp.Distinct):
        arguments = arguments[0].expressions
    if arguments and name in AGGREGATES:
        type_ = read_expression(arguments[0], stage).type
        if name in _OF_ARGUMENT:
            return type_
        if is_numeric(type_) and name in ("sum", "try_sum"):
            return sum_type(type_)
        if is_numeric(type_) and name in ("avg", "mean", "try_avg"):
            return average_type(type_)
        if is_numeric(type_) and name in _OF_NUMBERS:
            return DOUBLE
    return None
