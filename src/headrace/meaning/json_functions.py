"""Functions of JSON in text: what they take and what they give."""

from __future__ import annotations

from headrace.meaning.function import Function, Parameter
from headrace.meaning.postgres_functions import POSTGRES_FUNCTIONS
from headrace.model.types import BOOLEAN, INT, STRING, Array

_TEXT = Parameter.TEXT

JSON_FUNCTIONS: tuple[Function, ...] = (
    Function("get_json_object", (_TEXT, _TEXT), STRING, constant=(1,), total=True),
    Function("json_array_length", (_TEXT,), INT, total=True),
    Function("json_object_keys", (_TEXT,), Array(STRING), total=True),
    Function("from_json", (_TEXT, _TEXT), Array(STRING), constant=(1,), total=True),
)

POSTGRES_JSON_FUNCTIONS: tuple[Function, ...] = (
    Function("json_field", (_TEXT, _TEXT), STRING),
    Function("json_item", (_TEXT, Parameter.INT), STRING),
    Function("json_step", (_TEXT, _TEXT), STRING),
    Function("json_text", (_TEXT,), STRING),
    Function("json_kind", (_TEXT,), STRING, total=True),
    Function("json_items", (_TEXT,), Array(STRING)),
    Function("json_length", (_TEXT,), INT),
    Function("json_names", (_TEXT,), Array(STRING)),
    Function("json_values", (_TEXT,), Array(STRING)),
    Function("json_contains", (_TEXT, _TEXT), BOOLEAN),
    Function("json_has", (_TEXT, _TEXT), BOOLEAN),
    Function("jsonb", (_TEXT,), STRING),
)
"""What the operators and functions of PostgreSQL are made of. Spark has none of these: its workers call ours."""

ONLY_OURS = frozenset(function.name for function in (*POSTGRES_JSON_FUNCTIONS, *POSTGRES_FUNCTIONS))
