"""Decides what a page of a feed shows, from the entries that a store has found, by the rules of the feed.

Entries are ordered by time, then id, then producer, and the newest come first. Whatever the rules are, a page takes a
producer's entries from the newest on that was not shown yet, without a gap.

    per producer   at most so many entries of one producer on a page
    diversity      no producer has more than k entries on a page until every producer with an event within the last t
                   seconds is on it (Feeding Frenzy, section 2.2.1: k,t-diversity)
    rank           the newest n entries, the pool, go by a number that is computed from each; larger ones come first

Of all pages that keep the rules it is the one whose entries come first in this order. With a rank, an entry is chosen
no earlier than newer ones of its producer; those that were chosen are shown by their own rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Place: TypeAlias = tuple[int, str]
"""Where an entry is among those of its producer: time in microseconds, and id."""

FeedPlace: TypeAlias = tuple[int, str, str]
"""Where an entry is among all: time in microseconds, id and producer."""

MOST_UNREAD = 99
"""Larger numbers of unread entries are not told apart."""

SECOND = 1_000_000
HIGHEST: FeedPlace = (2**63 - 1, "", "")
"""Above every entry."""
LOWEST: FeedPlace = (-(2**63), "", "")
"""Below every entry."""


@dataclass(frozen=True, slots=True)
class PageEntry:
    """An event of somebody whom the consumer follows. `is_stored` if it was stored ahead for the consumer.

    The body is JSON: an object with the event's other columns, or whatever an app has posted.
    """

    producer: str
    time: int
    id: str
    body: Any = field(compare=False)
    is_stored: bool = field(default=False, compare=False)

    @property
    def place(self) -> Place:
        return self.time, self.id

    @property
    def feed_place(self) -> FeedPlace:
        return self.time, self.id, self.producer


RankEntry: TypeAlias = Callable[[PageEntry, float], float | None]
"""An entry's rank, from the entry and its age in seconds; None comes last."""


@dataclass(frozen=True, slots=True)
class PageRules:
    """`more_than` and `within_s` are the k and t of diversity; `pool` is how many entries are ranked together."""

    limit: int
    per_producer: int | None = None
    more_than: int | None = None
    within_s: float = 0.0
    pool: int | None = None
    rank: RankEntry | None = None

    @property
    def shown(self) -> int:
        """The most entries of one producer that decide about a page."""
        among = self.limit if self.pool is None else max(self.limit, self.pool)
        return among if self.per_producer is None else min(among, self.per_producer)


@dataclass(frozen=True, slots=True)
class PageCursor:
    """Where a page ended. What comes next is not above `ceiling`, and of a producer below its place in `below`, or if
    it has none there, below `floor`; what is new since then is above.

    `as_of` is the time of the first page: entries do not age while somebody turns pages.
    """

    as_of: int
    ceiling: FeedPlace
    below: Mapping[str, FeedPlace]
    floor: FeedPlace | None = None

    def find_bound(self, producer: str) -> FeedPlace:
        """What was shown of a producer is not below this place, and all else is."""
        return self.below.get(producer, self.floor or HIGHEST)

    def admits(self, entry: PageEntry) -> bool:
        return entry.feed_place <= self.ceiling and entry.feed_place < self.find_bound(entry.producer)


@dataclass(frozen=True, slots=True)
class FeedRead:
    """What a store has found for a page: at least all entries that the rules can choose from, as of a time.

    An entry that is not found is older than as many as a page needs, or not among the first of its producer. With a
    `cut`, nothing is known of what comes before that place.
    """

    as_of: int
    entries: tuple[PageEntry, ...]
    cut: Place | None = None


@dataclass(frozen=True, slots=True)
class FeedPage:
    as_of: int
    entries: tuple[PageEntry, ...]
    next: PageCursor | None

    @property
    def stored(self) -> int:
        return sum(entry.is_stored for entry in self.entries)


def make_page(rules: PageRules, read: FeedRead, cursor: PageCursor | None = None) -> FeedPage:
    as_of = read.as_of if cursor is None else cursor.as_of
    if read.cut is not None and (rules.more_than is not None or rules.rank is not None):
        # What is not known might have to be on this page, or above all that is.
        return FeedPage(read.as_of, (), cursor or PageCursor(as_of, HIGHEST, {}))
    eligible = find_eligible(rules, read.entries, cursor)
    if read.cut is not None:
        eligible = tuple(entry for entry in eligible if entry.place >= read.cut)
    ranks = _rank_pool(rules, eligible, as_of)
    chosen = _choose(rules, _order_choices(eligible, ranks), as_of)
    shown = sorted(chosen, key=lambda entry: ranks.get(entry, LAST), reverse=True) if ranks else chosen
    left = () if read.cut is None else ((*read.cut, ""),)
    return FeedPage(read.as_of, tuple(shown), _end_page(rules, eligible, chosen, cursor, as_of, left))


