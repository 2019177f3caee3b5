"""Amounts as people write them: `100 Mbps`, `40 ms`, `0.34 $/core-hour`, `7M rows`, `20 GiB`.

A reader takes what YAML gave (a number or a text) and answers in seconds, bytes or dollars. A plain number is taken in
the base unit where everybody would mean that (`freshness: 30`), and refused where not: `bandwidth: 100` could be Mbps
or MB/s. `Mbps` are megabits, `MB/s` megabytes; `GB` is 1e9 bytes, `GiB` 2**30; a month is 30 days.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

Written = str | int | float
"""An amount as it stands in a project file or a Python call."""

HOUR = 3600.0
MONTH = 30 * 24 * HOUR


class Unreadable(ValueError):
    """A value that cannot be read: `message` says what is wrong with it, `hint` gives an example."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Dimension:
    """A kind of amount: what people call it, an example, and its units with their sizes.

    `plain` is the unit of a plain number, None where a unit must be written; `zero` says whether 0 makes sense.
    """

    noun: str
    example: str
    units: Mapping[str, float]
    plain: str | None
    zero: bool = True


_DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_PREFIXES = {"": 1.0, **_DECIMAL, **_BINARY}
_SECONDS = {
    **dict.fromkeys(("ns",), 1e-9),
    **dict.fromkeys(("us", "µs", "μs"), 1e-6),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), HOUR),
    **dict.fromkeys(("d", "day", "days"), 24 * HOUR),
    **dict.fromkeys(("week", "weeks"), 7 * 24 * HOUR),
}
_BYTES = {f"{prefix}B": size for prefix, size in _PREFIXES.items()} | {"bytes": 1.0, "byte": 1.0}
_BITS_PER_SECOND = {
    f"{prefix}{unit}": size / 8 for prefix, size in (("", 1.0), *_DECIMAL.items()) for unit in ("bps", "bit/s", "b/s")
}
_BYTES_PER_SECOND = {
    f"{unit}{per}": size for unit, size in _BYTES.items() for per in ("/s", "ps") if unit.endswith("B")
}
_COUNTS = {
    "": 1.0,
    **dict.fromkeys(("k", "K", "thousand"), 1e3),
    **dict.fromkeys(("M", "million"), 1e6),
    **dict.fromkeys(("B", "billion"), 1e9),
}
_ROWS = {f"{count} {noun}".strip(): size for count, size in _COUNTS.items() for noun in ("", "rows", "row")}
_PERIODS = {unit: _SECONDS[unit] for unit in ("ms", "s", "sec", "second", "min", "minute", "h", "hour", "d", "day")}
_ROWS_PER_SECOND = {
    f"{rows}/{period}".strip(): size / seconds for rows, size in _ROWS.items() for period, seconds in _PERIODS.items()
}
_PER_BYTES = {unit: 1e9 / size for unit, size in _BYTES.items()}
_PER_CORE_HOUR = {
    **dict.fromkeys(("core-hour", "core-h", "core hour", "core/hour", "core/h", "h", "hour"), 1.0),
    **dict.fromkeys(("core-second", "core-s", "core/s"), HOUR),
    **dict.fromkeys(("core-month", "core/month"), HOUR / MONTH),
}
_PER_ROWS = {"row": 1.0, "1000 rows": 1e-3, "million rows": 1e-6, "M rows": 1e-6}


def _dollars(per: Mapping[str, float]) -> dict[str, float]:
    return {f"{dollar}/{unit}": size for dollar in ("$", "USD") for unit, size in per.items()}


SECONDS = Dimension("a time", "30 s", _SECONDS, plain="s")
DURATION = Dimension("a time", "30 s", _SECONDS, plain="s", zero=False)
LATENCY = Dimension("a time", "40 ms", _SECONDS, plain=None)
CAPACITY = Dimension("a size", "500 GB", _BYTES, plain=None, zero=False)
BUFFER = Dimension("a size", "20 MB", _BYTES, plain=None, zero=False)
MEMORY = Dimension("a size", "4 GB", _BYTES, plain=None, zero=False)
WIDTH = Dimension("a number of bytes", "8", _BYTES, plain="B")
BANDWIDTH = Dimension("a bandwidth", "100 Mbps", _BITS_PER_SECOND | _BYTES_PER_SECOND, plain=None, zero=False)
ROWS = Dimension("a number of rows", "7M rows", _ROWS, plain="")
DISTINCT = Dimension("a number of values", "700000", _COUNTS, plain="", zero=False)
RATE = Dimension("a rate of changed rows", "100 /s", _ROWS_PER_SECOND, plain="/s")
READS = Dimension("a rate of reads", "300 /s", _ROWS_PER_SECOND, plain="/s")
CPU_PRICE = Dimension("a price per core and hour", "0.34 $/core-hour", _dollars(_PER_CORE_HOUR), plain="$/core-hour")
DISK_PRICE = Dimension(
    "a price per GB and month",
    "0.11 $/GB-month",
    _dollars({f"{unit}{month}": size for unit, size in _PER_BYTES.items() for month in ("-month", "/month", " month")}),
    plain="$/GB-month",
)
TRAFFIC_PRICE = Dimension("a price per GB", "0.01 $/GB", _dollars(_PER_BYTES), plain="$/GB")
PENALTY = Dimension("a price per late row", "0.001 $/row", _dollars(_PER_ROWS), plain="$/row")
CORES = Dimension("a number of cores", "2", {"": 1.0, "core": 1.0, "cores": 1.0}, plain="", zero=False)
FACTOR = Dimension("a number", "1.5", {"": 1.0, "x": 1.0}, plain="", zero=False)
WEIGHT = Dimension("a number", "0.5", {"": 1.0}, plain="")
SHARE = Dimension("a share between 0 and 1", "0.4", {"": 1.0, "%": 0.01}, plain="")

