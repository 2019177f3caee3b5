"""Simulated links: between sites of one machine, transfers take as long as the declared bandwidth and latency say.

    a link     sends one transfer after the other at its bandwidth; each arrives a latency after it was sent
    a push     whose changes come from another site is a transfer: it starts when what it reads is there
    a load     is sent in slices, so that pushes over the same links wait for no more than one

Items run as usual. Their runner gets the outcomes when the last transfer would have arrived, and each outcome includes
the time of its transfer. No worker waits in the meantime. Transfers are pushed beside everything else
(`Engine.transfers`), so that only those wait for a link who need what comes over it.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.model.catalogue import Link as DeclaredLink
from headrace.run.load.load_work import Loaded
from headrace.run.ports import Runner
from headrace.run.push.chains import ChainItem, ChainOutcome
from headrace.run.push.items import Item, ItemOutcome
from headrace.run.push.work import Produced, WorkItem, count_sent_bytes

Ends = tuple[str, str]
"""(from, to)"""


SLICE_S = 0.25
"""How long a link sends one slice of what is loaded."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A push of a job. `reads` are others of the same job that come before it; `ends` is None if nothing is sent."""

    reads: tuple[int, ...]
    ends: Ends | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class LinkQueue:
    """What is on its way over a link: bytes that are not sent yet, and seconds until the last of it arrives."""

    waiting_bytes: int
    arrives_s: float


@dataclass(frozen=True, slots=True)
class PushTimes:
    """When a push may start and when what it makes is there, seconds."""

    ready: float
    arrived: float

    @property
    def took(self) -> float:
        return self.arrived - self.ready


def schedule(
    transfers: Sequence[Transfer], now: float, free_at: Mapping[Ends, float], links: Mapping[Ends, DeclaredLink]
) -> tuple[list[PushTimes], dict[Ends, float]]:
    """Times of transfers that are ready now or after each other, and until when links are busy with them.

    What is ready first is sent first. A link that nobody declared sends at once.
    """
    busy, found = dict(free_at), dict[int, PushTimes]()
    waiting = {number: set(transfer.reads) for number, transfer in enumerate(transfers)}
    queue = [(now, number) for number, reads in waiting.items() if not reads]
    heapq.heapify(queue)
    while queue:
        ready, number = heapq.heappop(queue)
        found[number] = PushTimes(ready, _arrival(transfers[number], ready, busy, links))
        for other, reads in waiting.items():
            if number in reads:
                reads.discard(number)
                if not reads:
                    heapq.heappush(queue, (max(found[one].arrived for one in transfers[other].reads), other))
    return [found[number] for number in range(len(transfers))], busy


def _arrival(transfer: Transfer, ready: float, busy: dict[Ends, float], links: Mapping[Ends, DeclaredLink]) -> float:
    """Also notes that the link is busy until all is sent."""
    if transfer.ends is None or transfer.ends not in links:
        return ready
    link = links[transfer.ends]
    sent = max(ready, busy.get(transfer.ends, ready)) + (transfer.size / link.bandwidth if link.bandwidth else 0.0)
    busy[transfer.ends] = sent
    return sent + link.latency_s


