"""Brings a feed's store forward as work items: events first, then parts, each by a step that is all or nothing.

    before   what the store says of itself: the times of its parts
    next     `plan_events` and `plan_parts` decide what brings each to the time of the logs, by the rule of deliveries
    items    what is done where the engine works; each opens the store itself, so that no rows pass through the service

Whatever breaks, the store's clocks say what was done, and the next look goes on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headrace.model.errors import Conflict, ConnectError, CopyChanged, Fenced
from headrace.model.log import NEVER, Log
from headrace.run.feeds.batch import EVENT_CHANGES, EVENTS_PART, PAIRS, PARTS, STORED_CHANGES, PartChanges
from headrace.run.feeds.logs import FeedLogs
from headrace.run.ports import FeedStore, FeedTarget, Runner, Store
from headrace.run.views.deliver import NextStep, choose_step

ROWS_AN_ITEM = 4_000
"""Changes that are not worth another item."""


class HowApplied(StrEnum):
    """`CONFLICT` if somebody else, or an earlier try, has done it; `CHANGED` if parts have to be started again."""

    DONE = "done"
    CONFLICT = "conflict"
    FENCED = "fenced"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class FeedApplied:
    parts: tuple[int, ...]
    how: HowApplied
    said: str = ""


@dataclass(frozen=True, slots=True)
class FeedApplyItem:
    """Brings some parts, or events, from one time to another; `after` is None if they are started.

    `logs` are newest, pairs and stored as they were when this was decided.
    """

    feed: str
    reading: FeedLogs
    target: FeedTarget
    store: Store
    epoch: int
    logs: tuple[Log, Log, Log]
    parts: tuple[int, ...]
    after: int | None
    upto: int
    weight: float = 1.0

    @property
    def name(self) -> str:
        return f"feed {self.feed}"

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed, and only clocks move."""
        logs = self.logs[:1] if self.parts == (EVENTS_PART,) else self.logs[1:]
        return self.after is not None and _count_rows(logs, self.after) == 1


def perform_apply(item: FeedApplyItem) -> FeedApplied:
    try:
        with closing(item.target.open_store(item.epoch)) as feed_store:
            apply_item(item, feed_store)
    except Conflict as error:
        return FeedApplied(item.parts, HowApplied.CONFLICT, str(error))
    except Fenced as error:
        return FeedApplied(item.parts, HowApplied.FENCED, str(error))
    except CopyChanged as error:
        return FeedApplied(item.parts, HowApplied.CHANGED, str(error))
    return FeedApplied(item.parts, HowApplied.DONE)


def apply_item(item: FeedApplyItem, feed_store: FeedStore) -> None:
    """Raises why it cannot be done, as the store says it."""
    newest, pairs, stored = item.logs
    reading, files, after, upto = item.reading, item.store, item.after, item.upto
    match item.parts, after:
        case (part,), None if part == EVENTS_PART:
            feed_store.start_events(reading.read_events(files, newest, upto), upto)
        case (part,), int() if part == EVENTS_PART:
            assert after is not None
            feed_store.apply_events(reading.read_event_changes(files, newest, after, upto), after, upto)
        case _, None:
            for rows in reading.read_part_rows(files, pairs, stored, item.parts, upto):
                feed_store.start(rows, upto)
        case _, _:
            feed_store.apply(reading.read_part_changes(files, pairs, stored, item.parts, after, upto), after, upto)


