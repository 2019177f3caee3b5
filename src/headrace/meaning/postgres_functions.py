"""Functions that only PostgreSQL has: what they take and what they give."""

from __future__ import annotations

from headrace.meaning.function import Function, Parameter
from headrace.model.types import INT, STRING, TIMESTAMP, Decimal

_TEXT, _TIME = Parameter.TEXT, Parameter.TIMESTAMP

POSTGRES_FUNCTIONS: tuple[Function, ...] = (
    Function("age_part", (_TEXT, _TIME, _TIME), Decimal(20, 6), constant=(0,)),
    Function("array_text", (Parameter.ARRAY,), STRING, total=True),
    Function("enum_place", (_TEXT, Parameter.ARRAY), INT),
    Function("interval_added", (_TIME, _TEXT), TIMESTAMP),
    Function("interval_age", (_TIME, _TIME), STRING, total=True),
    Function("interval_between", (_TIME, _TIME), STRING, total=True),
    Function("interval_difference", (_TEXT, _TEXT), STRING),
    Function("interval_divided", (_TEXT, Parameter.DOUBLE), STRING),
    Function("interval_justified", (_TEXT, _TEXT), STRING, constant=(0,)),
    Function("interval_mean", (Parameter.NUMBER, Parameter.BIGINT), STRING),
    Function("interval_order", (_TEXT,), Decimal(38, 0)),
    Function("interval_packed", (_TEXT,), Decimal(38, 0)),
    Function("interval_part", (_TEXT, _TEXT), Decimal(20, 6), constant=(0,)),
    Function("interval_sum", (_TEXT, _TEXT), STRING),
    Function("interval_taken", (_TIME, _TEXT), TIMESTAMP),
    Function("interval_text", (_TEXT,), STRING),
    Function("interval_times", (_TEXT, Parameter.DOUBLE), STRING),
    Function("interval_total", (Parameter.NUMBER,), STRING),
    Function("time_text", (_TEXT,), STRING),
    Function("capitalise_words", (_TEXT,), STRING, total=True),
    Function("cut_in_zone", (_TEXT, _TIME, _TEXT), TIMESTAMP, constant=(0,)),
    Function("float_text", (Parameter.NUMBER,), STRING, total=True),
    Function("instant_in_zone", (_TIME, _TEXT), TIMESTAMP, version=2),
    Function("json_quoted", (_TEXT,), STRING, total=True),
    Function("jsonb_joined", (_TEXT, _TEXT), STRING),
    Function("jsonb_changed", (_TEXT, _TEXT, _TEXT, Parameter.BOOLEAN), STRING),
    Function("jsonb_inserted", (_TEXT, _TEXT, _TEXT, Parameter.BOOLEAN), STRING),
    Function("jsonb_key", (_TEXT,), STRING),
    Function("jsonb_pretty_text", (_TEXT,), STRING),
    Function("jsonb_without_nulls", (_TEXT,), STRING),
    Function("jsonb_without_path", (_TEXT, _TEXT), STRING),
    Function("jsonb_without", (_TEXT, _TEXT), STRING),
    Function("jsonb_without_item", (_TEXT, Parameter.INT), STRING),
    Function("number_to_char", (Parameter.NUMBER, _TEXT), STRING, constant=(1,)),
    Function("numeric_product", (Parameter.NUMBER, Parameter.NUMBER), Decimal(38, 18)),
    Function("numeric_quotient", (Parameter.NUMBER, Parameter.NUMBER), Decimal(38, 18)),
    Function("time_in_zone", (_TIME, _TEXT), TIMESTAMP),
    Function("time_to_char", (_TIME, _TEXT), STRING, constant=(1,)),
    Function("uuid_text", (_TEXT,), STRING),
)
"""What its operators and functions are made of. Spark has none of these: its workers call ours."""
