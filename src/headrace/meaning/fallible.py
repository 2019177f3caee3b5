"""Which expressions may have no answer for some row: only those need to be tried before anybody reads them."""

from __future__ import annotations

from headrace.meaning.functions import FUNCTIONS
from headrace.meaning.scalar_compare import COMPARISONS
from headrace.model.expr import Call, Expr, walk
from headrace.model.promotion import common_type
from headrace.model.types import FRACTIONS, STRING, is_numeric

_SAFE = frozenset(
    (
        *COMPARISONS,
        *("and", "or", "not", "in", "is_null", "<=>", "case", "coalesce", "greatest", "least"),
        *("concat", "concat_ws", "lower", "upper", "trim", "ltrim", "rtrim", "reverse", "initcap", "length"),
        *("startswith", "endswith", "contains", "locate", "year", "quarter", "month", "day", "dayofweek", "dayofyear"),
        *("hour", "minute", "second", "datediff", "unix_timestamp"),
        *(function.name for function in FUNCTIONS.values() if function.total),
    )
)


def can_fail(expr: Expr) -> bool:
    """False only if every row has an answer."""
    return any(isinstance(node, Call) and _can_fail(node) for node in walk(expr))


def _can_fail(call: Call) -> bool:
    types = [argument.type for argument in call.arguments]
    if call.function in ("+", "-", "*", "negate", "abs") and call.type in FRACTIONS:
        return False
    if call.function == "cast":
        widens = is_numeric(types[0]) and is_numeric(call.type) and common_type(types[0], call.type) == call.type
        return call.type not in (types[0], STRING) and not widens
    return call.function not in _SAFE
