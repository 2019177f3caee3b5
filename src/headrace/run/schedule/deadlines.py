"""Decides when to end a job: an item takes too long, no item starts, or the engine no longer answers.

The runner marks each item while it works on it, and changes the mark of an item that makes progress. The decision
depends only on marks and the clock, so a test can set the clock by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.model.amounts import format_seconds
from headrace.run.feeds.apply import FeedApplyItem
from headrace.run.load.load_work import LoadItem
from headrace.run.logs.history import GatherItem
from headrace.run.logs.upkeep_work import UpkeepItem
from headrace.run.push.chains import ChainItem
from headrace.run.push.items import Item
from headrace.run.push.work import WorkItem

ROW_S, BYTE_S, ENTRY_S = 2e-5, 1e-7, 5e-5
"""Seconds for each row, or byte, that an item reads, or entry that it writes to a feed: at least this is expected,
whatever was measured.
"""
STOOD_STILL_S = 5.0
"""Between two looks: then we stood still ourselves, perhaps with the whole machine, and nobody is to blame."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that things may take.

    An item may take `least_s`, or `times` as long as nine of ten such items take. A load may make no progress for
    `load_s`. Nothing of a job may be in work for `idle_s`. Whatever runs it may not answer for `answer_s`, starts
    within `start_s`, and has `end_s` to end a job when it is told to.
    """

    least_s: float = 60.0
    times: float = 10.0
    load_s: float = 120.0
    idle_s: float = 300.0
    answer_s: float = 20.0
    start_s: float = 180.0
    end_s: float = 15.0


def limit_s(item: Item, patience: Patience) -> float:
    """How long an item may take; of a load, how long it may make no progress."""
    if isinstance(item, LoadItem):
        rows = sum(piece.rows for files in item.kept.values() for piece in files.pieces)
        return max(patience.load_s, patience.times * ROW_S * rows)
    return max(patience.least_s, patience.times * _expected_s(item))


def _expected_s(item: Item) -> float:
    match item:
        case ChainItem(items):
            return sum(map(_expected_s, items))
        case WorkItem():
            return max(item.expected_s, ROW_S * item.weight)
        case UpkeepItem() | GatherItem():
            return BYTE_S * item.bytes
        case FeedApplyItem():
            return ENTRY_S * item.weight
        case _:
            return 0.0


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """What was seen of a job, on a clock that nobody sets.

    `in_work` has the mark of each item that is in work, and since when it is as it is. `busy` is when something was in
    work last, `answered` when whatever runs the job answered last.
    """

    looked: float
    busy: float
    answered: float
    in_work: Mapping[int, tuple[object, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """The job is to be ended, and why. `overdue` are the items that took too long; none if nobody can tell which."""

    overdue: frozenset[int]
    why: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Whatever runs the job is to be killed, and why: it would not even hear that it shall end it."""

    why: str


def begin_watch(now: float) -> WatchedJob:
    return WatchedJob(now, now, now)


def look(before: WatchedJob, now: float, marks: Mapping[int, object], answered: bool) -> WatchedJob:
    """What is seen now; `marks` are those of items that are in work."""
    gap = now - before.looked
    if gap > STOOD_STILL_S:
        before = _shift(before, gap)
    known = before.in_work
    in_work = {n: known[n] if n in known and known[n][0] == mark else (mark, now) for n, mark in marks.items()}
    return WatchedJob(now, now if marks else before.busy, now if answered else before.answered, in_work)


def _shift(watched: WatchedJob, gap: float) -> WatchedJob:
    in_work = {number: (mark, since + gap) for number, (mark, since) in watched.in_work.items()}
    return replace(watched, busy=watched.busy + gap, answered=watched.answered + gap, in_work=in_work)


def judge(watched: WatchedJob, limits_s: Sequence[float], patience: Patience) -> End | Kill | None:
    """What is to be done about a job; None if it may go on. `limits_s` are those of its items."""
    now = watched.looked
    if now - watched.answered > patience.answer_s:
        return Kill(f"it has not answered for {format_seconds(round(now - watched.answered))}")
    late = {number for number, (_, since) in watched.in_work.items() if now - since > limits_s[number]}
    if late:
        longest = max(limits_s[number] for number in late)
        return End(frozenset(late), f"it took longer than {format_seconds(round(longest, 1))}")
    if not watched.in_work and now - watched.busy > patience.idle_s:
        return End(frozenset(), f"nothing of the job ran for {format_seconds(round(now - watched.busy))}")
    return None
