"""Spark's hashes of rows: `hash` is Murmur3 of 32 bits, `xxhash64` is xxHash of 64 bits, with 42 as their seed.

The hash of each value is the seed for the next; NULL leaves it as it is. Values count as what Spark keeps in memory:
dates as days and timestamps as microseconds since 1970, short decimals as whole numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.model.types import (
    BIGINT,
    BINARY,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    NULL,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Type,
    Value,
)

_SEED = 42
_LONG_DIGITS = 18
"""Decimals of more digits are kept as bytes."""
_32, _64 = 2**32 - 1, 2**64 - 1
_DAY_0, _TIME_0, _MICROSECOND = dt.date(1970, 1, 1), dt.datetime(1970, 1, 1), dt.timedelta(microseconds=1)
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


@dataclass(frozen=True, slots=True)
class _Algorithm:
    """The hash of 4 bytes, of 8 bytes, and of any number of bytes, each from a seed. All numbers are unsigned."""

    bits: int
    of_int: Callable[[int, int], int]
    of_long: Callable[[int, int], int]
    of_bytes: Callable[[bytes, int], int]


def hash_values(function: str, types: tuple[Type, ...]) -> Callable[..., int]:
    """A function of values of these types, which may be NULL."""
    algorithm = _ALGORITHMS[function]
    each = tuple(_hash_of(algorithm, type_) for type_ in types)
    half = 1 << (algorithm.bits - 1)

    def hashed(*values: Value) -> int:
        made = _SEED
        for step, value in zip(each, values, strict=True):
            made = made if value is None else step(value, made)
        return made - 2 * half if made >= half else made

    return hashed


def _hash_of(algorithm: _Algorithm, type_: Type) -> Callable[[Any, int], int]:
    of_int, of_long, of_bytes = algorithm.of_int, algorithm.of_long, algorithm.of_bytes
    if isinstance(type_, Array):
        return _hash_elements(_hash_of(algorithm, type_.element))
    if isinstance(type_, Decimal):
        scale = type_.scale
        if type_.precision <= _LONG_DIGITS:
            return lambda value, seed: of_long(_unscaled(value, scale) & _64, seed)
        return lambda value, seed: of_bytes(_shortest_bytes(_unscaled(value, scale)), seed)
    made: dict[Type, Callable[[Any, int], int]] = {
        BIGINT: lambda value, seed: of_long(value & _64, seed),
        FLOAT: lambda value, seed: of_int(_float_bits(value), seed),
        DOUBLE: lambda value, seed: of_long(_double_bits(value), seed),
        STRING: lambda value, seed: of_bytes(value.encode(), seed),
        BINARY: of_bytes,
        DATE: lambda value, seed: of_int((value - _DAY_0).days & _32, seed),
        TIMESTAMP: lambda value, seed: of_long((value - _TIME_0) // _MICROSECOND & _64, seed),
        DAY_TIME: lambda value, seed: of_long(value // _MICROSECOND & _64, seed),
        NULL: lambda value, seed: seed,
    }
    return made.get(type_, lambda value, seed: of_int(int(value) & _32, seed))


def _hash_elements(step: Callable[[Any, int], int]) -> Callable[[Any, int], int]:
    def hashed(values: Any, seed: int) -> int:
        for value in values:
            seed = seed if value is None else step(value, seed)
        return seed

    return hashed


def _unscaled(value: Any, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)) + "0" * (int(exponent) + scale))
    return -number if sign else number


def _shortest_bytes(number: int) -> bytes:
    """Two's complement, the highest byte first."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _float_bits(value: float) -> int:
    """All NaN are one, and so are both zeros."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value + 0.0))
    return 0x7FC00000 if math.isnan(value) else int(bits)


def _double_bits(value: float) -> int:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value + 0.0))
    return 0x7FF8 << 48 if math.isnan(value) else int(bits)


def _turn_32(number: int, distance: int) -> int:
    return (number << distance | number >> (32 - distance)) & _32


def _turn_64(number: int, distance: int) -> int:
    return (number << distance | number >> (64 - distance)) & _64


def _mix_murmur(made: int, word: int) -> int:
    word = _turn_32(word * 0xCC9E2D51 & _32, 15) * 0x1B873593 & _32
    return (_turn_32(made ^ word, 13) * 5 + 0xE6546B64) & _32


def _end_murmur(made: int, length: int) -> int:
    made ^= length
    made = (made ^ made >> 16) * 0x85EBCA6B & _32
    made = (made ^ made >> 13) * 0xC2B2AE35 & _32
    return made ^ made >> 16


def _murmur_int(number: int, seed: int) -> int:
    return _end_murmur(_mix_murmur(seed, number), 4)


def _murmur_long(number: int, seed: int) -> int:
    return _end_murmur(_mix_murmur(_mix_murmur(seed, number & _32), number >> 32), 8)


def _murmur_bytes(data: bytes, seed: int) -> int:
    """Unlike others, Spark mixes each byte after the last whole word as a word of its own, with its sign."""
    whole = len(data) // 4
    for word in struct.unpack_from(f"<{whole}I", data):
        seed = _mix_murmur(seed, word)
    for byte in data[4 * whole :]:
        seed = _mix_murmur(seed, byte | 0xFFFFFF00 if byte > 0x7F else byte)
    return _end_murmur(seed, len(data))


def _end_xx(made: int) -> int:
    made = (made ^ made >> 33) * _P2 & _64
    made = (made ^ made >> 29) * _P3 & _64
    return made ^ made >> 32


def _round_xx(made: int, word: int) -> int:
    return _turn_64((made + word * _P2) & _64, 31) * _P1 & _64


def _mix_xx_int(made: int, number: int) -> int:
    return (_turn_64(made ^ (number * _P1 & _64), 23) * _P2 + _P3) & _64


def _mix_xx_long(made: int, number: int) -> int:
    return (_turn_64(made ^ _round_xx(0, number), 27) * _P1 + _P4) & _64


def _xx_int(number: int, seed: int) -> int:
    return _end_xx(_mix_xx_int((seed + _P5 + 4) & _64, number))


def _xx_long(number: int, seed: int) -> int:
    return _end_xx(_mix_xx_long((seed + _P5 + 8) & _64, number))


def _xx_bytes(data: bytes, seed: int) -> int:
    blocks = len(data) // 32
    made = (seed + _P5) & _64
    if blocks:
        lanes = [(seed + start) & _64 for start in (_P1 + _P2, _P2, 0, -_P1)]
        for place, word in enumerate(struct.unpack_from(f"<{4 * blocks}Q", data)):
            lanes[place % 4] = _round_xx(lanes[place % 4], word)
        made = sum(map(_turn_64, lanes, (1, 7, 12, 18))) & _64
        for lane in lanes:
            made = ((made ^ _round_xx(0, lane)) * _P1 + _P4) & _64
    made = (made + len(data)) & _64
    rest = data[32 * blocks :]
    longs = len(rest) // 8
    for word in struct.unpack_from(f"<{longs}Q", rest):
        made = _mix_xx_long(made, word)
    rest = rest[8 * longs :]
    if len(rest) >= 4:
        made = _mix_xx_int(made, int.from_bytes(rest[:4], "little"))
        rest = rest[4:]
    for byte in rest:
        made = _turn_64(made ^ (byte * _P5 & _64), 11) * _P1 & _64
    return _end_xx(made)


_ALGORITHMS = {
    "hash": _Algorithm(32, _murmur_int, _murmur_long, _murmur_bytes),
    "xxhash64": _Algorithm(64, _xx_int, _xx_long, _xx_bytes),
}
