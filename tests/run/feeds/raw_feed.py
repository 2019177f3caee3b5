"""A feed by its definition: all events of those whom a consumer follows, sorted. Nothing is stored."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from headrace.run.feeds.page import SECOND, FeedPlace, PageEntry, PageRules, Place

NOW = 1_000 * SECOND
PRODUCERS = ("alice", "bob", "chad", "zoë")


def newest_first(events: Iterable[PageEntry]) -> list[PageEntry]:
    return sorted(events, key=lambda entry: entry.feed_place, reverse=True)


def first_of_each(events: Iterable[PageEntry], most: int) -> list[PageEntry]:
    """Q2 of Feeding Frenzy: the most recent of every producer."""
    counts = Counter[str]()
    found = []
    for entry in newest_first(events):
        counts[entry.producer] += 1
        if counts[entry.producer] <= most:
            found.append(entry)
    return found


def is_diverse(page: Sequence[PageEntry], events: Iterable[PageEntry], more_than: int, within_s: float) -> bool:
    """k,t-diversity as section 2.2.1 of Feeding Frenzy defines it."""
    count = Counter(entry.producer for entry in page)
    candidates = Counter(entry.producer for entry in events if NOW - entry.time <= within_s * SECOND)
    return all(
        count[j] <= more_than for i in PRODUCERS if candidates[i] > 0 and count[i] == 0 for j in PRODUCERS if j != i
    )


def has_gaps(page: Iterable[PageEntry], events: Iterable[PageEntry]) -> bool:
    """Whether an entry is shown and a newer one of its producer is not."""
    shown = set(page)
    return any(
        other.producer == entry.producer and other.place > entry.place and other not in shown
        for entry in shown
        for other in events
    )


def best_page(rules: PageRules, events: Sequence[PageEntry]) -> list[PageEntry]:
    """Of all pages that keep the rules, the one that comes first: newest entries first, as many as there can be."""
    ordered = newest_first(events)
    most = rules.limit if rules.per_producer is None else rules.per_producer
    for size in range(min(rules.limit, len(ordered)), -1, -1):
        for chosen in itertools.combinations(ordered, size):  # in the order of their first entries
            capped = max(Counter(entry.producer for entry in chosen).values(), default=0) <= most
            diverse = rules.more_than is None or is_diverse(chosen, events, rules.more_than, rules.within_s)
            if capped and diverse and not has_gaps(chosen, events):
                return list(chosen)
    raise AssertionError("an empty page keeps all rules")


def best_ranked_page(rules: PageRules, events: Sequence[PageEntry]) -> list[PageEntry]:
    """Takes, again and again, the producer's next entry that ranks first; shows those of the pool by rank."""
    assert rules.rank is not None and rules.pool is not None

    def rank_entry(entry: PageEntry) -> tuple[float, FeedPlace]:
        assert rules.rank is not None
        rank = rules.rank(entry, (NOW - entry.time) / SECOND)
        return (float("-inf") if rank is None else rank), entry.feed_place

    eligible = first_of_each(events, rules.per_producer or len(events) + 1)
    size = max(rules.pool, rules.limit)
    pool, taken = eligible[:size], list[PageEntry]()
    while len(taken) < rules.limit and len(taken) < len(pool):
        heads = [
            min(
                (e for e in pool if e.producer == producer and e not in taken),
                key=lambda e: pool.index(e),
                default=None,
            )
            for producer in PRODUCERS
        ]
        taken.append(max((head for head in heads if head is not None), key=rank_entry))
    return sorted(taken, key=rank_entry, reverse=True)


@st.composite
def raw_events(draw: st.DrawFn, largest: int = 12) -> list[PageEntry]:
    """Few times, so that many are equal; no id twice of one producer."""
    keys = st.tuples(st.sampled_from(PRODUCERS), st.sampled_from("abcdefgh"))
    few = draw(st.sampled_from([0, largest // 2]))
    made = draw(st.lists(keys, unique=True, min_size=few, max_size=largest))
    seconds, likes = st.integers(NOW // SECOND - 20, NOW // SECOND), st.integers(0, 3)
    return [PageEntry(who, draw(seconds) * SECOND, id_, {"likes": draw(likes)}) for who, id_ in made]


def rank_by_likes(entry: PageEntry, age_s: float) -> float | None:
    likes: int = entry.body["likes"]
    return None if likes == 0 else likes - age_s / 10


def page_rules(ranked: bool = False, diverse: bool | None = None, most: int = 6) -> st.SearchStrategy[PageRules]:
    caps = st.none() | st.integers(1, 4)
    k = st.none() if diverse is False else st.integers(1, 3) if diverse else st.none() | st.integers(1, 3)
    return st.builds(
        PageRules,
        limit=st.integers(1, most),
        per_producer=caps,
        more_than=k,
        within_s=st.integers(0, 20).map(float),
        pool=st.integers(1, 8) if ranked else st.none(),
        rank=st.just(rank_by_likes) if ranked else st.none(),
    )


def last_places(pages: Iterable[Iterable[PageEntry]]) -> Mapping[str, Place]:
    """The oldest entry of each producer that was shown."""
    found: dict[str, Place] = {}
    for page in pages:
        for entry in page:
            found[entry.producer] = min(entry.place, found.get(entry.producer, entry.place))
    return found