def find_eligible(
    rules: PageRules, entries: Iterable[PageEntry], cursor: PageCursor | None = None
) -> tuple[PageEntry, ...]:
    """What a page may show, newest first: each event once, and of a producer no more than a page can need."""
    found: dict[tuple[str, str | int], PageEntry] = {}
    counts = Counter[str]()
    for entry in sorted(entries, key=lambda entry: entry.feed_place, reverse=True):
        key = entry.producer, entry.id or entry.time  # without ids, times tell events apart
        if key not in found and (cursor is None or cursor.admits(entry)) and counts[entry.producer] < rules.shown:
            found[key] = entry
            counts[entry.producer] += 1
    return tuple(found.values())


def count_unread(entries: Iterable[PageEntry], seen: Place) -> int:
    """How many entries are newer than the last one that was seen, up to a number that nobody counts beyond."""
    return min(MOST_UNREAD, sum(entry.place > seen for entry in entries))


_RankKey: TypeAlias = tuple[float, FeedPlace]
LAST: _RankKey = (float("-inf"), (0, "", ""))


def _rank_pool(rules: PageRules, eligible: Sequence[PageEntry], as_of: int) -> dict[PageEntry, _RankKey]:
    """Ranks by entry of the pool, equal ones by time; nothing if the feed goes by time alone."""
    if rules.rank is None:
        return {}
    ranks = {}
    for entry in eligible[: max(rules.pool or 0, rules.limit)]:
        rank = rules.rank(entry, (as_of - entry.time) / SECOND)
        ranks[entry] = (LAST[0] if rank is None or rank != rank else rank, entry.feed_place)
    return ranks


def _order_choices(eligible: Sequence[PageEntry], ranks: Mapping[PageEntry, _RankKey]) -> list[PageEntry]:
    """The pool, each time the best of those that are next of their producers, then the rest by time."""
    if not ranks:
        return list(eligible)
    waiting: dict[str, list[PageEntry]] = {}
    for entry in reversed(eligible):
        if entry in ranks:
            waiting.setdefault(entry.producer, []).append(entry)  # the newest is last
    ordered: list[PageEntry] = []
    heads = {producer: entries.pop() for producer, entries in waiting.items()}
    while heads:
        best = max(heads.values(), key=lambda entry: ranks[entry])
        ordered.append(best)
        if waiting[best.producer]:
            heads[best.producer] = waiting[best.producer].pop()
        else:
            del heads[best.producer]
    return [*ordered, *(entry for entry in eligible if entry not in ranks)]


def _choose(rules: PageRules, ordered: Sequence[PageEntry], as_of: int) -> list[PageEntry]:
    """The first entries that keep the rules, in their order.

    A page is diverse in one of two ways: nobody has more than k entries, or everybody with a recent event is on it. The
    best of either is easy to find, and the better of both is the page.
    """
    most = rules.limit if rules.per_producer is None else rules.per_producer
    if rules.more_than is None:
        return _fill(ordered, (), most, rules.limit)
    positions = {entry: position for position, entry in enumerate(ordered)}
    oldest = as_of - rules.within_s * SECOND
    heads: dict[str, PageEntry] = {}
    for entry in sorted(ordered, key=lambda entry: entry.feed_place, reverse=True):
        if entry.time >= oldest:
            heads.setdefault(entry.producer, entry)
    few_of_each = _fill(ordered, (), min(most, rules.more_than), rules.limit)
    if len(heads) > rules.limit:
        return few_of_each
    some_of_all = _fill(ordered, tuple(heads.values()), most, rules.limit)

    def rank_page(page: Sequence[PageEntry]) -> list[int]:
        return [positions[entry] for entry in page] + [len(positions)] * (rules.limit - len(page))

    return min(some_of_all, few_of_each, key=rank_page)


