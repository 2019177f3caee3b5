"""A page is what the paper's queries say, by brute force; turning pages shows every event once."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.doors.api.feed_table import LONGEST_CURSOR
from headrace.run.feeds.cursor import WrongCursor, read_cursor, write_cursor
from headrace.run.feeds.enough import find_floor
from headrace.run.feeds.page import (
    HIGHEST,
    SECOND,
    FeedPlace,
    FeedRead,
    PageCursor,
    PageEntry,
    PageRules,
    count_unread,
    make_page,
)
from headrace.run.feeds.signed import write_signed
from tests.run.feeds.raw_feed import (
    NOW,
    PRODUCERS,
    best_page,
    best_ranked_page,
    first_of_each,
    has_gaps,
    is_diverse,
    last_places,
    newest_first,
    page_rules,
    rank_by_likes,
    raw_events,
)

KEY = b"a key of this test"


def first_page(rules: PageRules, events: list[PageEntry]) -> list[PageEntry]:
    return list(make_page(rules, FeedRead(NOW, tuple(events))).entries)


def paper_event(number: int, producer: str) -> PageEntry:
    """An event of the example of section 2.2: e0 at 1:55 and so on, one a minute; it is 2:02."""
    return PageEntry(producer, NOW - (7 - number) * 60 * SECOND, f"e{number}", {})


ALICE_BOB_CHAD = [paper_event(n, p) for n, p in enumerate(("Alice", "Bob", "Alice", "Chad", "Alice", "Alice", "Alice"))]


def test_the_papers_feed_is_diverse_instead_of_all_alice():
    plain, diverse = PageRules(limit=5), PageRules(limit=5, more_than=1, within_s=600)
    assert [entry.id for entry in first_page(plain, ALICE_BOB_CHAD)] == ["e6", "e5", "e4", "e3", "e2"]
    assert [entry.id for entry in first_page(diverse, ALICE_BOB_CHAD)] == ["e6", "e5", "e4", "e3", "e1"]


@pytest.mark.parametrize(("within_s", "last"), [(359, "e2"), (360, "e1")])
def test_a_producer_need_be_shown_only_if_its_newest_event_is_no_older_than_said(within_s, last):
    rules = PageRules(limit=5, more_than=1, within_s=within_s)
    assert [entry.id for entry in first_page(rules, ALICE_BOB_CHAD)] == ["e6", "e5", "e4", "e3", last]


@given(events=raw_events(largest=24), limit=st.integers(1, 12))
def test_a_page_of_global_coherency_is_the_most_recent_of_all_events(events, limit):
    assert first_page(PageRules(limit), events) == newest_first(events)[:limit]


@given(events=raw_events(largest=24), limit=st.integers(1, 12), most=st.integers(1, 5))
def test_a_page_of_per_producer_coherency_is_the_most_recent_of_the_most_recent_of_each(events, limit, most):
    assert first_page(PageRules(limit, per_producer=most), events) == first_of_each(events, most)[:limit]


@given(events=raw_events(largest=9), rules=page_rules(diverse=True, most=5))
def test_a_diverse_page_is_the_newest_of_all_that_keep_the_rules(events, rules):
    assert first_page(rules, events) == best_page(rules, events)


@given(events=raw_events(largest=16), rules=page_rules(ranked=True, diverse=False))
def test_a_ranked_page_takes_the_best_of_the_pool_without_gaps(events, rules):
    page = first_page(rules, events)
    assert page == best_ranked_page(rules, events)
    assert not has_gaps(page, first_of_each(events, rules.per_producer or 99))


def test_ranks_order_a_page_and_equal_ones_go_by_time():
    events = [PageEntry("p", NOW - age * SECOND, str(age), {"likes": likes}) for age, likes in ((1, 1), (2, 3), (3, 3))]
    rules = PageRules(3, pool=3, rank=lambda entry, _age: float(entry.body["likes"]))
    assert [entry.id for entry in first_page(rules, events)] == ["2", "3", "1"]


def test_an_entry_without_a_rank_comes_last():
    events = [PageEntry(who, NOW, who, {"likes": likes}) for who, likes in (("alice", 0), ("bob", 1))]
    assert [e.id for e in first_page(PageRules(2, pool=2, rank=rank_by_likes), events)] == ["bob", "alice"]


@given(events=raw_events(largest=20), rules=page_rules(ranked=True), data=st.data())
def test_turning_pages_shows_every_event_once_although_new_ones_arrive(events, rules, data):
    known = {(entry.producer, entry.id) for entry in events}
    there, pages, cursor = list(events), [], None
    for _ in range(2 * len(events) + 2):
        page = make_page(rules, FeedRead(NOW, tuple(there)), cursor)
        pages.append(page.entries)
        assert not has_gaps([entry for shown in pages for entry in shown if entry in events], events), (
            "an entry is shown before a newer one of its producer"
        )
        if page.next is None:
            break
        cursor = read_cursor(write_cursor(page.next, "home", "anna", KEY), "home", "anna", KEY)
        arriving = [e for e in data.draw(raw_events(largest=3)) if (e.producer, e.id + "'") not in known]
        known |= {(entry.producer, entry.id + "'") for entry in arriving}
        there += [PageEntry(e.producer, NOW + e.time // 50, e.id + "'", e.body) for e in arriving]
    shown = [entry for page in pages for entry in page]
    assert cursor is None or page.next is None
    assert Counter(shown) == Counter(events), "what has arrived since is not on later pages, and nothing is lost"


@given(events=raw_events(largest=16), rules=page_rules(most=4))
def test_every_later_page_keeps_the_rules_for_what_is_left(events, rules):
    pages, cursor, left = [], None, list(events)
    for _ in range(2 * len(events) + 2):
        page = make_page(rules, FeedRead(NOW, tuple(events)), cursor)
        assert list(page.entries) == best_page_of(rules, left)
        pages.append(page.entries)
        last, cursor = last_places(pages), page.next
        left = [e for e in events if e.producer not in last or e.place < last[e.producer]]
        if cursor is None:
            break
    assert not left


def best_page_of(rules: PageRules, events: list[PageEntry]) -> list[PageEntry]:
    """The definition by brute force where that is fast enough, else the rules one by one."""
    if rules.more_than is None:
        return first_of_each(events, rules.per_producer or 99)[: rules.limit]
    page = first_page(rules, events)
    assert is_diverse(page, events, rules.more_than, rules.within_s) and not has_gaps(page, events)
    return page


def test_an_event_is_shown_once_although_two_rows_say_it():
    events = [PageEntry("p", NOW, "a", {"v": 1}), PageEntry("p", NOW - 5, "a", {"v": 2})]
    assert [entry.body for entry in first_page(PageRules(5), events)] == [{"v": 1}]


def test_a_cursor_names_only_producers_who_have_more_above_where_the_page_ended():
    events = [PageEntry(f"p{n}", NOW - n, "x", {}) for n in range(100)]
    page = make_page(PageRules(20), FeedRead(NOW, tuple(events)))
    assert page.next == PageCursor(NOW, (NOW - 20, "x", "p20"), {})


@given(events=raw_events(largest=40), seen=st.tuples(st.integers(NOW - 20 * SECOND, NOW), st.sampled_from("abcd")))
def test_unread_entries_are_those_that_are_newer_than_the_last_seen(events, seen):
    assert count_unread(events, seen) == len([entry for entry in events if (entry.time, entry.id) > seen])


def test_unread_entries_are_counted_up_to_99():
    assert count_unread([PageEntry("p", n, "x", {}) for n in range(1, 200)], (0, "")) == 99


@pytest.mark.parametrize("change", ["feed", "consumer", "key", "text", "nonsense"])
def test_a_cursor_of_somebody_else_or_a_changed_one_is_refused(change):
    below = {"bob": (3, "x", "bob"), "alice": HIGHEST, "chad": (4, "", "chad"), "zoë": (2, "ö", "bob")}
    given_out = PageCursor(NOW, (5, "é", PRODUCERS[3]), below, (1, "y", "bob"))
    text = write_cursor(given_out, "home", "anna", KEY)
    assert read_cursor(text, "home", "anna", KEY) == given_out
    changed = {"text": text[:-2] + ("AA" if text[-2:] != "AA" else "BB"), "nonsense": "%%%"}.get(change, text)
    with pytest.raises(WrongCursor, match="no cursor of this feed"):
        read_cursor(
            changed,
            "other" if change == "feed" else "home",
            "ben" if change == "consumer" else "anna",
            b"another" if change == "key" else KEY,
        )


@pytest.mark.parametrize("rules", [PageRules(20, pool=100, rank=rank_by_likes), PageRules(20, None, 2, 3600.0)])
def test_a_cursor_does_not_grow_with_every_page_that_is_turned(rules):
    """Some entries are left for last again and again, while thousands below them are shown."""
    random = Random(1)
    people = [str(uuid.UUID(int=random.getrandbits(128))) for _ in range(3_000)]
    busy = people[:4] if rules.rank is None else people[:80]
    often = 400 if rules.rank is None else 1
    events = [PageEntry(who, NOW - nth, f"{who}-{nth}", {"likes": 0}) for who in busy for nth in range(often)]
    events += [PageEntry(who, NOW - 1000 - nth, who, {"likes": 9}) for nth, who in enumerate(people[80:])]
    shown, longest, cursor = Counter[PageEntry](), 0, None
    for _ in range(len(events)):
        left = [entry for entry in events if cursor is None or cursor.admits(entry)]
        page = make_page(rules, FeedRead(NOW, tuple(left)), cursor)
        shown.update(page.entries)
        if page.next is None:
            break
        text = write_cursor(page.next, "home", "anna", KEY)
        cursor, longest = read_cursor(text, "home", "anna", KEY), max(longest, len(text))
        assert cursor == page.next
        assert len(cursor.below) <= max(rules.limit, rules.pool or 0) + 2 * rules.limit
    assert shown == Counter(events)
    assert longest < LONGEST_CURSOR / 5


@given(events=raw_events(largest=30), rules=page_rules(most=5), ranked=page_rules(ranked=True, most=5), data=st.data())
def test_later_pages_are_those_of_who_remembers_all_that_was_shown(events, rules, ranked, data):
    """A cursor says as little as it can. Somebody with a list of all places gets the same pages."""
    rules = data.draw(st.sampled_from([rules, ranked]))
    cursor, last = None, dict[str, FeedPlace]()
    for _ in range(2 * len(events) + 2):
        page = make_page(rules, FeedRead(NOW, tuple(events)), cursor)
        remembered = PageCursor(NOW, HIGHEST, dict(last))
        assert page.entries == make_page(rules, FeedRead(NOW, tuple(events)), remembered if last else None).entries
        for one in page.entries:
            last[one.producer] = min(one.feed_place, last.get(one.producer, HIGHEST))
        cursor = page.next
        if cursor is None:
            break
        cursor = read_cursor(write_cursor(cursor, "home", "anna", KEY), "home", "anna", KEY)
    assert cursor is None


def test_a_cursor_of_an_earlier_version_goes_on():
    said = json.dumps([NOW, [9, "é", "zoë"], {"bob": [3, "x"]}], ensure_ascii=False).encode()
    text = write_signed(said, ("cursor", "home", "anna"), KEY)
    assert read_cursor(text, "home", "anna", KEY) == PageCursor(NOW, (9, "é", "zoë"), {"bob": (3, "x", "bob")})


@given(events=raw_events(largest=20), rules=page_rules(), later=st.booleans(), data=st.data())
def test_nothing_below_the_floor_changes_a_page_or_where_it_ends(events, rules, later, data):
    cursor = make_page(rules, FeedRead(NOW, tuple(events))).next if later else None
    read = FeedRead(NOW, tuple(events))
    floor = find_floor(rules, read, cursor)
    if floor is not None:
        below = [replace(e, id=e.id + "'") for e in data.draw(raw_events(largest=6)) if (e.time, e.id + "'") < floor]
        assert make_page(rules, FeedRead(NOW, (*events, *below)), cursor) == make_page(rules, read, cursor)
        above = tuple(entry for entry in events if entry.place >= floor)
        assert make_page(rules, FeedRead(NOW, above), cursor).entries == make_page(rules, read, cursor).entries


@given(events=raw_events(largest=20), rules=page_rules(ranked=False), cut=st.integers(0, 30), data=st.data())
def test_a_page_that_is_cut_shows_nothing_wrong_and_its_cursor_loses_nothing(events, rules, cut, data):
    """What is below the cut becomes known later: then the pages are those that would have been without a cut."""
    place = (NOW - cut * SECOND, "c")
    known = tuple(entry for entry in events if entry.place >= place)
    pages, cursor = [], None
    for _ in range(3):
        page = make_page(rules, FeedRead(NOW, known, cut=place), cursor)
        whole = make_page(rules, FeedRead(NOW, tuple(events)), cursor)
        assert page.entries == whole.entries[: len(page.entries)]
        assert page.next is not None
        pages.append(page.entries)
        cursor = page.next
    for _ in range(2 * len(events) + 2):
        page = make_page(rules, FeedRead(NOW, tuple(events)), cursor)
        pages.append(page.entries)
        cursor = page.next
        if cursor is None:
            break
    assert Counter(entry for page in pages for entry in page) == Counter(events)


def test_events_without_ids_are_told_apart_by_their_times():
    events = [PageEntry("p", NOW - age, "", {"age": age}) for age in range(3)]
    assert [entry.body["age"] for entry in first_page(PageRules(5), events)] == [0, 1, 2]
