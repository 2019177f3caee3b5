"""Ranks entries by a scalar expression over the columns of an event and its age."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any

from headrace.meaning.python_functions import Functions, surroundings_of
from headrace.meaning.scalar import compile_expr
from headrace.model.errors import EvaluationError
from headrace.model.expr import Expr
from headrace.model.types import Array, Decimal, Kind, Type, Value
from headrace.run.feeds.page import PageEntry, RankEntry

AGE = "age_s"
"""What an expression calls the seconds since an event."""

_EPOCH = dt.datetime(1970, 1, 1)
_WHOLE = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)


def rank_by(
    expression: Expr, columns: Mapping[str, Type], own: tuple[str, str, str | None], functions: Functions = ()
) -> RankEntry:
    """`columns` are those of events, of which `own` are producer, time and id: these are not in an entry's body.

    An entry for which the expression has no answer, such as one that divides by zero, ranks last: a page is better than
    none.
    """
    producer, time, id_ = own
    evaluate = compile_expr(expression, [AGE, *columns], surroundings_of(functions))

    def rank_entry(entry: PageEntry, age_s: float) -> float | None:
        known = {producer: entry.producer, time: entry.time, **({} if id_ is None else {id_: entry.id})}
        held: Mapping[str, Any] = entry.body if isinstance(entry.body, dict) else {}
        try:
            values = (read_json(type_, known.get(name, held.get(name))) for name, type_ in columns.items())
            rank = evaluate((age_s, *values))
        except EvaluationError:
            return None
        return None if rank is None else float(rank)  # type: ignore[arg-type]  # numbers only, `check` says so

    return rank_entry


def read_json(type_: Type, said: Any) -> Value:
    """The value of a type that `json_value` has written."""
    if said is None:
        return None
    match type_:
        case Array(element):
            return tuple(read_json(element, one) for one in said)
        case Decimal():
            return decimal.Decimal(said)
        case _:
            return _read_plain(type_.kind, said)


def _read_plain(kind: Kind, said: Any) -> Value:
    match kind:
        case Kind.FLOAT | Kind.DOUBLE:
            return float(said)
        case Kind.TIMESTAMP if isinstance(said, int):
            return _EPOCH + dt.timedelta(microseconds=said)
        case Kind.TIMESTAMP:
            return dt.datetime.fromisoformat(said.removesuffix("Z"))
        case Kind.DATE:
            return dt.date.fromisoformat(said)
        case Kind.BINARY:
            return base64.b64decode(said)
        case _ if kind in _WHOLE:
            return int(said)
        case _:
            value: Value = said
            return value