def _fill(ordered: Sequence[PageEntry], forced: Sequence[PageEntry], most: int, limit: int) -> list[PageEntry]:
    """`forced` entries and the first others, with at most so many of a producer, in their order."""
    taken, counts = set(forced), Counter(entry.producer for entry in forced)
    filled, room = [], limit - len(taken)
    for entry in ordered:
        if taken and entry in taken:
            filled.append(entry)
        elif room > 0 and counts[entry.producer] < most:
            filled.append(entry)
            counts[entry.producer] += 1
            room -= 1
    return filled


def _end_page(
    rules: PageRules,
    eligible: Sequence[PageEntry],
    chosen: Sequence[PageEntry],
    cursor: PageCursor | None,
    as_of: int,
    unknown: Sequence[FeedPlace],
) -> PageCursor | None:
    """Where the next page begins; None if there is nothing more. Somewhere below `unknown` places there may be some.

    All that is above the first entry that is still to be shown was shown, so that it need not be said of whom. A
    producer of whom as many are shown as were looked at may have more below.
    """
    taken, counts = set(chosen), Counter(entry.producer for entry in chosen)
    before = cursor or PageCursor(as_of, HIGHEST, {})
    bounds = dict(before.below)
    for entry in chosen:
        last = bounds.get(entry.producer, before.floor)
        bounds[entry.producer] = entry.feed_place if last is None else min(last, entry.feed_place)
    left = [*unknown, *(entry.feed_place for entry in eligible if entry not in taken)]
    left += [bounds[producer] for producer, count in counts.items() if count >= rules.shown]
    if not left:
        return None
    ceiling = min(max(left), before.ceiling)
    floor = None if before.floor is None or before.floor > ceiling else before.floor
    same = {one: place if place <= ceiling else HIGHEST for one, place in bounds.items()}
    if floor is None:
        same = {one: place for one, place in same.items() if place != HIGHEST}
    kept = PageCursor(as_of, ceiling, same, floor)
    known = max((_find_known(rules, eligible), *unknown))
    lowered = _lower_floor(rules, (eligible, taken), bounds, known, PageCursor(as_of, ceiling, {}, before.floor))
    return kept if lowered is None or len(kept.below) <= len(lowered.below) else lowered


def _lower_floor(
    rules: PageRules,
    found: tuple[Sequence[PageEntry], Set[PageEntry]],
    bounds: Mapping[str, FeedPlace],
    known: FeedPlace,
    before: PageCursor,
) -> PageCursor | None:
    """The cursor with a floor below most of what was shown; None if that has no use. What is above `known` was found:
    all eligible entries, and those of them that are on the page.

    It names those who have something above the floor that is still to be shown. They are no more than a page can choose
    from, however many were shown of: a cursor does not grow with every page that is turned.
    """
    eligible, taken = found
    shown = (*bounds.values(), before.floor or HIGHEST)
    floor = min(max(known, min(shown)), before.floor or HIGHEST)  # it never rises
    if not known <= floor <= before.ceiling:
        return None
    most = rules.shown if rules.more_than is None else min(rules.more_than, rules.shown)
    counts = Counter(entry.producer for entry in taken)
    below = {
        one: place if place <= before.ceiling else HIGHEST
        for one, place in bounds.items()
        if place < floor or counts[one] >= most
    }
    for entry in eligible:
        producer = entry.producer
        if entry.feed_place < floor:
            break
        if producer not in below and entry not in taken:
            bound = bounds.get(producer, before.floor or HIGHEST)
            if bound > before.ceiling:
                bound = HIGHEST
            elif entry.time < bound[0]:  # nothing of the same time is still to come, so the id need not be said
                bound = bound[0], "", producer
            below[producer] = bound
    return PageCursor(before.as_of, before.ceiling, below, floor)


def _find_known(rules: PageRules, eligible: Sequence[PageEntry]) -> FeedPlace:
    """Above this place, the first entries of everybody are known that a page can show of one producer."""
    some = eligible if rules.more_than is None else first_of_each(eligible, rules.more_than)
    enough = count_enough(rules)
    return some[enough - 1].feed_place if len(some) >= enough else LOWEST


def count_enough(rules: PageRules) -> int:
    """Newest entries that decide a page, and one more, which says where the next page begins."""
    return max(rules.limit, rules.pool or 0) + 1


def first_of_each(eligible: Sequence[PageEntry], most: int) -> list[PageEntry]:
    counts, found = Counter[str](), []
    for entry in eligible:
        counts[entry.producer] += 1
        if counts[entry.producer] <= most:
            found.append(entry)
    return found