@dataclass(slots=True)
class FeedAdvance:
    """Brings one feed's store to its logs, again and again. `item` says what and where; its times do not matter.

    What is known of the store is forgotten whenever a step was not done: then it is asked again.
    """

    item: FeedApplyItem
    feed_store: FeedStore
    runner: Runner[FeedApplied]
    slots: int = 1
    pause: int = 0
    """Microseconds for which clocks may stand still while nothing happens."""
    clocks: dict[int, int] | None = None
    _changed: set[int] = field(default_factory=set)

    @property
    def reached(self) -> int | None:
        """The time that all parts have reached; None if that is not known, or some are not there."""
        clocks = self.clocks or {}
        return min(clocks.values()) if len(clocks) == PARTS + 1 else None

    def advance(self, logs: tuple[Log, Log, Log]) -> None:
        """Raises what has kept it from it. Safe to repeat, also while an earlier try is still under way somewhere."""
        item = replace(self.item, logs=logs)
        if self.clocks is None:
            self.clocks = dict(self.feed_store.take_over())
        reached = self.reached
        if reached is not None and not self._changed and _may_stand_still(logs, reached, self.pause):
            return
        self._run(plan_events(item, self.clocks.get(EVENTS_PART), EVENTS_PART in self._changed))
        self._run(plan_parts(item, self.clocks, self._changed, self.slots))

    def _run(self, items: Sequence[FeedApplyItem]) -> None:
        clocks, self.clocks = self.clocks, None  # until all is done
        assert clocks is not None
        empty = [item for item in items if item.is_empty]
        items = [item for item in items if not item.is_empty]
        for item in empty:
            _move_only(self.feed_store, item)
            clocks |= dict.fromkeys(item.parts, item.upto)
        outcomes = self.runner.run(items) if items else []
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.value is None:
                raise ConnectError(f'feed "{item.feed}" cannot be brought forward: {outcome.error}')
            self._note(item, outcome.value)
            clocks |= dict.fromkeys(item.parts, item.upto)
        self.clocks = clocks

    def _note(self, item: FeedApplyItem, applied: FeedApplied) -> None:
        match applied.how:
            case HowApplied.DONE:
                self._changed -= set(item.parts)
            case HowApplied.CHANGED:
                self._changed |= set(item.parts)
                raise CopyChanged(applied.said, hint="the service fills it again")
            case HowApplied.FENCED:
                raise Fenced(applied.said)
            case HowApplied.CONFLICT:
                raise Conflict(applied.said)


def _move_only(feed_store: FeedStore, item: FeedApplyItem) -> None:
    """Moves clocks from here: that is no work."""
    assert item.after is not None
    if item.parts == (EVENTS_PART,):
        feed_store.apply_events(EVENT_CHANGES.empty_table(), item.after, item.upto)
    else:
        nothing = PartChanges(item.parts, PAIRS.empty_table(), STORED_CHANGES.empty_table())
        feed_store.apply(nothing, item.after, item.upto)


def _may_stand_still(logs: Sequence[Log], reached: int, pause: int) -> bool:
    """Whether nothing has happened since, and that is not long ago."""
    is_recent = 0 <= min(log.t for log in logs) - reached < pause and all(log.start <= reached for log in logs)
    return is_recent and _count_rows(logs, reached) == 1


def plan_events(item: FeedApplyItem, at: int | None, anew: bool) -> list[FeedApplyItem]:
    """What brings events to their log: they come first, since no part may be ahead of them."""
    newest = item.logs[0]
    step = NextStep.START if anew else choose_step(at, (newest,), newest.t)
    if step is NextStep.NOTHING:
        return []
    after = None if step is NextStep.START else at
    weight = _count_rows((newest,), after)
    return [replace(item, parts=(EVENTS_PART,), after=after, upto=newest.t, weight=weight)]


def plan_parts(
    item: FeedApplyItem, clocks: Mapping[int, int], changed: Collection[int], slots: int
) -> list[FeedApplyItem]:
    """What brings all parts to the time that their logs and events have reached; parts at one time go together.

    Parts that have to be started wait while a log no longer tells what it held at that time.
    """
    _, pairs, stored = item.logs
    upto = min(clocks.get(EVENTS_PART, NEVER), pairs.t, stored.t)
    together: dict[int | None, list[int]] = {}
    for part in range(PARTS):
        at = clocks.get(part)
        step = NextStep.START if part in changed else choose_step(at, (pairs, stored), upto)
        if step is not NextStep.NOTHING:
            together.setdefault(at if step is NextStep.APPLY else None, []).append(part)
    if not all(_tells(log, upto) for log in (pairs, stored)):
        together.pop(None, None)
    return [one for after, parts in together.items() for one in _share_parts(item, parts, after, upto, slots)]


def _tells(log: Log, t: int) -> bool:
    return log.t >= t and (log.base_t is None or log.base_t <= t)


def _share_parts(
    item: FeedApplyItem, parts: Sequence[int], after: int | None, upto: int, slots: int
) -> list[FeedApplyItem]:
    rows = _count_rows(item.logs[1:], after)
    shares = max(1, min(slots, int(rows // ROWS_AN_ITEM) + 1, len(parts)))
    cut = [tuple(parts[number::shares]) for number in range(shares)]
    return [replace(item, parts=some, after=after, upto=upto, weight=rows / shares) for some in cut]


def _count_rows(logs: Iterable[Log], after: int | None) -> float:
    """Rows to read, about."""
    return float(
        1
        + sum(
            piece.rows
            for log in logs
            for piece in (log.contents if after is None else log.changes(max(after, log.start), log.t))
        )
    )
