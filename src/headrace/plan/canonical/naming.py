"""Names that columns have inside blocks: readable, unique, and the same for equal blocks of different views."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.model.expr import Call, Column, Expr
from headrace.model.relation import AggregateCall

_WORD = re.compile(r"[^A-Za-z0-9_]+")


def stem_of(expr: Expr | AggregateCall) -> str:
    """`total` for a column, `sum_total` for a function of one column, the function's name otherwise."""
    match expr:
        case Column(name):
            return _word(name.rpartition(".")[2])
        case AggregateCall(_, function, argument):
            return function.value if argument is None else f"{function.value}_{stem_of(argument)}"
        case Call(function, (Column(name), *_)):
            return f"{_word(function)}_{_word(name.rpartition('.')[2])}"
        case Call(function):
            return _word(function)
        case _:
            return "constant"


def unique_names(stems: Iterable[str], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """The stems in their order, made different by numbers."""
    used = set(taken)
    names = []
    for stem in stems:
        name, number = stem, 1
        while name in used:
            number += 1
            name = f"{stem}_{number}"
        used.add(name)
        names.append(name)
    return tuple(names)


def _word(text: str) -> str:
    return _WORD.sub("_", text.removeprefix("python:").partition("@")[0]).strip("_") or "value"
