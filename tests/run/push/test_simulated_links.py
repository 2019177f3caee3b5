"""Simulated links: when transfers arrive, by a clock that is turned by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.files import FileStore
from headrace.model.catalogue import Link as DeclaredLink
from headrace.model.errors import Location
from headrace.model.log import Piece, PieceKind
from headrace.run.load.load import LoadSent
from headrace.run.load.load_work import Loaded
from headrace.run.program import LogSpec, Pass, Task
from headrace.run.push.chains import ChainItem, ChainOutcome
from headrace.run.push.items import Item, ItemOutcome
from headrace.run.push.simulated_links import SLICE_S, SimulatedLinksRunner, Transfer, schedule
from headrace.run.push.work import Files, Produced, WorkItem, count_sent_bytes

NOWHERE = Location("headrace.yml")
US_EU = "us", "eu"
EU_US = "eu", "us"


def declared(bandwidth: float | None = 1000.0, latency_s: float = 0.5) -> dict[tuple[str, str], DeclaredLink]:
    return {ends: DeclaredLink(*ends, bandwidth, latency_s, 0.0, NOWHERE) for ends in (US_EU, EU_US)}


def arrivals(transfers: Sequence[Transfer], busy: dict[tuple[str, str], float] | None = None) -> list[float]:
    return [one.arrived for one in schedule(transfers, 100.0, busy or {}, declared())[0]]


def test_a_transfer_takes_its_bytes_over_the_bandwidth_and_the_latency():
    assert arrivals([Transfer((), US_EU, 2000)]) == [102.5]


def test_transfers_share_a_link_and_not_its_opposite():
    assert arrivals([Transfer((), US_EU, 2000), Transfer((), US_EU, 1000), Transfer((), EU_US, 500)]) == [
        102.5,
        103.5,
        101.0,
    ]


def test_a_link_that_is_busy_sends_later():
    assert arrivals([Transfer((), US_EU, 1000)], {US_EU: 104.0}) == [105.5]
    assert arrivals([Transfer((), US_EU, 1000)], {US_EU: 50.0}) == [101.5]


def test_what_reads_a_transfer_waits_for_it_and_what_is_ready_first_goes_first():
    there, back = Transfer((), US_EU, 1000), Transfer((0,), EU_US, 1000)
    assert arrivals([there, back, Transfer((1,)), Transfer((), EU_US, 1000)]) == [101.5, 103.0, 103.0, 101.5]


def test_links_without_limit_and_links_that_nobody_declared():
    free = {US_EU: DeclaredLink(*US_EU, None, 0.25, 0.0, NOWHERE)}
    times, _ = schedule([Transfer((), US_EU, 10**9), Transfer((), EU_US, 10**9)], 0.0, {}, free)
    assert [one.took for one in times] == [0.25, 0.0]


@given(st.lists(st.tuples(st.sampled_from([US_EU, EU_US, None]), st.integers(1, 5000)), max_size=20), st.data())
def test_no_link_sends_more_than_it_can(sizes: list[tuple[Any, int]], data: st.DataObject):
    transfers = [
        Transfer(tuple(data.draw(st.sets(st.integers(0, number - 1), max_size=2))) if number else (), ends, size)
        for number, (ends, size) in enumerate(sizes)
    ]
    times, busy = schedule(transfers, 0.0, {}, declared())
    for number, transfer in enumerate(transfers):
        assert times[number].ready == max((times[one].arrived for one in transfer.reads), default=0.0)
        least = 0.0 if transfer.ends is None else transfer.size / 1000 + 0.5
        assert times[number].took >= least - 1e-9
    for ends in (US_EU, EU_US):
        sent = sum(transfer.size for transfer in transfers if transfer.ends == ends)
        assert busy.get(ends, 0.0) >= sent / 1000 - 1e-9


# Of pushes


def item(name: str, origin: str, site: str, *reads: str) -> WorkItem:
    log = LogSpec(name, site, ())
    changes = {read: Files(origin) for read in reads}
    return WorkItem(
        Task(name, site, Pass(()), reads), log, 0, 1, FileStore(Path()), changes, {}, Files(site), Files(site), {}
    )


def made(name: str, size: int) -> Produced:
    change = Piece(PieceKind.CHANGE, f"{name}.arrow", 0, 1, 1, size)
    index = Piece(PieceKind.INDEX, f"{name}-index.arrow", 0, 1, 1, 7777, ("k",))
    return Produced(name, 0, 1, ((name, change), (name, index)), 1, 1, size + 7777)


@dataclass
class Instant:
    """Runs items in no time; what they make is given."""

    outcomes: list[ItemOutcome[Any]]

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        return self.outcomes


@dataclass
class HandTurned:
    now: float = 100.0
    waits: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def simulated(outcomes: list[ItemOutcome[Any]], hand: HandTurned) -> SimulatedLinksRunner:
    return SimulatedLinksRunner(Instant(outcomes), lambda: declared().values(), hand.clock, hand.wait)


def test_only_changes_that_come_from_another_site_are_sent():
    assert count_sent_bytes(item("copied", "us", "eu", "a"), made("copied", 2000)) == 2000
    assert count_sent_bytes(item("joined", "eu", "eu", "a"), made("joined", 2000)) == 0


def test_a_push_over_a_link_takes_as_long_as_that_and_others_take_no_longer():
    hand = HandTurned()
    copied, joined = item("copied", "us", "eu", "a"), item("joined", "eu", "eu", "b")
    outcomes = [
        ItemOutcome("copied", made("copied", 2000), None, 0.1),
        ItemOutcome("joined", made("joined", 2000), None, 0.2),
    ]
    found = simulated(outcomes, hand).run([copied, joined])
    assert hand.waits == [2.5]
    assert [(one.seconds, one.waited_s) for one in found] == [(pytest.approx(2.6), 2.5), (0.2, 0.0)]


def test_in_a_chain_what_reads_a_copy_waits_for_it():
    hand = HandTurned()
    chain = ChainItem(
        (item("there", "us", "eu", "a"), item("joined", "eu", "eu", "there"), item("back", "eu", "us", "joined"))
    )
    links = tuple(ChainOutcome(one.name, made(one.name, 1000), None, 0.1) for one in chain.items)
    (found,) = simulated([ItemOutcome("back", links, None, 0.3)], hand).run([chain])
    assert hand.waits == [3.0]
    assert [link.waited_s for link in found.value or ()] == [1.5, 0.0, 1.5]
    assert found.seconds == pytest.approx(3.3)


def test_pushes_of_two_jobs_share_a_link():
    hand = HandTurned()
    outcomes = [ItemOutcome("copied", made("copied", 2000), None, 0.0)]
    runner = simulated(outcomes, hand)
    runner.wait = lambda seconds: hand.waits.append(seconds)
    for _ in range(2):
        runner.run([item("copied", "us", "eu", "a")])
    assert hand.waits == [2.5, 4.5]


def test_what_fails_and_what_changed_nothing_is_not_sent():
    hand = HandTurned()
    nothing = Produced("empty", 0, 1, (), 0, 0, 0)
    outcomes: list[ItemOutcome[Any]] = [
        ItemOutcome("failed", None, "why", 0.1),
        ItemOutcome("empty", nothing, None, 0.1),
        ItemOutcome("chain", None, "why", 0.1),
    ]
    items: list[Item] = [item(name, "us", "eu", "a") for name in ("failed", "empty")]
    items.append(ChainItem((item("c", "us", "eu", "a"),)))
    assert simulated(outcomes, hand).run(items) == outcomes
    assert hand.waits == []


# Of what is loaded


def loaded(*sent: LoadSent) -> ItemOutcome[Any]:
    return ItemOutcome("load", Loaded((), 1, sent), None, 0.1)


def test_a_load_takes_as_long_as_its_links_need_side_by_side():
    hand = HandTurned()
    outcome = loaded(
        LoadSent("us", "eu", 2000),
        LoadSent("us", "eu", 1000),
        LoadSent("eu", "us", 500),
        LoadSent("eu", "nowhere", 9999),
    )
    (found,) = simulated([outcome], hand).run([item("any", "us", "us")])
    assert hand.now == pytest.approx(103.5)
    assert found.waited_s == pytest.approx(3.5)
    assert found.seconds == pytest.approx(3.6)
    assert found.value is outcome.value


@dataclass
class ByName:
    """As `Instant`, for more than one job."""

    outcomes: dict[str, ItemOutcome[Any]]

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        return [self.outcomes[item.name] for item in items]


def test_a_push_waits_for_one_slice_of_a_load_at_most():
    hand, took = HandTurned(), list[float]()
    jobs = {"load": loaded(LoadSent("us", "eu", 4000)), "copied": ItemOutcome("copied", made("copied", 100), None, 0.0)}

    def wait(seconds: float) -> None:
        """A push begins with every slice; nobody waits for it."""
        if len(took) == len(hand.waits):
            took.append(0.0)
            (pushed,) = runner.run([item("copied", "us", "eu", "a")])
            took[-1] = pushed.waited_s
            hand.wait(seconds)

    runner = SimulatedLinksRunner(ByName(jobs), lambda: declared().values(), hand.clock, wait)
    runner.run([item("load", "us", "us")])
    assert len(took) == 16
    assert max(took) <= SLICE_S + 0.1 + 0.5 + 0.1 + 1e-9, "one slice, another push, the latency, and its own bytes"
    assert hand.now == pytest.approx(104.0 + 15 * 0.1 + 0.5), "what pushes take is not there for the load"


def test_a_load_from_nowhere_else_waits_for_nothing():
    hand = HandTurned()
    outcome = loaded()
    assert simulated([outcome], hand).run([item("any", "us", "us")]) == [outcome]
    assert hand.waits == []


def test_whoever_waits_for_links_says_for_how_long():
    hand, seen = HandTurned(), list[tuple[float, float]]()
    jobs = {
        "load": loaded(LoadSent("us", "eu", 4000)),
        "copied": ItemOutcome("copied", made("copied", 2000), None, 0.0),
    }

    def wait(seconds: float) -> None:
        seen.append((runner.left_s(), runner.allowed_s()))
        hand.wait(seconds)

    runner = SimulatedLinksRunner(ByName(jobs), lambda: declared().values(), hand.clock, wait)
    runner.run([item("copied", "us", "eu", "a")])
    assert seen == [(2.5, 2.5)]
    seen.clear()
    runner.run([item("load", "us", "us")])
    assert seen[0] == (4.5, 4.5)
    assert seen[-1] == pytest.approx((0.75, 4.5))
    assert (runner.left_s(), runner.allowed_s()) == (0.0, 0.0)
