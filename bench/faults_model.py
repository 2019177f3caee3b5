"""A fault as a value, what was seen of one, and what that means. Nothing here acts: `faults_world.py` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.faults_world import World


class Expected(StrEnum):
    """What a project has to answer."""

    READ_ANEW = "read anew"
    """It reads again, or rebuilds, what is wrong, without anybody's help."""
    STOPPED = "stopped"
    """It says what stands still and why, and goes on by itself once the cause is gone."""
    UNTOUCHED = "untouched"
    """All promises are kept meanwhile, and nothing is read again. A trouble may be said for a moment."""


class CannotTry(Exception):
    """This machine lacks what a fault needs: an extension, the right to mount."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a fault needs in the project besides what every world has. Texts are lines of the project file."""

    sql: str = ""
    sources: str = ""
    contracts: str = ""
    views: Mapping[str, str] = field(default_factory=dict)
    engine: str = "local"
    freshness: str = "8 s"
    small_disk: bool = False
    """The project's folder is on a small disk of its own."""
    other_clock: bool = False
    """The second database is on a server whose clock can be set."""
    two_hosts: bool = False
    """The address of the first database names two servers: the second one has other rows, and is down."""
    cluster: bool = False
    """Spark is a cluster of two workers."""
    extension: str | None = None
    """What the server has to offer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`happen` provokes it on entry, and undoes it on exit. `also` says what else has to be equal in the end."""

    name: str
    sentence: str
    expected: Expected
    happen: Callable[[World], AbstractContextManager[None]]
    part: Part = Part()
    also: Callable[[World], bool] | None = None


Act = Callable[["World"], Iterator[None]]


def fault(
    sentence: str, expected: Expected, part: Part | None = None, also: Callable[[World], bool] | None = None
) -> Callable[[Act], Fault]:
    """Makes a fault of a function that provokes it, yields while it lasts, and undoes it."""

    def make(act: Act) -> Fault:
        name = act.__name__.replace("_", "-")
        return Fault(name, sentence, expected, contextmanager(act), part or Part(), also)

    return make


@dataclass(frozen=True, slots=True)
class Look:
    """What `status` said at a time, in seconds since the fault: states by contract, and why something is not well."""

    at_s: float
    states: Mapping[str, str]
    said: str | None = None

    @property
    def is_kept(self) -> bool:
        return bool(self.states) and set(self.states.values()) == {"kept"}

    @property
    def is_well(self) -> bool:
        return self.said is None and self.is_kept


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `audit --recompute` found between two looks: whether the view of each contract equals its query.

    None where that could not be said.
    """

    equal: Mapping[str, bool | None]
    before: Look
    after: Look

    @property
    def wrong_while_kept(self) -> tuple[str, ...]:
        """Contracts whose view was wrong while `status` said, before and after, that they were kept."""
        kept = [name for name, state in self.before.states.items() if state == self.after.states.get(name) == "kept"]
        return tuple(sorted(name for name in kept if self.equal.get(name) is False))

    @property
    def word(self) -> str:
        found = set(self.equal.values())
        return "no" if False in found else "not compared" if None in found or not found else "yes"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one fault. Seconds are None for what did not happen in time; `read_again` are sources."""

    fault: Fault
    seen_s: float | None = None
    said: str = ""
    healed_s: float | None = None
    comparisons: tuple[Comparison, ...] = ()
    also_equal: bool = True
    read_again: int = 0
    all_kept: bool = True
    """No look found a contract that was not kept."""
    not_tried: str | None = None

    @property
    def wrong_while_kept(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in self.comparisons for name in one.wrong_while_kept))

    @property
    def rows_equal(self) -> str:
        if not self.comparisons:
            return "-"
        last = self.comparisons[-1].word
        return last if self.also_equal or last == "no" else "no, copy"

    @property
    def is_as_expected(self) -> bool:
        if self.wrong_while_kept or self.rows_equal != "yes" or self.healed_s is None:
            return False
        match self.fault.expected:
            case Expected.UNTOUCHED:
                return self.all_kept and not self.read_again
            case Expected.STOPPED | Expected.READ_ANEW:
                return self.seen_s is not None or self.read_again > 0

    def to_json(self) -> dict[str, Any]:
        return {
            "fault": self.fault.name,
            "sentence": self.fault.sentence,
            "expected": self.fault.expected.value,
            "seen_after_s": self.seen_s,
            "said": self.said,
            "healed_after_s": self.healed_s,
            "rows_equal": self.rows_equal,
            "read_again": self.read_again,
            "all_kept": self.all_kept,
            "wrong_while_kept": list(self.wrong_while_kept),
            "as_expected": None if self.not_tried else self.is_as_expected,
            "not_tried": self.not_tried,
        }


def find_seen(looks: tuple[Look, ...]) -> Look | None:
    """The first look at which something was not well."""
    return next((look for look in looks if not look.is_well), None)
