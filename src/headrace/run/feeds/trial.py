"""Measures what it takes to serve a feed, on its own store and through the code that serves it.

A trial is a feed of its own beside the real one, in the same store, whose people and events are made up. Windows of
known work are timed, in turns: steps of so many events and entries, and pages of so many producers that are stored
ahead and pulled. What else happens on the machine meets all kinds of windows alike, and counts little anyway: only this
thread and the sessions of the trial are counted, where that can be seen.

    quiet producers   are followed by readers: so many stored ahead, so many on read, by kind of reader; there are as
                      many as the feed has, with as many events, since fetching takes longer in large tables
    heard producers   post, and each is stored ahead for as many fans as follow one in the feed; there are so many that
                      they have as many pairs as the feed, since writing takes longer in large tables as well
    unheard ones      post, and nobody follows them

Nothing of the real feed is read or changed. A trial that was broken off is dropped by the next.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from random import Random

from headrace.model.errors import ConnectError
from headrace.model.expr import Column
from headrace.model.feed_prices import FeedShape, HowCounted
from headrace.model.log import Log, PieceKind
from headrace.model.relation import Field, Output
from headrace.model.types import BIGINT, BOOLEAN, INT, STRING, TIMESTAMP, Row, Type
from headrace.run.feeds.apply import FeedApplyItem, apply_item
from headrace.run.feeds.batch import EVENTS_PART, PARTS
from headrace.run.feeds.logs import FeedLog, FeedLogs
from headrace.run.feeds.page import SECOND, PageRules, make_page
from headrace.run.ports import FeedMeter, FeedReader, FeedStore, FeedTarget, Store
from headrace.run.rows.arrow import arrow_table
from headrace.run.rows.changes import ORDER, TIME, WEIGHT

FEWEST_QUIET, FEWEST_HEARD, UNHEARD = 70, 100, 100
HEARD_NAME, FEWEST_FANS, MOST_FANS = "heard", 6, 200
READERS = ((5, 0), (20, 0), (50, 0), (0, 5), (0, 20), (0, 50), (20, 20), (10, 50))
"""Kinds of readers: producers that are stored ahead for them, and that are pulled."""
READERS_OF_A_KIND = 20
"""Each reads once in a round, and follows others: who reads again at once finds everything in the nearest cache."""
STEPS = ((0, 10), (0, 100), (120, 0), (600, 0), (600, 100), (300, 50))
"""Kinds of steps: entries that heard producers bring, about, and unheard producers that post."""
DEEPEST = 20
"""Events of a producer that posts, at most."""
MOST_EVENTS, MOST_STORED = 200_000, 20_000
"""Events of quiet producers, and pairs of heard ones, so that a trial is filled in seconds."""
ROUNDS = 8
WITHIN_S = 60.0
BEGIN = 1_000_000 * SECOND
SITE = "trial"
_EPOCH = dt.datetime(1970, 1, 1)
BODY = json.dumps({"text": "so many words as somebody says at a time, more or less, when there is something to tell"})

_NEWEST = {"producer": STRING, "time": TIMESTAMP, "id": STRING, "body": STRING}
_PAIRS = {"consumer": STRING, "producer": STRING, "ahead": BOOLEAN}
_STORED = {"consumer": STRING, "producer": STRING, "time": TIMESTAMP, "id": STRING}


@dataclass(frozen=True, slots=True)
class TrialWindow:
    """What was done, and the seconds that it took. Of the producers of all readers, `found` were stored ahead, and
    `pulls` were pulled, by `batches` of the reads.
    """

    seconds: float
    entries: int = 0
    events: int = 0
    steps: int = 0
    reads: int = 0
    found: int = 0
    pulls: int = 0
    batches: int = 0


@dataclass(frozen=True, slots=True)
class TrialResult:
    windows: tuple[TrialWindow, ...]
    counted: HowCounted
    seconds: float
    """Of all that was counted, what is not in a window included."""


def run_trial(
    target: FeedTarget, files: Store, rules: PageRules, shape: FeedShape, is_ended: Callable[[], bool]
) -> TrialResult:
    """Runs a trial in a store of its own beside others (`target`), and drops it. `files` takes the logs of the trial.
    It has the shape of a feed, as far as it can be filled in seconds.

    Raises `ConnectError` if the store is away, if that takes longer than a minute, or if somebody ends it.
    """
    with ExitStack() as stack:
        feed_store = stack.enter_context(closing(target.open_store(1)))
        reader = stack.enter_context(closing(target.open_reader()))
        feed_store.drop()
        stack.callback(_drop, feed_store)
        trial = FeedTrial(target, feed_store, reader, files, rules, fit_shape(shape, rules.shown))
        trial.fill()
        deadline = time.monotonic() + WITHIN_S
        for _ in trial.run_round(Random(0), _CountNothing()):  # opens sessions, and warms them up
            _check_time(deadline, is_ended)
        meter = target.open_meter()
        if meter is not None:
            stack.enter_context(closing(meter))
        counter = _CountElapsed() if meter is None else _CountProcessor(meter)
        before, found = counter.read(), list[TrialWindow]()
        for number in range(ROUNDS):
            for window in trial.run_round(Random(number), counter):
                found.append(window)
                _check_time(deadline, is_ended)
        how = HowCounted.ELAPSED if meter is None else HowCounted.PROCESSOR
        return TrialResult(tuple(found), how, counter.read() - before)


def fit_shape(shape: FeedShape, shown: int) -> FeedShape:
    """The shape of a trial: that of its feed, with fewer events of each producer, but as many as pages show, and then
    fewer producers, if those were too many events.
    """
    producers = max(FEWEST_QUIET, shape.producers)
    depth = max(1, min(shape.depth, max(shown, MOST_EVENTS // producers)))
    return replace(shape, depth=depth, producers=max(FEWEST_QUIET, min(producers, MOST_EVENTS // depth)))


def _drop(feed_store: FeedStore) -> None:
    with suppress(ConnectError):  # the next trial drops it
        feed_store.drop()


def _check_time(deadline: float, is_ended: Callable[[], bool]) -> None:
    if is_ended():
        raise ConnectError("the calibration was ended")
    if time.monotonic() > deadline:
        hint = "it is tried again when the machine and the store are less busy"
        raise ConnectError(f"the calibration did not end within {WITHIN_S:g} s", hint)


# What is counted


class _CountNothing:
    def read(self) -> float:
        return 0.0


class _CountElapsed:
    """What the store does cannot be seen: the time that it takes to answer stands for it."""

    def read(self) -> float:
        return time.perf_counter()


@dataclass(frozen=True, slots=True)
class _CountProcessor:
    """This thread, and what the store does for it."""

    meter: FeedMeter

    def read(self) -> float:
        return time.thread_time() + self.meter.read_seconds()


_Counter = _CountNothing | _CountElapsed | _CountProcessor


# What is done


@dataclass(slots=True)
class _TrialLog:
    """A log of the trial, as the engine would leave it."""

    name: str
    types: dict[str, Type]
    files: Store
    log: Log = field(init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.name, SITE, BEGIN, BEGIN)

    @property
    def reading(self) -> FeedLog:
        fields = tuple(Field(f"v.{name}", type_) for name, type_ in self.types.items())
        outputs = tuple(Output(name, Column(f"v.{name}", type_)) for name, type_ in self.types.items())
        return FeedLog(self.name, fields, outputs)

    def add(self, rows: Sequence[tuple[Row, int]], t: int) -> None:
        """Rows that come (1) or go (-1) at a time."""
        if rows:
            columns = {one.name: one.type for one in self.reading.columns}
            stamped = [(*row, t, 0, weight) for row, weight in rows]
            table = arrow_table({**columns, TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}, stamped)
            file = self.files.write(SITE, table, self.name, durable=False)
            piece = file.as_piece(PieceKind.CHANGE, self.log.t, t, table.num_rows)
            self.log = replace(self.log, pieces=(*self.log.pieces, piece))
        self.log = replace(self.log, t=t)

    def forget(self) -> None:
        """Earlier changes are not needed any more."""
        for piece in self.log.pieces:
            self.files.delete(SITE, piece.file)
        self.log = replace(self.log, start=self.log.t, pieces=())


@dataclass(slots=True)
class FeedTrial:
    """Its people, its events, and what brings them to the store. Quiet producers have the shape of the feed."""

    target: FeedTarget
    feed_store: FeedStore
    reader: FeedReader
    files: Store
    rules: PageRules
    shape: FeedShape
    _t: int = BEGIN
    _posted: int = 0
    _events: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Time and id of what each producer has posted, oldest first."""
    _logs: tuple[_TrialLog, _TrialLog, _TrialLog] = field(init=False)
    _fans: dict[str, tuple[str, ...]] = field(init=False)
    """Those of each heard producer."""

    def __post_init__(self) -> None:
        self._fans = _choose_fans(self.shape)
        kinds = (("newest", _NEWEST), ("pairs", _PAIRS), ("stored", _STORED))
        newest, pairs, stored = (_TrialLog(name, dict(types), self.files) for name, types in kinds)
        self._logs = newest, pairs, stored

    def fill(self) -> None:
        """Everybody follows, and has posted, when the store is filled for the first time."""
        newest, pairs, stored = self._logs
        self._t += SECOND
        quiet, shown = self.shape.producers, self.rules.shown
        posting = [*self._fans, *_name_unheard(UNHEARD)]
        few = min(self.shape.depth, shown, DEEPEST)
        who = [*_name_quiet(quiet) * self.shape.depth, *posting * few]
        new = [(producer, *self._post(producer)) for producer in who]
        fans = ((fan, producer, True) for producer, fans in self._fans.items() for fan in fans)
        followed = [*_pairs_of_readers(quiet), *fans]
        newest.add([(_event_row(*one), 1) for one in new], self._t)
        pairs.add([(pair, 1) for pair in followed], self._t)
        ahead = [pair[:2] for pair in followed if pair[2]]
        held = [(fan, producer, *event) for fan, producer in ahead for event in self._events[producer][-shown:]]
        stored.add([(_entry_row(*one), 1) for one in held], self._t)
        self.feed_store.take_over()
        apply_item(self._item((EVENTS_PART,), None), self.feed_store)
        apply_item(self._item(tuple(range(PARTS)), None), self.feed_store)
        self._forget()

    def run_round(self, random: Random, counter: _Counter) -> Iterator[TrialWindow]:
        """One window of each kind, in an order of its own."""
        windows: list[Callable[[], TrialWindow]] = [
            *(
                lambda entries=entries, unheard=unheard: self._step(entries, unheard, random, counter)
                for entries, unheard in STEPS
            ),
            *(lambda kind=kind: self._read(kind, counter) for kind in range(len(READERS))),
        ]
        random.shuffle(windows)
        for window in windows:
            yield window()

    def _step(self, wanted: int, unheard: int, random: Random, counter: _Counter) -> TrialWindow:
        """Some producers post, and the store is brought forward: events first, then all parts."""
        newest, pairs, stored = self._logs
        after, self._t = self._t, self._t + SECOND
        chosen = self._choose_heard(wanted, random), random.sample(_name_unheard(UNHEARD), unheard)
        changes, entries = list[tuple[Row, int]](), list[tuple[Row, int]]()
        for producer in (*chosen[0], *chosen[1]):
            gone, new = self._events[producer].pop(0), self._post(producer)
            changes += [(_event_row(producer, *new), 1), (_event_row(producer, *gone), -1)]
            fans = self._fans.get(producer, ())
            entries += [(_entry_row(fan, producer, *at), way) for fan in fans for at, way in ((new, 1), (gone, -1))]
        for log, rows in ((newest, changes), (pairs, []), (stored, entries)):
            log.add(rows, self._t)
        items = self._item((EVENTS_PART,), after), self._item(tuple(range(PARTS)), after)
        before = counter.read()
        for item in items:
            apply_item(item, self.feed_store)
        took_s = counter.read() - before
        self._forget()
        return TrialWindow(took_s, entries=len(entries) // 2, events=len(changes) // 2, steps=1)

    def _choose_heard(self, entries: int, random: Random) -> list[str]:
        """Heard producers who bring about so many entries together."""
        heard = list(self._fans)
        return random.sample(heard, min(len(heard), math.ceil(entries / len(self._fans[heard[0]]))))

    def _read(self, kind: int, counter: _Counter) -> TrialWindow:
        """Readers of one kind read pages."""
        stored, pulled = READERS[kind]
        readers = _name_readers(kind)
        before = counter.read()
        for reader in readers:
            read = self.reader.read_page(reader, self.rules)
            if read is None:
                raise ConnectError("the trial of the calibration is gone from the store")
            make_page(self.rules, read, None)
        took_s = counter.read() - before
        reads = len(readers)
        batches = reads if pulled else 0
        return TrialWindow(took_s, reads=reads, found=reads * stored, pulls=reads * pulled, batches=batches)

    def _item(self, parts: tuple[int, ...], after: int | None) -> FeedApplyItem:
        newest, pairs, stored = (log.reading for log in self._logs)
        reading = FeedLogs(newest, pairs, stored, "producer", "time", "id", "body")
        logs = self._logs[0].log, self._logs[1].log, self._logs[2].log
        return FeedApplyItem("trial", reading, self.target, self.files, 1, logs, parts, after, self._t)

    def _post(self, producer: str) -> tuple[int, str]:
        self._posted += 1
        place = self._t + self._posted, f"{self._posted:012d}"
        self._events.setdefault(producer, []).append(place)
        return place

    def _forget(self) -> None:
        for log in self._logs:
            log.forget()


# Who there is


def _name_quiet(count: int) -> list[str]:
    return [f"quiet{number}" for number in range(count)]


def _name_unheard(count: int) -> list[str]:
    return [f"unheard{number}" for number in range(count)]


def _choose_fans(shape: FeedShape) -> dict[str, tuple[str, ...]]:
    """Heard producers, each with as many fans as a producer of the feed has followers. Fans follow several of them, as
    people do: so a step that brings many entries brings some of them to the same fan.
    """
    of_each = min(max(FEWEST_FANS, round(shape.followers)), MOST_FANS)
    heard = max(FEWEST_HEARD, min(shape.pairs, MOST_STORED) // of_each)
    fans = max(of_each, heard * of_each // max(FEWEST_FANS, round(shape.follows)))
    return {
        f"{HEARD_NAME}{number}": tuple(f"fan{fan}" for fan in Random(number).sample(range(fans), of_each))
        for number in range(heard)
    }


def _name_readers(kind: int) -> list[str]:
    return [f"reader{number} of kind {kind}" for number in range(READERS_OF_A_KIND)]


def _pairs_of_readers(quiet: int) -> Iterator[tuple[str, str, bool]]:
    random, producers = Random(0), _name_quiet(quiet)
    for kind, (stored, pulled) in enumerate(READERS):
        for reader in _name_readers(kind):
            followed = random.sample(producers, stored + pulled)
            yield from ((reader, producer, place < stored) for place, producer in enumerate(followed))


def _event_row(producer: str, at: int, id_: str) -> Row:
    return producer, _moment(at), id_, BODY


def _entry_row(consumer: str, producer: str, at: int, id_: str) -> Row:
    return consumer, producer, _moment(at), id_


def _moment(micros: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=micros)
