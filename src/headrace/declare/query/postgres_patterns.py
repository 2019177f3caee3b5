"""Patterns of PostgreSQL in Java's words: formats of times, regular expressions, SIMILAR TO, and intervals.

What has no exact counterpart is refused by its name, never approximated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.meaning.scalar_intervals import read_interval
from headrace.model.errors import EvaluationError

_TIME_PARTS: Mapping[str, str] = {
    "YYYY": "yyyy",
    "YY": "yy",
    "MM": "MM",
    "DDD": "DDD",
    "DD": "dd",
    "HH24": "HH",
    "HH12": "hh",
    "HH": "hh",
    "MI": "mm",
    "SS": "ss",
    "MS": "SSS",
    "US": "SSSSSS",
    "AM": "a",
    "PM": "a",
    "Mon": "MMM",
    "Dy": "EEE",
    "Q": "q",
}
_UNPADDED: Mapping[str, str] = {
    "YYYY": "y",
    "MM": "M",
    "DDD": "D",
    "DD": "d",
    "HH24": "H",
    "HH12": "h",
    "HH": "h",
    "Month": "MMMM",
    "Day": "EEEE",
    "Mon": "MMM",
    "Dy": "EEE",
    "Q": "q",
}
"""What FM before a part makes of it: PostgreSQL fills names with blanks otherwise, and numbers with zeros."""
_ANY_CASE = ("YYYY", "YY", "MM", "DDD", "DD", "HH24", "HH12", "HH", "MI", "SS", "MS", "US", "Q")
_SPELLED, _SPELLED_UNPADDED = (
    {**parts, **{name.lower(): java for name, java in parts.items() if name in _ANY_CASE}}
    for parts in (_TIME_PARTS, _UNPADDED)
)
"""Numbers are the same in capitals and in small letters; words are written in those of the pattern."""
_TIME_TOKEN = re.compile(
    r'"(?P<text>[^"]*)"|(?P<seconds>SSSSS?)|(?P<fill>FM|fm)?(?P<part>'
    + "|".join(sorted({*_SPELLED, *_SPELLED_UNPADDED}, key=len, reverse=True))
    + r")(?P<suffix>th|TH)?|(?P<other>[^A-Za-z\"\\])|(?P<unknown>[A-Za-z]+|.)",
    re.DOTALL,
)


def translate_time_format(pattern: str) -> str:
    """`YYYY-MM-DD HH24:MI` as `yyyy-MM-dd HH:mm`."""
    made, before = [""], ""
    for token in _TIME_TOKEN.finditer(pattern):
        part, filled = token["part"], token["fill"] is None
        if token["text"] == "":
            continue
        if token["text"] is not None:
            made.append(_quote(token["text"]))
        elif token["other"] is not None:
            made.append(
                "''"
                if token["other"] == "'"
                else _quote(token["other"])
                if token["other"] in "[]{}#"
                else token["other"]
            )
        elif (
            token["seconds"]
            or part is None
            or token["suffix"]
            or part not in (_SPELLED if filled else _SPELLED_UNPADDED)
        ):
            raise NotMaintained(f'function: to_char with "{token[0]}"', _SAY_PARTS)
        else:
            java = (_SPELLED if filled else _SPELLED_UNPADDED)[part]
            if before and made[-1][-1:] == java[0]:
                # Java reads one run of a letter, and cannot tell where the one part ends and the next begins.
                raise NotMaintained(f'function: to_char with "{before}{token[0]}"', "put a sign between the two parts")
            made.append(java)
            before = token[0]
            continue
        before = ""
    return "".join(made)


_SAY_PARTS = f"its patterns are made of {', '.join(_TIME_PARTS)}, FMMonth, FMDay and text in double quotes"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if text else ""


_CLASS_NAMES = {"alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "space": "\\s"}
_SAY_REGEX = (
    "use letters, digits, classes like [a-z] or [[:digit:]], groups, |, *, +, ?, {n,m}, ^, $, ., \\d, \\w and \\s"
)
_ESCAPED = frozenset("dDwWsS")


def translate_regex(pattern: str, *, ignore_case: bool = False) -> str:
    """An advanced regular expression as Java and Python read it; those that they would read otherwise are refused.

    `.` and negated classes match a newline in PostgreSQL, and `$` only the very end.
    """
    if pattern.startswith("***"):
        raise _regex_refusal(pattern, pattern[:3])
    _check_repetitions(pattern)
    made, at = [], 0
    while at < len(pattern):
        character = pattern[at]
        if character == "[":
            piece, at = _translate_class(pattern, at)
        elif character == "\\":
            piece, at = _translate_escape(pattern, at)
        elif character == "(" and pattern[at + 1 : at + 2] == "?":
            if pattern[at + 2 : at + 3] not in (":", "=", "!"):
                raise _regex_refusal(pattern, pattern[at : at + 3])
            piece, at = pattern[at : at + 3], at + 3
        elif character == "{" and not pattern[at + 1 : at + 2].isdigit():
            piece, at = "\\{", at + 1  # only a digit after it makes it a bound
        else:
            piece, at = {".": "[\\s\\S]", "$": "(?![\\s\\S])"}.get(character, character), at + 1
        made.append(piece)
    return ("(?i)" if ignore_case else "") + "".join(made)


def _translate_escape(pattern: str, at: int) -> tuple[str, int]:
    following = pattern[at + 1 : at + 2]
    if following in _ESCAPED and following:
        return pattern[at : at + 2], at + 2
    if following in ("m", "M", "y") and following:
        # \y and friends are edges of words of \w, which Java's \b are as well.
        return {"m": "\\b(?=\\w)", "M": "\\b(?<=\\w)", "y": "\\b"}[following], at + 2
    if following in ("n", "t", "r"):
        return pattern[at : at + 2], at + 2
    if not following or following.isalnum():
        raise _regex_refusal(pattern, f"\\{following}")
    return pattern[at : at + 2], at + 2


def _translate_class(pattern: str, at: int) -> tuple[str, int]:
    """`[^[:alpha:]_]`: a backslash escapes inside, too; brackets within are names of classes or refused."""
    end, made = at + 1, "["
    if pattern[end : end + 1] == "^":
        made, end = "[^", end + 1
    if pattern[end : end + 1] == "]":
        made, end = made + "\\]", end + 1
    while end < len(pattern) and pattern[end] != "]":
        named = re.match(r"\[:(\w+):\]", pattern[end:])
        if named is not None and named[1] in _CLASS_NAMES:
            made, end = made + _CLASS_NAMES[named[1]], end + named.end()
        elif pattern[end] == "\\":
            piece, end = _translate_escape(pattern, end)
            if piece[:2] == "\\b":
                raise _regex_refusal(pattern, piece)
            made += piece
        elif pattern[end] == "[" or pattern[end : end + 2] in ("&&", "--", "~~", "||"):
            raise _regex_refusal(pattern, pattern[end : end + 2])
        else:
            made, end = made + pattern[end], end + 1
    if end >= len(pattern):
        raise Mistake(f'the regular expression "{pattern}" has a [ without ]')
    return made + "]", end + 1


def _regex_refusal(pattern: str, part: str) -> NotMaintained:
    return NotMaintained(f'expression: regular expression with "{part}"', _SAY_REGEX)


_BOUND = re.compile(r"[*+?]|\{\d[^}]*\}")


def _split_regex(pattern: str) -> Iterator[tuple[str, str]]:
    """The parts of a pattern with their kinds: `(` that captures or `(?` that does not, `)`, `|`, `repeat`, `char`."""
    at = 0
    while at < len(pattern):
        start, kind = at, pattern[at] if pattern[at] in "()|" else "char"
        bound = _BOUND.match(pattern, at)
        if pattern[at] == "[":
            _, at = _translate_class(pattern, at)
        elif pattern[at] == "\\":
            at += 2
        elif pattern[at : at + 2] == "(?":
            kind, at = "(?", at + 3
        elif bound is not None:
            # A ? after it makes it lazy: it repeats the same as before.
            kind, at = "repeat", bound.end() + (pattern[bound.end() : bound.end() + 1] == "?")
        else:
            at += 1
        yield kind, pattern[start:at]


def _check_repetitions(pattern: str) -> None:
    """Java reads `a++` as a repetition that gives nothing back; to PostgreSQL it is a mistake, as is one of nothing."""
    before = "("
    for kind, part in _split_regex(pattern):
        if kind == "repeat" and before in ("repeat", "(", "(?", "|"):
            raise Mistake(f'the regular expression "{pattern}" repeats nothing with "{part}"')
        before = kind


def count_groups(pattern: str) -> int:
    """How many groups of a pattern capture what they match."""
    return sum(kind == "(" for kind, _ in _split_regex(pattern))


def refuse_absent_group(pattern: str) -> None:
    """Refuse a first group that may take no part in a match: then it is NULL in PostgreSQL, and empty in Java. Groups
    in conditions on what follows capture nothing in PostgreSQL.
    """
    opened, ended, found = list[tuple[str, bool]](), False, False
    for kind, part in _split_regex(pattern):
        if kind == "repeat" and ended and (part[0] in "*?" or part.startswith("{0")):
            hint = "the group must take part in every match: repeat what is in it, as in (a?)"
            raise NotMaintained("expression: substring by a group that may be absent", hint)
        ended = False
        if kind == "(" and any(start in ("(?=", "(?!") for start, _ in opened):
            raise _regex_refusal(pattern, "(?=")
        if kind == "(" and not found:
            found = True
            opened = [(start, True) for start, _ in (*opened, (part, True))]
        elif kind in ("(", "(?"):
            opened.append((part, False))
        elif kind == ")" and opened:
            _, ended = opened.pop()


def _refuse_repeated_groups(pattern: str) -> None:
    """A group that repeats after another repetition may match more if that one takes less: `(a*)(ab)*` of `aab`."""
    seen, before = False, ""
    for kind, _ in _split_regex(pattern):
        if kind == "repeat" and before == ")" and seen:
            hint = "a repeated group after another repetition finds another match than in PostgreSQL: use CASE with ~"
            raise NotMaintained("expression: substring by a pattern that repeats a group", hint)
        seen = seen or kind == "repeat"
        before = kind


def refuse_ambiguous(pattern: str) -> None:
    """Java takes the first alternative that fits, PostgreSQL the longest match of the whole pattern."""
    _refuse_repeated_groups(pattern)
    if "|" in pattern or any(f"{sign}?" in pattern for sign in "*+?}"):
        hint = "alternatives and lazy repetition find another match than in PostgreSQL: use CASE with ~"
        raise NotMaintained('expression: substring by a pattern with "|" or lazy repetition', hint)


def translate_similar(pattern: str) -> str:
    """SIMILAR TO compares the whole text; `%` and `_` are as in LIKE, `.` is itself."""
    made, at = [], 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            following = pattern[at + 1 : at + 2]
            if not following:
                raise Mistake(f'the pattern "{pattern}" ends with an escape')
            made.append(re.escape(following))
            at += 2
            continue
        if character == "[":
            piece, at = _translate_class(pattern, at)
            made.append(piece)
            continue
        made.append({"%": "[\\s\\S]*", "_": "[\\s\\S]", ".": "\\.", "^": "\\^", "$": "\\$"}.get(character, character))
        at += 1
    return f"^(?:{''.join(made)})(?![\\s\\S])"


_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), "year"),
    **dict.fromkeys(("mon", "mons", "month", "months"), "month"),
    **dict.fromkeys(("w", "week", "weeks"), "week"),
    **dict.fromkeys(("d", "day", "days"), "day"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "hour"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "minute"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "second"),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), "millisecond"),
    **dict.fromkeys(("us", "usec", "microsecond", "microseconds"), "microsecond"),
}
_CLOCK = re.compile(r"([+-]?)(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d{1,6})?))?$")
_AMOUNT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)$")


def translate_interval(text: str) -> str:
    """`1 mon`, `01:30:00` or `2 days 01:30` as numbers with units."""
    made = translate_parts(text)
    if 0 < sum(part.endswith((" year", " month")) for part in made) < len(made):
        hint = "add it to a time, or compare with two times: x + interval '1 month 2 days'"
        raise NotMaintained("expression: interval of months and days", hint)
    return " ".join(made)


def translate_parts(text: str) -> list[str]:
    """The numbers of an interval with their units: `1 month - 1 day` has two."""
    text = text.lower()
    written = re.sub(r"([+-])\s+(?=[\d.])", r"\1", text.strip().removeprefix("@").strip())
    written, ago = re.subn(r"\s+ago$", "", written)
    words = re.findall(r"[+-]?\d+(?:\.\d+)?\s*[a-z]+|[+-]?\d+:\d+(?::\d+(?:\.\d+)?)?|\S+", written)
    try:
        made = [part for word in words for part in _translate_word(text, word)]
    except NotMaintained:
        return _read_parts(text)
    if not made:
        raise Mistake(f"'{text}' is not an interval")
    return [part[1:] if part.startswith("-") else f"-{part.removeprefix('+')}" for part in made] if ago else made


def _read_parts(text: str) -> list[str]:
    """Any other text that is an interval: `1.5 days`, `90`."""
    try:
        months, days, micros = read_interval(text)
    except EvaluationError:
        hint = "write it like '1 month 2 days 03:00'"
        raise NotMaintained(f"expression: interval '{text}'", hint) from None
    made = [f"{count} {unit}" for count, unit in ((months, "month"), (days, "day")) if count]
    seconds, rest = divmod(micros, 1_000_000)
    if micros or not made:
        made.append(f"{micros} microsecond" if rest else f"{seconds} second")
    return made


def _translate_word(text: str, word: str) -> list[str]:
    if amount := _AMOUNT.match(word):
        unit = _UNITS.get(amount[2])
        if unit is not None and ("." not in amount[1] or unit == "second"):
            return [f"{amount[1]} {unit}"]
    elif clock := _CLOCK.match(word):
        sign, *parts = clock.groups()
        units = ("hour", "minute", "second")
        return [f"{sign}{part} {unit}" for part, unit in zip(parts, units, strict=True) if part is not None]
    raise NotMaintained(f"expression: interval '{text}'", "write it like '1 month 2 days 03:00', in whole numbers")
