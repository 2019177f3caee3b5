"""What people have posted and whom they follow: what pages must show, worked out without a database.

Events come in the order of their times, as those of a benchmark do: nobody edits or deletes. That pages stay right then
too is what `headrace bench feeds --check` is for.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.plan.feeds.instance import Feeds

LIMIT = 10
"""Entries of a page."""
KEEP = 200
"""Events of a producer that a feed keeps, if its declaration does not say otherwise."""

Place = tuple[Any, str, str]
"""Time, id and producer: the order of a page."""


def name_pairs(feeds: Feeds) -> list[tuple[str, str]]:
    """All pairs as people are called here: consumers are c0, c1 and so on, producers p0, p1."""
    numbers = zip(feeds.consumer.tolist(), feeds.producer.tolist(), strict=True)
    return [(f"c{consumer}", f"p{producer}") for consumer, producer in numbers]


@dataclass
class Said:
    """`newest` has the newest events of each producer, the last one last."""

    follows: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    newest: dict[str, deque[Place]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=LIMIT)))
    counts: Counter[str] = field(default_factory=Counter)

    def follow(self, pairs: Iterable[tuple[str, str]]) -> None:
        for consumer, producer in pairs:
            self.follows[consumer].append(producer)

    def post(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Rows of producer, time, id and whatever comes after."""
        for producer, time, id_, *_ in rows:
            self.counts[producer] += 1
            self.newest[producer].append((time, id_, producer))

    @property
    def kept(self) -> int:
        """Events that can be read at all."""
        return sum(min(count, KEEP) for count in self.counts.values())

    def expect(self, consumer: str) -> list[tuple[str, str]]:
        """Producer and id of each entry of a page that is as of now."""
        followed = (self.newest[one] for one in self.follows.get(consumer, ()) if one in self.newest)
        found = heapq.nlargest(LIMIT, (place for places in followed for place in places))
        return [(producer, id_) for _, id_, producer in found]

    def is_right(self, consumer: str, page: Mapping[str, Any]) -> bool:
        """Whether a page that is as of now shows exactly this."""
        return [(entry["producer"], entry["id"]) for entry in page["entries"]] == self.expect(consumer)

    def may_be_right(self, consumer: str, page: Mapping[str, Any]) -> bool:
        """Whether a page that is as of some time can be right: in order, nothing twice, of those who are followed."""
        places = [(entry["time"], entry["id"], entry["producer"]) for entry in page["entries"]]
        ordered = all(first > then for first, then in itertools.pairwise(places))
        return ordered and {place[2] for place in places} <= set(self.follows.get(consumer, ()))
