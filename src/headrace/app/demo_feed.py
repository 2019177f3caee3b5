"""The feed of the demo: people read it while the apps write, and in the end pages are compared with the databases."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.model.errors import ConnectError, UnknownName

FEED = "home"
GUEST_READER = "anna10"
"""Somebody who follows the author of the post that visitors are asked to write."""

READS_S = 5.0
SHOWN_WITHIN_S = 20.0
"""Within this time pages show what the apps wrote last; the feed promises less."""

PAGES_COMPARED = 25

ReadPage = Callable[[str], Mapping[str, Any]]
"""A page of somebody's feed, as HTTP answers it."""

FindNewest = Callable[[str, int], list[int]]
"""The newest posts, so many, of everybody whom somebody follows, as the databases say."""


@dataclass(frozen=True, slots=True)
class FeedResult:
    """What became of the feed: pages that people read, how far behind the oldest of them was, and how many of those
    that were compared differ from what the databases say.
    """

    freshness_s: float
    pages: int
    worst_lag_s: float
    compared: int
    different: tuple[str, ...]
    pairs: int
    stored_ahead: int
    p95_ms: float | None


@dataclass(slots=True)
class DemoReaders:
    """People who read their pages at irregular times, some much more often than others, until they are told to end."""

    people: Sequence[str]
    read: ReadPage
    pages: int = 0
    worst_lag_s: float = 0.0
    end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        chance = random.Random(1)
        while not self.end.wait(chance.expovariate(READS_S)):
            who = self.people[int(len(self.people) * chance.random() ** 3)]
            try:
                page = self.read(who)
            except (ConnectError, UnknownName):
                continue  # it is being filled: that is told elsewhere
            self.pages += 1
            self.worst_lag_s = max(self.worst_lag_s, page["lag_s"])


def compare_pages(people: Sequence[str], read: ReadPage, find_newest: FindNewest, limit: int) -> tuple[str, ...]:
    """Whose pages differ from what the databases say, although nobody writes any more and the feed had time."""
    until = time.monotonic() + SHOWN_WITHIN_S
    different = tuple(people)
    while different and time.monotonic() < until:
        different = tuple(who for who in different if _read_ids(read, who) != find_newest(who, limit))
        time.sleep(0.1 if different else 0.0)
    return different


def choose_people(people: Sequence[str]) -> tuple[str, ...]:
    """Whose pages are compared: the one that visitors are told to read, and some others."""
    return (GUEST_READER, *random.Random(2).sample(people, PAGES_COMPARED - 1))


def _read_ids(read: ReadPage, who: str) -> list[int] | None:
    try:
        return [int(entry["id"]) for entry in read(who)["entries"]]
    except ConnectError:
        return None
