"""What can be told from the texts of predicates alone: whether one lets nothing through that another does not.

A text is conjuncts joined by AND. A conjunct that compares one column with constants is understood; of any other it is
known only that equal texts mean the same. On a line with all constants of a column a condition is true or false at each
constant and between two of them, so trying these places is enough.

    x > 5  contains  x > 7       places  ..5..7..       x > 7 holds right of 7, where x > 5 holds as well
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|[()]|[^\s()'`]+|\s+", re.DOTALL)
_NAME = r"(?P<column>[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`)"
_VALUE = r"(?:(?:DATE |TIMESTAMP )?'(?:[^'\\]|\\.)*'|-?[0-9.]+(?:[eE][-+]?[0-9]+)?(?:BD|[YSLFD])?)"
_COMPARED = re.compile(rf"{_NAME} (?P<operator>=|<>|<=|>=|<|>) (?P<value>{_VALUE})", re.DOTALL)
_LISTED = re.compile(rf"{_NAME} (?P<operator>IN|NOT IN) \((?P<values>{_VALUE}(?:, {_VALUE})*)\)", re.DOTALL)
_PRESENT = re.compile(rf"{_NAME} (?P<operator>IS NOT NULL)")

Constant = tuple[str, Fraction | str]
"""Its kind, and its value; constants of one kind compare."""


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """One column compared with constants."""

    column: str
    operator: str
    constants: tuple[Constant, ...] = ()

    def holds_at(self, place: int, line: Sequence[Constant]) -> bool:
        """Whether the condition holds at a place. At an odd place 2i + 1 the column has the constant i of the line, at
        an even one a value beside or between constants.
        """
        places = [2 * line.index(constant) + 1 for constant in self.constants]
        match self.operator:
            case "IS NOT NULL":
                return True
            case "=" | "IN":
                return place in places
            case "<>" | "NOT IN":
                return place not in places
            case "<":
                return place < places[0]
            case "<=":
                return place <= places[0]
            case ">":
                return place > places[0]
            case _:
                return place >= places[0]


def implies(narrow: str, wide: str) -> bool:
    """Whether every row that passes the narrow text passes the wide one, as far as texts can tell."""
    known = conjuncts_of(narrow)
    return all(conjunct in known or _follows(conjunct, known) for conjunct in conjuncts_of(wide))


def _follows(conjunct: str, known: Sequence[str]) -> bool:
    wanted = condition_of(conjunct)
    if wanted is None:
        return False
    found = (condition_of(one) for one in known)
    same = [one for one in found if one is not None and one.column == wanted.column]
    line = line_of((wanted, *same))
    if not same or line is None:
        return False
    places = range(2 * len(line) + 1)
    return all(wanted.holds_at(place, line) for place in places if all(one.holds_at(place, line) for one in same))


def line_of(conditions: Sequence[ColumnCondition]) -> list[Constant] | None:
    """All constants in order; None if they do not compare."""
    constants = {constant for condition in conditions for constant in condition.constants}
    return sorted(constants) if len({kind for kind, _ in constants}) <= 1 else None


def conjuncts_of(text: str) -> tuple[str, ...]:
    """The parts joined by AND; the whole text if OR binds less tightly than they do, or it cannot be read."""
    parts, depth, has_or = [""], 0, False
    tokens = _TOKEN.findall(text)
    for token in tokens if "".join(tokens) == text else ():
        depth += {"(": 1, "CASE": 1, ")": -1, "END": -1}.get(token, 0)
        has_or = has_or or (depth == 0 and token == "OR")
        if depth == 0 and token == "AND":
            parts.append("")
        else:
            parts[-1] += token
    return tuple(part.strip() for part in parts) if parts[0] and not has_or else (text,)


def condition_of(conjunct: str) -> ColumnCondition | None:
    """The conjunct, if it compares one column with constants of one kind."""
    if found := _PRESENT.fullmatch(conjunct):
        return ColumnCondition(found["column"], found["operator"])
    found = _COMPARED.fullmatch(conjunct) or _LISTED.fullmatch(conjunct)
    if found is None:
        return None
    texts = re.findall(_VALUE, found.groupdict().get("values") or found["value"], re.DOTALL)
    constants = tuple(map(_constant, texts))
    same_kind = len({constant[0] for constant in constants if constant is not None}) == 1
    known = tuple(constant for constant in constants if constant is not None)
    return (
        ColumnCondition(found["column"], found["operator"], known) if same_kind and len(known) == len(texts) else None
    )


def _constant(text: str) -> Constant | None:
    """Dates and timestamps are written so that texts compare as times do."""
    if text.endswith("'"):
        kind, _, value = text.partition("'")
        return kind.strip() or "TEXT", "".join(_characters(value[:-1]))
    try:
        return "NUMBER", Fraction(text.rstrip("YSLFDB"))
    except ValueError:
        return None


_ESCAPED: Mapping[str, str] = {"n": "\n", "0": "\0"}


def _characters(text: str) -> Iterator[str]:
    """The characters of a quoted text, without the backslashes that escape some."""
    rest = iter(text)
    for character in rest:
        escaped = next(rest, "") if character == "\\" else None
        yield character if escaped is None else _ESCAPED.get(escaped, escaped)