@dataclass(slots=True)
class SimulatedLinksRunner:
    """Runs items by another runner; `links` are those that are declared now. May be used by several threads at once."""

    runner: Runner[Any]
    links: Callable[[], Iterable[DeclaredLink]]
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], object] = time.sleep
    _free_at: dict[Ends, float] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _waits: dict[int, PushTimes] = field(default_factory=dict)
    """From when to when somebody waits for links, as far as is known; by an id of that."""
    _sent: dict[int, tuple[Transfer, ...]] = field(default_factory=dict)
    """What they wait for; by the same ids."""

    def left_s(self) -> float:
        """How long somebody still has to wait for links, at most; 0 if nobody does. Waits for nobody."""
        return max((one.arrived - self.clock() for one in list(self._waits.values())), default=0.0)

    def allowed_s(self) -> float:
        """How long those wait for links who do so now, all in all: nobody is to blame for that. Waits for nobody."""
        return max((one.took for one in list(self._waits.values())), default=0.0)

    def queues(self) -> dict[Ends, LinkQueue]:
        """What is on its way now, by link. Waits for nobody."""
        links, now = self._links(), self.clock()
        waits, sizes, arrivals = dict(self._waits), dict[Ends, int](), dict[Ends, float]()
        for number, transfers in list(self._sent.items()):
            for ends, size in ((one.ends, one.size) for one in transfers):
                if ends is not None and ends in links and number in waits:
                    sizes[ends] = sizes.get(ends, 0) + size
                    arrivals[ends] = max(arrivals.get(ends, now), waits[number].arrived)
        found = {}
        for ends, arrival in arrivals.items():
            unsent = max(0.0, self._free_at.get(ends, now) - now) * (links[ends].bandwidth or 0.0)
            found[ends] = LinkQueue(min(sizes[ends], round(unsent)), max(0.0, arrival - now))
        return found

    @contextmanager
    def _waiting_until(self, arrival: float, transfers: Iterable[Transfer]) -> Iterator[None]:
        waits = PushTimes(self.clock(), arrival)
        self._sent[id(waits)] = tuple(transfers)
        self._waits[id(waits)] = waits
        try:
            yield
        finally:
            del self._waits[id(waits)]
            del self._sent[id(waits)]

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        outcomes = [self._delay_loaded(outcome) for outcome in self.runner.run(items)]
        pushes = [list(_pushes(item, outcome)) for item, outcome in zip(items, outcomes, strict=True)]
        transfers = list(_transfers(pushes))
        if not any(transfer.ends for transfer in transfers):
            return outcomes
        links = self._links()
        with self._turn:
            times, self._free_at = schedule(transfers, self.clock(), self._free_at, links)
        arrival = max(one.arrived for one in times)
        with self._waiting_until(arrival, transfers):
            self.wait(max(0.0, arrival - self.clock()))
        took = iter(times)
        return [
            _delay_outcome(outcome, [next(took).took for _ in part])
            for outcome, part in zip(outcomes, pushes, strict=True)
        ]

    def _links(self) -> dict[Ends, DeclaredLink]:
        return {(link.src, link.dst): link for link in self.links()}

    def _delay_loaded(self, outcome: ItemOutcome[Any]) -> ItemOutcome[Any]:
        """When all that was loaded from other sites would have arrived."""
        if not isinstance(outcome.value, Loaded) or not outcome.value.sent:
            return outcome
        began, links = self.clock(), self._links()
        whole = [Transfer((), (sent.origin, sent.site), sent.bytes) for sent in outcome.value.sent]
        expected, _ = schedule(whole, began, self._free_at, links)
        with self._waiting_until(max(one.arrived for one in expected), whole):
            self._send_in_slices(whole, links)
        return _delay_outcome(outcome, [self.clock() - began])

    def _send_in_slices(self, left: Sequence[Transfer], links: Mapping[Ends, DeclaredLink]) -> None:
        arrival = 0.0
        while left:
            slices = [_slice(transfer, links) for transfer in left]
            with self._turn:
                times, self._free_at = schedule(slices, self.clock(), self._free_at, links)
                sent = max((self._free_at[one.ends] for one in slices if one.ends in self._free_at), default=0.0)
            arrival = max(arrival, *(one.arrived for one in times))
            left = [
                replace(whole, size=whole.size - part.size)
                for whole, part in zip(left, slices, strict=True)
                if whole.size > part.size
            ]
            self.wait(max(0.0, (sent if left else arrival) - self.clock()))


def _slice(transfer: Transfer, links: Mapping[Ends, DeclaredLink]) -> Transfer:
    """How many seconds of a transfer go at once."""
    link = links.get(transfer.ends) if transfer.ends is not None else None
    if link is None or not link.bandwidth:
        return transfer
    return replace(transfer, size=min(transfer.size, max(1, int(link.bandwidth * SLICE_S))))


def _pushes(item: Item, outcome: ItemOutcome[Any]) -> Iterator[tuple[WorkItem, Produced | None]]:
    """The pushes that an item consists of, and what they made."""
    if isinstance(item, WorkItem):
        yield item, outcome.value
    elif isinstance(item, ChainItem):
        outcomes: Sequence[ChainOutcome | None] = outcome.value or [None] * len(item.items)
        yield from ((one, part.produced if part else None) for one, part in zip(item.items, outcomes, strict=True))


def _transfers(pushes: Iterable[Sequence[tuple[WorkItem, Produced | None]]]) -> Iterator[Transfer]:
    """The transfers of all items of a job, numbered through."""
    first = 0
    for part in pushes:
        numbers = {item.name: first + number for number, (item, _) in enumerate(part)}
        for item, produced in part:
            reads = tuple(numbers[name] for name in item.task.reads if name in numbers)
            size = 0 if produced is None else count_sent_bytes(item, produced)
            yield Transfer(reads, (item.origin, item.log.site) if item.origin and size else None, size)
        first += len(part)


def _delay_outcome(outcome: ItemOutcome[Any], seconds: Sequence[float]) -> ItemOutcome[Any]:
    """Adds what the transfers took to an outcome."""
    value = outcome.value
    if isinstance(value, tuple):
        value = tuple(
            replace(part, seconds=part.seconds + more, waited_s=more) for part, more in zip(value, seconds, strict=True)
        )
    return replace(outcome, value=value, seconds=outcome.seconds + sum(seconds), waited_s=sum(seconds))
