"""Decides whether pushes have stopped, from when views last advanced: what to report, and when to replace the engine.

A contract waits while its view stays at one time although more changes are captured. A contract that waits for longer
than 30 s, or twice its freshness, is stuck. After twice as long the engine is replaced, at most three times an hour.
Contracts that are known to fail, to load or to be stopped are excused: another part reports them. The decision is pure:
times and contracts in, a verdict out. Seconds are from a monotonic clock; time in which this process itself was
suspended does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class StandstillLimits:
    """A contract may wait `least_s`, or `times` its freshness. So many replacements an hour; gaps between looks that
    are longer than `gap_s` are our own.
    """

    least_s: float = 30.0
    times: float = 2.0
    replacements: int = 3
    gap_s: float = 5.0

    def wait_s(self, freshness_s: float) -> float:
        return max(self.least_s, self.times * freshness_s)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A contract as it is now: the time of its view (None if it has none), and up to where everything is captured."""

    contract: str
    freshness_s: float
    reached: int | None
    captured: int
    excused: bool = False

    @property
    def is_due(self) -> bool:
        return not self.excused and self.reached is not None and self.captured > self.reached


@dataclass(frozen=True, slots=True)
class Stillness:
    """What was seen so far: of each contract that waits, where its view is and since when; when engines were replaced.

    Of contracts that do not wait nothing is noted.
    """

    looked: float
    since: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    replaced: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Contracts that are stuck, and for how many seconds; whether to replace the engine, and whether that is over."""

    stuck: Mapping[str, float]
    replace: bool = False
    gave_up: bool = False


def look_again(before: Stillness, now: float, contracts: Sequence[Waiting], limits: StandstillLimits) -> Stillness:
    gap = now - before.looked
    shift = gap if gap > limits.gap_s else 0.0
    since: dict[str, tuple[int, float]] = {}
    for one in contracts:
        if one.is_due and one.reached is not None:
            at, from_ = before.since.get(one.contract, (None, now))
            since[one.contract] = (one.reached, from_ + shift if at == one.reached and from_ < now else now)
    return Stillness(now, since, tuple(at for at in before.replaced if now - at < HOUR_S))


def judge_standstill(
    seen: Stillness, contracts: Sequence[Waiting], limits: StandstillLimits, allowed_s: float = 0.0
) -> Verdict:
    """`allowed_s` is how long something that runs now may take: an engine is not replaced under it.

    It may have begun when its contract was already waiting, so that comes on top.
    """
    waited = {name: seen.looked - since for name, (_, since) in seen.since.items()}
    wait_s = {one.contract: limits.wait_s(one.freshness_s) for one in contracts}
    stuck = {name: seconds for name, seconds in waited.items() if seconds > wait_s[name]}
    last = max(seen.replaced, default=-HOUR_S)
    overdue = any(
        min(seconds, seen.looked - last) > wait_s[name] + max(wait_s[name], allowed_s)
        for name, seconds in stuck.items()
    )
    spent = len(seen.replaced) >= limits.replacements
    return Verdict(stuck, overdue and not spent, bool(stuck) and spent)


def note_replacement(seen: Stillness) -> Stillness:
    return replace(seen, replaced=(*seen.replaced, seen.looked))
