"""Functions of arrays: what they take and what they give. Arrays and elements are of one type when they meet."""

from __future__ import annotations

from headrace.meaning.function import Function, Parameter, ResultRule
from headrace.model.expr import Expr
from headrace.model.types import BIGINT, BOOLEAN, INT, NULL, STRING, Array, Type

_ARRAY, _ANY, _TEXT, _NUMBER = Parameter.ARRAY, Parameter.ANY, Parameter.TEXT, Parameter.INT


def _first(arguments: tuple[Expr, ...]) -> Type:
    return arguments[0].type


def _element(arguments: tuple[Expr, ...]) -> Type:
    type_ = arguments[0].type
    return type_.element if isinstance(type_, Array) else NULL  # of NULL, which stands for mistakes


def _second(arguments: tuple[Expr, ...]) -> Type:
    return arguments[1].type


def _array_of(position: int) -> ResultRule:
    """An array of what stands at a position; of nothing, if that is left out."""
    return lambda arguments: Array(arguments[position].type if position < len(arguments) else NULL)


_SAME_ARRAYS = ("array_union", "array_intersect", "array_except")
_ITSELF = ("array_distinct", "array_sort", "array_compact")

ARRAY_FUNCTIONS: tuple[Function, ...] = (
    Function("array", (Parameter.SAME,), _array_of(0), optional=1, repeated=True, total=True, sees_null=True),
    Function("size", (_ARRAY,), INT, total=True),
    Function("element", (_ARRAY, _NUMBER), _element),
    Function("element_at", (_ARRAY, _NUMBER), _element),
    Function("try_element_at", (_ARRAY, _NUMBER), _element),
    Function("get", (_ARRAY, _NUMBER), _element, total=True),
    Function("array_contains", (_ARRAY, _ANY), BOOLEAN, total=True),
    Function("array_position", (_ARRAY, _ANY), BIGINT, total=True),
    Function("array_remove", (_ARRAY, _ANY), _first, total=True),
    *(Function(name, (_ARRAY, _ANY), _first, total=True, sees_null=True) for name in ("array_append", "array_prepend")),
    Function("array_insert", (_ARRAY, _NUMBER, _ANY), _first, sees_null=True),
    *(Function(name, (_ARRAY,), _first, total=True) for name in _ITSELF),
    Function("sort_array", (_ARRAY, Parameter.BOOLEAN), _first, optional=1, total=True, constant=(1,)),
    *(Function(name, (_ARRAY, _ARRAY), _first, total=True) for name in _SAME_ARRAYS),
    Function("arrays_overlap", (_ARRAY, _ARRAY), BOOLEAN, total=True),
    *(Function(name, (_ARRAY,), _element, total=True) for name in ("array_min", "array_max")),
    Function("array_join", (_ARRAY, _TEXT, _TEXT), STRING, optional=1, total=True),
    Function("array_concat", (_ARRAY,), _first, repeated=True, total=True),
    Function("array_reverse", (_ARRAY,), _first, total=True),
    Function("array_repeat", (_ANY, _NUMBER), _array_of(0), sees_null=True),
    Function("slice", (_ARRAY, _NUMBER, _NUMBER), _first),
    Function("flatten", (_ARRAY,), _element, total=True),
    Function("sequence", (_ANY, _ANY, _ANY), _array_of(0), optional=1),
    Function("split", (_TEXT, _TEXT, _NUMBER), Array(STRING), optional=1, constant=(1,)),
    Function("regexp_extract_all", (_TEXT, _TEXT, _NUMBER), Array(STRING), optional=1, constant=(1, 2)),
    Function("transform", (_ARRAY, _ANY, _ANY), _array_of(2), total=True, sees_null=True),
    Function("filter", (_ARRAY, _ANY, _ANY), _first, total=True, sees_null=True),
    *(Function(name, (_ARRAY, _ANY, _ANY), BOOLEAN, total=True, sees_null=True) for name in ("exists", "forall")),
    Function("aggregate", (_ARRAY, _ANY, _ANY, _ANY, _ANY), _second, total=True, sees_null=True),
    Function("lambda_variable", (_NUMBER,), NULL, total=True, sees_null=True),
)

LAMBDAS = ("transform", "filter", "exists", "forall")
"""Functions whose last argument is computed for each element. The second one names the element in it."""

UNNAMED = ("element", "array_concat", "array_reverse", "lambda_variable")
"""Functions that people write as operators or under names that they share with others."""
