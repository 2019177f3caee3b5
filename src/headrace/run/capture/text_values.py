"""Values as PostgreSQL writes them (dates ISO, zone UTC, bytea hex) to Arrow columns of our types.

Whole columns are cast at once. What a cast does not read is read value by value: years beyond four digits and infinity,
which become the nearest time that our types have (0001-01-01 to 9999-12-31, as Spark does), and numbers with more
digits after the point than the declared type, which are rounded half away from zero (as PostgreSQL does).

A key is never changed like that: two keys would become one, and one of two rows would be lost.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.errors import EvaluationError
from headrace.model.types import Array, Decimal, Kind, Simple, Type
from headrace.run.capture.array_text import Nested, parse_array
from headrace.run.rows.arrow import arrow_type

Texts = Sequence[bytes | None]

FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)


class NoSuchValue(EvaluationError):
    """A text that the declared type has no value for."""


def column_of(texts: Texts, type_: Type, exact: bool = False) -> pa.Array:
    """Raises NoSuchValue, which names the text and the type. With `exact`, also for values that we would change."""
    match type_:
        case Array(element):
            return _arrays(texts, element, exact)
        case Decimal():
            return _cast_or_each(texts, type_, lambda text: _decimal(text, type_, exact))
        case Simple(Kind.STRING):
            return _strings(texts)
        case Simple(Kind.BINARY):
            return pa.array([text and bytes.fromhex(text[2:].decode()) for text in texts], pa.binary())
        case Simple(Kind.BOOLEAN):
            return pc.equal(_strings(texts), "t")
        case Simple(Kind.FLOAT | Kind.DOUBLE):
            return plain_floats(_cast_or_each(texts, type_, float))
        case Simple(Kind.TIMESTAMP):
            return _timestamps(texts, type_, exact)
        case Simple(Kind.DATE):
            return _cast_or_each(texts, type_, lambda text: _time(text, type_, exact).date())
        case _:
            return _cast_or_each(texts, type_, int)


def column_of_texts(texts: pa.Array, type_: Type) -> pa.Array:
    """Parses texts that are in an Arrow column of bytes: many times as quick where a cast reads them all."""
    try:
        return _cast(texts.cast(pa.string()), type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column_of(texts.to_pylist(), type_)


def _cast(strings: pa.Array, type_: Type) -> pa.Array:
    """Raises an error of Arrow's for texts that have to be read one by one."""
    match type_:
        case Array() | Simple(Kind.BINARY):
            raise pa.ArrowNotImplementedError("no cast reads these")
        case Simple(Kind.BOOLEAN):
            return pc.equal(strings, "t")
        case Simple(Kind.FLOAT | Kind.DOUBLE):
            return plain_floats(strings.cast(arrow_type(type_)))
        case Simple(Kind.TIMESTAMP) if not pc.all(pc.ends_with(strings, "+00"), min_count=0).as_py():
            return strings.cast(pa.timestamp("us")).cast(arrow_type(type_))
        case _:
            return strings.cast(arrow_type(type_))


def _strings(texts: Texts) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise NoSuchValue("a text that is not valid UTF-8") from error


def _cast_or_each(texts: Texts, type_: Type, read: Callable[[bytes], Any]) -> pa.Array:
    try:
        return pa.array(texts, pa.string()).cast(arrow_type(type_))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([None if text is None else _one(text, type_, read) for text in texts], arrow_type(type_))


def _one(text: bytes, type_: Type, read: Callable[[bytes], Any]) -> Any:
    try:
        value = read(text)
        pa.scalar(value, arrow_type(type_))
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        raise NoSuchValue(f"the value {text[:100].decode(errors='replace')} is none of {type_}") from error
    return value


def plain_floats(values: pa.Array) -> pa.Array:
    """Floats with a single NaN, and no -0.0."""
    plain = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), values.type), plain)


def _timestamps(texts: Texts, type_: Type, exact: bool) -> pa.Array:
    """Timestamps with a zone end in +00, since the session's zone is UTC; without one they are meant as UTC."""
    first = next((text for text in texts if text), b"")
    if first.endswith(b"+00"):
        return _cast_or_each(texts, type_, lambda text: _time(text, type_, exact))
    try:
        return pa.array(texts, pa.string()).cast(pa.timestamp("us")).cast(arrow_type(type_))
    except pa.ArrowInvalid:
        return _cast_or_each(texts, type_, lambda text: _time(text, type_, exact))


def _time(text: bytes, type_: Type, exact: bool) -> dt.datetime:
    """A date or timestamp that may be outside of what we can hold: then the nearest that is inside."""
    written = text.decode().removesuffix("+00")
    if exact and (written.endswith(("infinity", " BC")) or written.index("-") > 4):
        raise _refuse_key(text, type_)
    if written in ("infinity", "-infinity"):
        chosen = LAST if written == "infinity" else FIRST
    elif written.endswith(" BC"):
        chosen = FIRST
    elif written.index("-") > 4:
        chosen = LAST
    else:
        chosen = dt.datetime.fromisoformat(written)
    return chosen.replace(tzinfo=dt.UTC)


def _decimal(text: bytes, type_: Decimal, exact: bool) -> decimal.Decimal:
    with decimal.localcontext(prec=200) as context:
        context.rounding = decimal.ROUND_HALF_UP
        written = decimal.Decimal(text.decode())
        rounded = written.quantize(decimal.Decimal(1).scaleb(-type_.scale))
    if exact and rounded != written:
        raise _refuse_key(text, type_)
    return rounded


def _refuse_key(text: bytes, type_: Type) -> NoSuchValue:
    shown = text[:100].decode(errors="replace")
    return NoSuchValue(f"the value {shown} is none of {type_}, and a key is never changed to the nearest that is")


def _arrays(texts: Texts, element: Type, exact: bool) -> pa.Array:
    numbered = next((text for text in texts if exact and text is not None and text.startswith(b"[")), None)
    if numbered is not None:
        raise _refuse_key(numbered, Array(element))
    return _lists([None if text is None else parse_array(text) for text in texts], element, exact)


def _lists(lists: Sequence[Any], element: Type, exact: bool) -> pa.Array:
    offsets: list[int | None] = []
    inside: Nested = []
    for values in lists:
        offsets.append(None if values is None else len(inside))
        inside.extend(values or ())
    deeper = isinstance(element, Array)
    if any(value is not None and isinstance(value, list) != deeper for value in inside):
        raise NoSuchValue(f"an array of another depth than {Array(element)}")
    if isinstance(element, Array):
        elements = _lists(inside, element.element, exact)
    else:
        elements = column_of(inside, element, exact)  # type: ignore[arg-type]
    return pa.ListArray.from_arrays(pa.array([*offsets, len(inside)], pa.int32()), elements)
