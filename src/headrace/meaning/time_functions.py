"""Functions of dates and times beyond the few that most queries use: what they take and what they give."""

from __future__ import annotations

from headrace.meaning.function import Function, Parameter
from headrace.model.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, Decimal

_DATE, _TIME, _TEXT, _INT, _BIGINT = (
    Parameter.DATE,
    Parameter.TIMESTAMP,
    Parameter.TEXT,
    Parameter.INT,
    Parameter.BIGINT,
)

TIME_FUNCTIONS: tuple[Function, ...] = (
    Function("timestampdiff", (_TEXT, _TIME, _TIME), BIGINT, constant=(0,), total=True),
    Function("timestampadd", (_TEXT, _INT, _TIME), TIMESTAMP, constant=(0,)),
    Function("months_between", (_TIME, _TIME, Parameter.BOOLEAN), DOUBLE, optional=1, total=True),
    Function("next_day", (_DATE, _TEXT), DATE),
    Function("trunc", (_DATE, _TEXT), DATE, constant=(1,)),
    Function("make_timestamp", (_INT, _INT, _INT, _INT, _INT, Parameter.NUMBER, _TEXT), TIMESTAMP, optional=1),
    Function("timestamp_seconds", (Parameter.NUMBER,), TIMESTAMP),
    *(Function(name, (_BIGINT,), TIMESTAMP) for name in ("timestamp_millis", "timestamp_micros")),
    *(Function(name, (_TIME,), BIGINT, total=True) for name in ("unix_seconds", "unix_millis", "unix_micros")),
    Function("unix_date", (_DATE,), INT, total=True),
    Function("date_from_unix_date", (_INT,), DATE),
    Function("from_unixtime", (_BIGINT, _TEXT), STRING, optional=1, constant=(1,)),
    *(Function(name, (_DATE,), STRING, total=True) for name in ("dayname", "monthname")),
    Function("yearofweek", (_DATE,), INT, total=True),
    Function("second_part", (_TIME,), Decimal(8, 6), total=True),
    Function("parse_timestamp", (_TEXT, _TEXT), TIMESTAMP, constant=(1,)),
    Function("try_parse_timestamp", (_TEXT, _TEXT), TIMESTAMP, constant=(1,), total=True),
)
