"""`to_char` of PostgreSQL: times and numbers as text by a pattern.

A pattern is read into pieces first, so that a reader of queries can refuse one that is not handled. Numbers follow the
steps by which PostgreSQL walks over a pattern: which of them writes the sign decides where blanks go.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headrace.meaning.scalar_number import round_half_up

# Times


@dataclass(frozen=True, slots=True)
class TimePiece:
    """A part of a pattern by its name, or a text between parts. `ending` is that of an ordinal: th or TH."""

    text: str
    is_part: bool = False
    fills: bool = True
    ending: str = ""


_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_ROMAN = "I II III IV V VI VII VIII IX X XI XII".split()


def _number(width: int, find: Callable[[dt.datetime], int]) -> Callable[[dt.datetime, bool], str]:
    return lambda time, fills: f"{find(time):0{width}d}" if fills else str(find(time))


def _word(width: int, find: Callable[[dt.datetime], str]) -> Callable[[dt.datetime, bool], str]:
    return lambda time, fills: find(time).ljust(width) if fills else find(time)


def _month(time: dt.datetime) -> str:
    return _MONTHS[time.month - 1]


def _day(time: dt.datetime) -> str:
    return _DAYS[time.weekday()]


def _iso_day(time: dt.datetime) -> int:
    first = dt.date.fromisocalendar(time.isocalendar().year, 1, 1)
    return time.date().toordinal() - first.toordinal() + 1


def _half(time: dt.datetime) -> str:
    return "AM" if time.hour < 12 else "PM"


_NUMBERS: Mapping[str, Callable[[dt.datetime, bool], str]] = {
    "CC": _number(2, lambda time: (time.year - 1) // 100 + 1),
    "DDD": _number(3, lambda time: time.timetuple().tm_yday),
    "DD": _number(2, lambda time: time.day),
    "D": _number(1, lambda time: time.isoweekday() % 7 + 1),
    "HH24": _number(2, lambda time: time.hour),
    "HH12": _number(2, lambda time: time.hour % 12 or 12),
    "HH": _number(2, lambda time: time.hour % 12 or 12),
    "IDDD": _number(3, _iso_day),
    "ID": _number(1, lambda time: time.isoweekday()),
    "IW": _number(2, lambda time: time.isocalendar().week),
    "IYYY": _number(4, lambda time: time.isocalendar().year),
    "IYY": _number(3, lambda time: time.isocalendar().year % 1000),
    "IY": _number(2, lambda time: time.isocalendar().year % 100),
    "I": _number(1, lambda time: time.isocalendar().year % 10),
    "J": _number(1, lambda time: time.toordinal() + 1_721_425),
    "MI": _number(2, lambda time: time.minute),
    "MM": _number(2, lambda time: time.month),
    "MS": lambda time, fills: f"{time.microsecond // 1000:03d}",
    "Q": _number(1, lambda time: (time.month - 1) // 3 + 1),
    "SSSSS": _number(1, lambda time: time.hour * 3600 + time.minute * 60 + time.second),
    "SSSS": _number(1, lambda time: time.hour * 3600 + time.minute * 60 + time.second),
    "SS": _number(2, lambda time: time.second),
    "US": lambda time, fills: f"{time.microsecond:06d}",
    "WW": _number(2, lambda time: (time.timetuple().tm_yday - 1) // 7 + 1),
    "W": _number(1, lambda time: (time.day - 1) // 7 + 1),
    "Y,YYY": lambda time, fills: f"{time.year // 1000},{time.year % 1000:03d}",
    "YYYY": _number(4, lambda time: time.year),
    "YYY": _number(3, lambda time: time.year % 1000),
    "YY": _number(2, lambda time: time.year % 100),
    "Y": _number(1, lambda time: time.year % 10),
}
_WORDS: Mapping[str, Callable[[dt.datetime, bool], str]] = {
    "A.D.": lambda time, fills: "A.D.",
    "B.C.": lambda time, fills: "A.D.",
    "a.d.": lambda time, fills: "a.d.",
    "b.c.": lambda time, fills: "a.d.",
    "AD": lambda time, fills: "AD",
    "BC": lambda time, fills: "AD",
    "ad": lambda time, fills: "ad",
    "bc": lambda time, fills: "ad",
    **dict.fromkeys(("A.M.", "P.M."), lambda time, fills: f"{_half(time)[0]}.M."),
    **dict.fromkeys(("a.m.", "p.m."), lambda time, fills: f"{_half(time)[0].lower()}.m."),
    **dict.fromkeys(("AM", "PM"), lambda time, fills: _half(time)),
    **dict.fromkeys(("am", "pm"), lambda time, fills: _half(time).lower()),
    "DAY": _word(9, lambda time: _day(time).upper()),
    "Day": _word(9, _day),
    "day": _word(9, lambda time: _day(time).lower()),
    "DY": _word(0, lambda time: _day(time)[:3].upper()),
    "Dy": _word(0, lambda time: _day(time)[:3]),
    "dy": _word(0, lambda time: _day(time)[:3].lower()),
    "MONTH": _word(9, lambda time: _month(time).upper()),
    "Month": _word(9, _month),
    "month": _word(9, lambda time: _month(time).lower()),
    "MON": _word(0, lambda time: _month(time)[:3].upper()),
    "Mon": _word(0, lambda time: _month(time)[:3]),
    "mon": _word(0, lambda time: _month(time)[:3].lower()),
    "RM": _word(4, lambda time: _ROMAN[time.month - 1]),
    "rm": _word(4, lambda time: _ROMAN[time.month - 1].lower()),
}
_PARTS = {**_NUMBERS, **{name.lower(): write for name, write in _NUMBERS.items()}, **_WORDS}
_REFUSED_PARTS = ("FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "OF", "TZH", "TZM", "TZ")
_REFUSED = frozenset((*_REFUSED_PARTS, *(name.lower() for name in _REFUSED_PARTS)))
_PIECE = re.compile(
    r'"(?P<quoted>[^"]*)"|(?P<fill>FM|fm)?(?P<part>'
    + "|".join(map(re.escape, sorted({*_PARTS, *_REFUSED}, key=len, reverse=True)))
    + r")(?P<ending>th|TH)?|(?P<prefix>FM|fm|FX|fx|TM|tm)|(?P<other>.)",
    re.DOTALL,
)


@functools.lru_cache(maxsize=256)
def read_time_pattern(pattern: str) -> tuple[TimePiece, ...] | str:
    """The pieces of a pattern, or the part of it that is not handled."""
    pieces: list[TimePiece] = []
    for found in _PIECE.finditer(pattern):
        if found["quoted"] is not None:
            pieces.append(TimePiece(found["quoted"]))
        elif found["part"] in _REFUSED or found["prefix"] or found["other"] in ("\\", '"'):
            return found[0]
        elif found["part"] is not None:
            is_word = found["part"] in _WORDS
            ending = "" if is_word else found["ending"] or ""
            rest = (found["ending"] or "") if is_word else ""
            pieces.append(TimePiece(found["part"], is_part=True, fills=found["fill"] is None, ending=ending))
            pieces.extend([TimePiece(rest)] if rest else [])
        else:
            pieces.append(TimePiece(found["other"]))
    return tuple(pieces)


def time_to_char(time: dt.datetime, pattern: str) -> str:
    pieces = read_time_pattern(pattern)
    assert not isinstance(pieces, str), f"patterns were read before: {pieces}"
    return "".join(_write_piece(piece, time) for piece in pieces)


def _write_piece(piece: TimePiece, time: dt.datetime) -> str:
    if not piece.is_part:
        return piece.text
    written = _PARTS[piece.text](time, piece.fills)
    return written + (_ordinal(written, piece.ending) if piece.ending else "")


def _ordinal(digits: str, ending: str) -> str:
    found = "th" if digits[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
    return found.upper() if ending == "TH" else found


# Numbers


@dataclass(frozen=True, slots=True)
class NumberPattern:
    """What a pattern says as a whole, and its signs one by one.

    `before` and `after` count the digits on both sides of the point. `zero_from` and `zero_to` are the places, counted
    over all digits, between which zeros are written. `sign_at` is the number of digits before S; -1 says after the
    point.
    """

    tokens: tuple[str, ...] = ()
    before: int = 0
    after: int = 0
    zero_from: int | None = None
    zero_to: int = 0
    has_point: bool = False
    fills: bool = True
    sign_at: int | None = None
    has_minus: bool = False
    has_brackets: bool = False

    @property
    def signs_after(self) -> bool:
        return self.sign_at is not None and self.sign_at in (-1, self.before)


_NUMBER_TOKEN = re.compile(r'"[^"]*"|FM|MI|PR|TH|PL|SG|RN|EEEE|.', re.IGNORECASE | re.DOTALL)
_REFUSED_TOKENS = ("PL", "SG", "RN", "EEEE", "V", "L", "B", "\\", '"')
_PLACES = ("9", "0", ".", "D")


@functools.lru_cache(maxsize=256)
def read_number_pattern(pattern: str) -> NumberPattern | str:
    """The pattern, or the part of it that is not handled."""
    made = NumberPattern()
    for token in _NUMBER_TOKEN.findall(pattern):
        read = None if made.has_brackets else _read_token(made, token, token.upper())
        if read is None:
            return str(token)
        made = read
    return made if made.before and (made.after or not made.has_point) else pattern


def _read_token(made: NumberPattern, token: str, name: str) -> NumberPattern | None:
    if name in _REFUSED_TOKENS:
        return None
    match name:
        case "9" | "0":
            if name == "0" and made.zero_from is None and not made.has_point:
                made = replace(made, zero_from=made.before)
            made = replace(made, after=made.after + 1) if made.has_point else replace(made, before=made.before + 1)
            made = replace(made, zero_to=made.before + made.after) if name == "0" else made
        case "." | "D":
            if made.has_point:
                return None
            made = replace(made, has_point=True)
        case "FM":
            return replace(made, fills=False)
        case "S":
            is_free = made.sign_at is None and not made.has_minus
            return replace(made, sign_at=-1 if made.has_point else made.before) if is_free else None
        case "MI":
            if made.sign_at is not None or made.has_minus:
                return None
            made = replace(made, has_minus=True)
        case "PR":
            return None if made.sign_at is not None or made.has_minus else replace(made, has_brackets=True)
        case "," | "G":
            pass
        case "TH":
            name = token
        case _:
            name = "=" + token.strip('"')
    return replace(made, tokens=(*made.tokens, name))


def number_to_char(value: int | decimal.Decimal, pattern: str) -> str:
    read = read_number_pattern(pattern)
    assert isinstance(read, NumberPattern), f"patterns were read before: {read}"
    return _NumberWriter(read, round_half_up(decimal.Decimal(value), read.after)).write()


class _NumberWriter:
    """Walks over a pattern as PostgreSQL does. `place` counts the digits of the pattern, `at` those of the number."""

    def __init__(self, pattern: NumberPattern, value: decimal.Decimal) -> None:
        self.pattern, self.negative = pattern, value < 0
        whole, _, fraction = f"{abs(value):f}".partition(".")
        if len(whole) > pattern.before:
            whole, fraction = "#" * pattern.before, "#" * pattern.after
        self.digits = f"{whole}.{fraction}" if pattern.after else whole
        self.blanks = pattern.before - len(whole)
        self.place = self.at = 0
        self.inside = False
        self.made: list[str] = []
        self.last = self._find_last()
        signed = pattern.has_minus or (not self.negative and not pattern.fills and pattern.sign_at is None)
        self.sign_written = signed
        self.has_brackets = pattern.has_brackets and (self.negative or pattern.fills)
        self.count = pattern.before + pattern.after - 1 + (not signed and self.blanks == 0)

    def _find_last(self) -> int | None:
        """The last digit after the point that FM keeps: the point itself if there is none."""
        if self.pattern.fills or not self.pattern.has_point:
            return None
        point = self.digits.index(".")
        last = max((n for n in range(point, len(self.digits)) if self.digits[n] not in ".0"), default=point)
        if self.pattern.zero_to > self.blanks:
            last = max(last, min(len(self.digits) - 1, self.pattern.zero_to - self.blanks))
        return last

    def write(self) -> str:
        for token in self.pattern.tokens:
            if token in _PLACES:
                self._write_place(token)
            elif token in (",", "G"):
                self._fill("," if self.inside else None)
            elif token == "MI":
                self._fill("-" if self.negative else None)
            elif token in ("TH", "th"):
                self._write_ordinal(token)
            else:
                self.made.append(token[1:])
        return "".join(self.made)

    def _fill(self, text: str | None) -> None:
        """The text, or a blank where there is none and blanks are not left out."""
        if text is not None or self.pattern.fills:
            self.made.append(" " if text is None else text)

    def _write_ordinal(self, ending: str) -> None:
        if not (self.digits.startswith("#") or self.negative or self.pattern.has_point):
            self.made.append(_ordinal(self.digits, ending))

    def _write_place(self, token: str) -> None:
        self.inside = False
        if not self.sign_written and self._begins():
            self._write_sign()
        zero_from = self.pattern.zero_from
        if self.place < self.blanks and (zero_from is None or zero_from > self.place):
            self._fill(None)
        elif self.place < self.blanks:
            self.made.append("0")
            self.inside = True
        else:
            self._write_digit(token)
        end = self.count + (self.blanks > 0) + self.pattern.has_point
        if self.last is not None and self.last == self.at:
            end = self.place
        if self.place + 1 == end:
            if self.sign_written and self.has_brackets:
                self.made.append(">" if self.negative else " ")
            elif self.pattern.signs_after:
                self.made.append("-" if self.negative else "+")
        self.place += 1

    def _begins(self) -> bool:
        reached = self.place >= self.blanks or self.pattern.zero_from == self.place
        return reached and (not self._hides_zero() or (self.last is not None and self.digits[self.last] == "."))

    def _hides_zero(self) -> bool:
        """The zero before the point is a blank, unless the pattern has zeros."""
        is_first = self.pattern.zero_from is None and self.at == 0
        return is_first and self.digits[0] == "0" and self.pattern.after > 0

    def _write_sign(self) -> None:
        if self.pattern.sign_at is not None:
            if self.pattern.signs_after:
                return
            self.made.append("-" if self.negative else "+")
        elif self.has_brackets:
            self.made.append("<" if self.negative else " ")
        elif self.negative:
            self.made.append("-")
        else:
            self._fill(None)
        self.sign_written = True

    def _write_digit(self, token: str) -> None:
        digit = self.digits[self.at : self.at + 1]
        if digit == ".":
            self.made.append(".")
        elif self.last is not None and self.at > self.last and token != "0":
            pass
        elif self._hides_zero():
            if self.pattern.fills:
                self.made.append(" ")
            elif self.last is not None and self.digits[self.last] == ".":
                self.made.append("0")
        else:
            self.made.append(digit)
            self.inside = True
        self.at += bool(digit)