_ALL = (SECONDS, CAPACITY, BANDWIDTH, ROWS, RATE, CPU_PRICE, DISK_PRICE, TRAFFIC_PRICE, PENALTY, SHARE)

_NUMBER = r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d+)?"
_NUMBER_THEN_UNIT = re.compile(rf"({_NUMBER})\s*(.*)", re.DOTALL)
_DOLLARS_FIRST = re.compile(rf"\$\s*({_NUMBER})\s*(/.*)", re.DOTALL)


def read_amount(written: object, dimension: Dimension) -> float:
    """The amount in the dimension's base unit. Raises Unreadable."""
    number, unit = _split(written, dimension)
    if not isfinite(number):
        raise _wrong(f'"{written}" is not {dimension.noun}', dimension)
    if number < 0:
        raise _wrong(f'"{written}" is negative', dimension)
    amount = number * (1.0 if number == 0 and unit == "" else _size(unit, written, dimension))
    if amount == 0 and not dimension.zero:
        raise Unreadable(f'"{written}" is zero', f'write {dimension.noun} above 0 such as "{dimension.example}"')
    if not isfinite(amount):
        raise _wrong(f'"{written}" is too large', dimension)
    return amount


def read_share(written: object) -> float:
    """A share between 0 and 1, also written as `40 %`."""
    share = read_amount(written, SHARE)
    if share > 1:
        raise _wrong(f'"{written}" is more than the whole', SHARE)
    return share


def read_count(written: object) -> int:
    """A whole number of things, at least 1."""
    if isinstance(written, bool) or not isinstance(written, int):
        raise Unreadable(f"{kind_of(written)} is not a whole number", "write a whole number, 1 or more")
    if written < 1:
        raise Unreadable(f'"{written}" is less than 1', "write a whole number, 1 or more")
    return written


def _split(written: object, dimension: Dimension) -> tuple[float, str]:
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        raise _wrong(f"{kind_of(written)} is not {dimension.noun}", dimension)
    if not isinstance(written, str):
        return _float(written, dimension), ""
    text = written.strip()
    match = _DOLLARS_FIRST.fullmatch(text)
    if match:
        return _float(match[1], dimension), f"${match[2]}"
    match = _NUMBER_THEN_UNIT.fullmatch(text)
    if not match:
        raise _wrong(f'"{_short(text)}" is not {dimension.noun}', dimension)
    return _float(match[1], dimension), " ".join(match[2].split())


def _float(number: str | int | float, dimension: Dimension) -> float:
    try:
        return float(number)
    except (OverflowError, ValueError):
        raise _wrong(f'"{_short(str(number))}" is not a number', dimension) from None


def _size(unit: str, written: object, dimension: Dimension) -> float:
    """How many base units one `unit` is; spaces around `/` and `-` do not matter."""
    tight = re.sub(r"\s*([/-])\s*", r"\1", unit)
    if unit == "" and dimension.plain is None:
        raise _wrong(f'"{written}" has no unit', dimension)
    name = dimension.plain if unit == "" and dimension.plain is not None else tight
    size = dimension.units.get(name)
    if size is None:
        raise _wrong_unit(tight, written, dimension)
    return size


def _wrong_unit(unit: str, written: object, dimension: Dimension) -> Unreadable:
    other_case = next((name for name in dimension.units if name.casefold() == unit.casefold()), None)
    if other_case:
        return Unreadable(f'"{unit}" is not a unit', f'did you mean "{other_case}"? upper and lower case differ')
    other = next((other.noun for other in _ALL if unit in other.units), None)
    if other:
        return _wrong(f'"{written}" is {other}, not {dimension.noun}', dimension)
    return _wrong(f'"{_short(str(written))}" is not {dimension.noun}', dimension)


def _wrong(what: str, dimension: Dimension) -> Unreadable:
    return Unreadable(what, f'write {dimension.noun} such as "{dimension.example}"')


def kind_of(value: object) -> str:
    """What YAML made of a value, in its own words."""
    names = {bool: "true or false", dict: "a mapping", list: "a list", type(None): "nothing", str: "text"}
    return names.get(type(value), f'"{_short(str(value))}"')


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
