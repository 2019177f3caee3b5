"""Decides which rows of a source are really wrong here, from what the source showed and what we held meanwhile.

A snapshot of a source and a time of ours never fit exactly: transactions come and go. But for one key they follow each
other. So what a snapshot shows of a key is what we held of it at some time between one that the snapshot surely
follows and one that surely follows the snapshot. If it never was, the row is wrong, however much is written meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from headrace.model.types import Row

RowChange = tuple[int, Row, int]
"""A time, a row, and how often it came (or went, if negative)."""


class Wrong(StrEnum):
    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class WrongRow:
    key: Row
    how: Wrong


def judge_rows(
    keys: Iterable[Row],
    places: Sequence[int],
    shown: Iterable[Row],
    held: Iterable[tuple[Row, int]],
    changes: Iterable[RowChange],
) -> list[WrongRow]:
    """The keys of which we never held what the source showed.

    `places` are the columns of the key in a row. `held` is what we hold last, and `changes` lead there from the
    earliest time at which the snapshot may have been taken.
    """
    theirs, ours, history = dict[Row, Counter[Row]](), dict[Row, Counter[Row]](), dict[Row, list[RowChange]]()
    for row in shown:
        theirs.setdefault(_key_of(row, places), Counter())[row] += 1
    for row, weight in held:
        ours.setdefault(_key_of(row, places), Counter())[row] += weight
    for change in changes:
        history.setdefault(_key_of(change[1], places), []).append(change)
    found = []
    for key in keys:
        source, now = theirs.get(key, Counter()), ours.get(key, Counter())
        if not any(state == source for state in _states(now, history.get(key, []))):
            how = Wrong.MISSING if not now else Wrong.EXTRA if not source else Wrong.DIFFERENT
            found.append(WrongRow(key, how))
    return found


def _key_of(row: Row, places: Sequence[int]) -> Row:
    return tuple(row[place] for place in places)


def _states(now: Counter[Row], changes: list[RowChange]) -> Iterator[Counter[Row]]:
    """What was held of a key, the latest first: each time's changes are taken back together."""
    state = Counter(now)
    yield state
    latest_first = sorted(changes, key=lambda change: change[0], reverse=True)
    for _, together in groupby(latest_first, key=lambda change: change[0]):
        for _, row, weight in together:
            state[row] -= weight
        yield Counter({row: weight for row, weight in state.items() if weight})


def say_wrong(wrong: Sequence[WrongRow], key: Sequence[str]) -> str:
    """Which rows are wrong, in words, with one of them as an example."""
    counts = Counter(one.how for one in wrong)
    words = ", ".join(f"{counts[how]} {how.value}" for how in Wrong if counts[how])
    first = wrong[0]
    if len(first.key) > len(key):
        return f"{words} rows"
    named = ", ".join(f"{name} = {value!s}" for name, value in zip(key, first.key, strict=True))
    return f"{words} (for example {named}: {first.how.value})"
