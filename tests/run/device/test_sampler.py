"""What a sampler lets through, and when."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.device_messages import SendStream, Sent
from headrace.run.device.sampler import Sampler, rates_of

OFFERS = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 2)), min_size=1, max_size=30)


def play(sampler: Sampler, offers: list[tuple[int, int]]) -> list[tuple[int, Sent]]:
    """Offers after so many ms, each millisecond that something may be due is looked at; then time to settle."""
    now, found = 1_000_000, []
    for number, (after, value) in enumerate(offers):
        found += wait(sampler, now, now + after)
        now += after
        sent = sampler.offer(Sent(number, now, ((value,),)), now)
        found += [(now, sent)] if sent else []
    return found + wait(sampler, now, now + 10_000)


def wait(sampler: Sampler, since: int, until: int) -> list[tuple[int, Sent]]:
    return [(at, sent) for at in range(since, until, 100) if (sent := sampler.due(at))]


@given(OFFERS, st.sampled_from((0.0, 0.5, 2.0)))
def test_latest_rows_settle_come_seldom_and_are_changes(offers: list[tuple[int, int]], every: float):
    found = play(Sampler(every, only_changes=True), offers)
    values = [sent.rows[0][0] for _, sent in found]
    assert values[-1] == offers[-1][1], "after settling, the newest row was sent"
    assert all(one != other for one, other in itertools.pairwise(values)), "only changes"
    times = [at for at, _ in found]
    assert all(later - at >= every * 1000 for at, later in itertools.pairwise(times)), "not too often"


@given(OFFERS)
def test_every_row_of_a_kept_stream_is_sent(offers: list[tuple[int, int]]):
    found = play(Sampler(0.0, only_changes=False), offers)
    assert [sent.seq for _, sent in found] == list(range(len(offers)))


def test_a_change_that_is_taken_back_while_it_waits_is_not_sent():
    assert [sent.seq for _, sent in play(Sampler(5.0, only_changes=True), [(0, 1), (10, 2), (10, 1)])] == [0]


def test_a_clock_that_was_set_back_does_not_hold_rows_back():
    sampler = Sampler(10.0, only_changes=True)
    assert sampler.offer(Sent(1, 0, ((1,),)), 5_000_000)
    assert sampler.offer(Sent(2, 0, ((2,),)), 1_000_000) is None
    assert sampler.due(1_009_000) is None
    assert sampler.due(1_010_000) == Sent(2, 0, ((2,),))


def test_a_faster_stream_serves_a_slower_reader():
    assert rates_of((SendStream("l", 10.0), SendStream("l", 2.0), SendStream("m", 0.0))) == {"l": 2.0, "m": 0.0}
