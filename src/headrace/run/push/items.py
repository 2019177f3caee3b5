"""Work items: pieces of work that run in parallel, each of which succeeds or fails by itself.

An item is any value that can be pickled. `perform`, a module-level function, does its work, writes files, and returns
something small, such as their names.
"""

from __future__ import annotations

import heapq
import pickle
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from headrace.model.bad_row import BadRow
from headrace.model.errors import EvaluationError

Made = TypeVar("Made")

UNFIT_VALUES = (ArithmeticError, pa.ArrowInvalid, UnicodeError)
"""What else is raised where a value is too large for its column, or for a calculation."""

OUT_OF_MEMORY = "there was no memory left for the process that did the work"
LARGEST_RESULT = 1_000_000
"""Bytes, pickled. Rows belong in files: all that is returned passes through one process."""
DEEPEST_FRAMES = 4
"""Of a failure's traceback, how many calls are reported."""


class Item(Protocol):
    """`weight` is how much work it is, compared with the others, in any unit."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...


@dataclass(frozen=True, slots=True)
class ItemOutcome(Generic[Made]):
    """What became of an item: a value or an error; `bad_row` if rows that it read are the cause.

    `retryable` when it is not the item's own failure but that of whatever ran it: nobody knows how far it got.
    `harmful` when it may have held that up, or brought it down: it is tried apart from others. Of its `seconds`, it was
    `waited_s` on its way between sites: nothing computed meanwhile.
    """

    name: str
    value: Made | None
    error: str | None
    seconds: float
    retryable: bool = False
    harmful: bool = False
    waited_s: float = 0.0
    bad_row: BadRow | None = None


@dataclass(frozen=True, slots=True)
class HereRunner(Generic[Made]):
    """Runs items one after the other in this process, pickled on the way in and out as elsewhere."""

    perform: Callable[..., Made]

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Made]]:
        return [pickle.loads(attempt(self.perform, item.name, pickle.dumps(item))) for item in items]


def attempt(perform: Callable[..., object], name: str, pickled: bytes) -> bytes:
    """Performs a pickled item; the pickled outcome."""
    started = time.perf_counter()

    def outcome(value: object, error: str | None, bad_row: BadRow | None = None) -> bytes:
        return pickle.dumps(ItemOutcome(name, value, error, time.perf_counter() - started, bad_row=bad_row))

    try:
        made = outcome(perform(pickle.loads(pickled)), None)
    except Exception as raised:  # also for what cannot be pickled, or not here
        return outcome(None, describe(raised), bad_row_of(raised))
    if len(made) <= LARGEST_RESULT:
        return made
    excess = f'item "{name}" returned {len(made)} bytes, of at most {LARGEST_RESULT}: rows belong in files'
    return outcome(None, excess)


def describe(error: BaseException) -> str:
    """The error's type and message, then where it was raised, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-DEEPEST_FRAMES:]
    places = [f"  at {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    said = f"{error}" or OUT_OF_MEMORY * isinstance(error, MemoryError)
    return "\n".join([f"{type(error).__name__}: {said}", *places])


def bad_row_of(error: BaseException) -> BadRow | None:
    """The row that makes work fail, however often it is tried; None if it is not the rows' fault."""
    if isinstance(error, EvaluationError):
        return error.bad_row or BadRow(str(error))
    return BadRow(str(error)) if isinstance(error, UNFIT_VALUES) else None


def group_by_weight(weights: Sequence[float], groups: int) -> list[list[int]]:
    """Positions of items in at most `groups` groups of about equal weight, the heaviest group first.

    The heaviest item that is left goes to the lightest group, so that an item heavier than its share stays alone.
    Within a group items keep this order.
    """
    made: list[list[int]] = [[] for _ in range(min(groups, len(weights)))]
    loads = [(0.0, number) for number in range(len(made))]
    for position in sorted(range(len(weights)), key=lambda position: (-weights[position], position)):
        load, number = heapq.heappop(loads)
        made[number].append(position)
        heapq.heappush(loads, (load + weights[position], number))
    return sorted(made, key=lambda group: (-sum(weights[position] for position in group), group))
