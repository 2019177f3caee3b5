"""Sort keys as bytes that compare as the keys do, so that rows can be sorted and searched without knowing their types.

    NULL           one byte, below or above that of all values
    numbers        as many bytes as the type has at most, the first one first, with the sign turned round
    text, bytes    as they are, with an end that is below every other byte; a zero inside is written as 00 FF

Descending values are written with all bits turned round. A list ends the bytes, and keys after it are left out: rows
that only these tell apart have equal bytes.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from typing import Any

from headrace.meaning.scalar_number import EXACT
from headrace.meaning.scalar_time import micros
from headrace.model.relation import Order
from headrace.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    FRACTIONS,
    INTEGERS,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Row,
    Type,
)

_TURNED = bytes(255 - byte for byte in range(256))
_VALUE = b"\x01"


def sortable_bytes(orders: tuple[Order, ...], get: tuple[Callable[[Row], Any], ...]) -> Callable[[Row], bytes]:
    """Makes the bytes of a row's sort keys, which `get` reads."""
    parts = []
    for order, read in zip(orders, get, strict=True):
        if isinstance(order.expr.type, Array):
            break
        parts.append((read, _encoder(order.expr.type), order.descending, b"\x00" if order.nulls_first else b"\x02"))

    def encode(row: Row) -> bytes:
        made = []
        for read, write, descending, null in parts:
            value = read(row)
            if value is None:
                made.append(null)
            else:
                text = write(value)
                made.append(_VALUE + (text.translate(_TURNED) if descending else text))
        return b"".join(made)

    return encode


def _encoder(type_: Type) -> Callable[[Any], bytes]:
    if type_ in INTEGERS or type_ == BOOLEAN:
        return lambda value: struct.pack(">Q", int(value) + 2**63)
    if type_ in FRACTIONS:
        return _encode_double
    if isinstance(type_, Decimal):
        scale = type_.scale
        return lambda value: (int(value.scaleb(scale, context=EXACT)) + 2**127).to_bytes(16, "big")
    if type_ == DATE:
        return lambda value: struct.pack(">Q", dt.date.toordinal(value))
    if type_ == TIMESTAMP:
        return lambda value: struct.pack(">Q", micros(value) + 2**63)
    if type_ == STRING:
        return lambda value: _end_text(value.encode())
    assert type_ == BINARY, f"no order of {type_}"
    return _end_text


def _encode_double(value: float) -> bytes:
    """NaN is above all numbers, and -0.0 is 0.0."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", math.nan if value != value else value + 0.0))
    if value != value:
        return b"\xff" * 8
    return struct.pack(">Q", bits ^ (2**64 - 1 if bits >> 63 else 2**63))


def _end_text(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
