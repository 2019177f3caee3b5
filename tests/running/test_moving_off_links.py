"""Contracts leave a link that has become narrow, and return once when it is well: not back and forth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace import Project
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.coordinate.joined_measured import LinksSeen, join_measured
from headrace.coordinate.link_beliefs import LinkBeliefs, follow_links, read_beliefs, write_beliefs
from headrace.coordinate.replanning import LOOK_EVERY_S, ContractMove, Replanning
from headrace.model.catalogue import OperatorTime
from headrace.model.plan import Operator, Plan
from headrace.observe.links import PROBE_AFTER_S, LinkBelief, choose_probe_bytes
from headrace.plan.make import make_plan
from headrace.plan.share.revalue import Measured
from headrace.run.ports import Ledger
from headrace.site.folder import Folder

START_S = 1_000_000.0
FAST, SLOW = 12.5e6, 1.0e6
US_EU = ("us", "eu")


def make_posts() -> Plan:
    """Rows go to `eu` as they are, since computing is dear at `us`: 2.6 MB/s. Counts of them would be much less."""
    project = Project("posts", headroom={"cpu": 0, "link": 0, "blocking": 0})
    project.site("us", cpu="9 $/core-hour", disk="0.01 $/GB-month")
    project.site("eu", cpu="0.01 $/core-hour", disk="0.01 $/GB-month")
    project.link(between=US_EU, bandwidth="100 Mbps", latency="10 ms", price="0.0001 $/GB")
    columns: dict[str, str | dict[str, str | float]] = {
        "pid": "bigint",
        "kind": {"type": "bigint", "distinct": 7},
        "body": {"type": "string", "width": 1000},
    }
    project.source("posts", at="us", key="pid", rows=1e5, rate=2500, columns=columns)
    project.view("kinds", "SELECT kind, count(*) AS posts, max(body) AS body FROM posts GROUP BY kind")
    project.contract("kinds", view="kinds", at="eu", freshness="20 s")
    return make_plan(project.catalogue)


@dataclass
class Sites:
    """A plan whose link carries what a test says. Something waits for the link while the plan sends more over it than
    it carries in half of the time; a probe tells as well.
    """

    plan: Plan
    replanning: Replanning
    carries: Callable[[float], float]
    clock_s: float = START_S
    beliefs: LinkBeliefs = field(default_factory=dict)
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    moves: list[ContractMove] = field(default_factory=list)
    down: frozenset[str] = frozenset()
    probes: int = 0
    _looked_s: float = START_S

    def run(self, seconds: float) -> None:
        end_s = self.clock_s + seconds
        while self.clock_s < end_s:
            self.clock_s += LOOK_EVERY_S
            self.beliefs = follow_links(self.beliefs, [self._tell_link()], self.clock_s)
            carried = {ends: one.bytes_s for ends, one in self.beliefs.items()}
            seen = LinksSeen(carried, self.shares)
            parts = {"us": Measured(self.clock_s), "eu": Measured(self.clock_s, row_bytes=self._find_row_bytes())}
            measured, seen = join_measured(self.plan, parts, seen, self.down, self.clock_s)
            self.shares = seen.shares
            move = self.replanning.step(self.plan, measured, self.go_over)
            if move is not None:
                self.moves.append(move)

    def _tell_link(self) -> dict[str, object]:
        carries, sent = self.carries(self.clock_s - START_S), self.plan.totals.link.get(US_EU, 0.0) / 2
        is_seen = sent > carries / 2
        size = choose_probe_bytes(self.beliefs.get(US_EU), FAST, self.clock_s - self._looked_s)
        if size is not None:
            self.probes += 1
            is_seen = True
        if is_seen:
            self._looked_s = self.clock_s
        return {"from": "us", "to": "eu", "capacity_bytes_s": carries if is_seen else None}

    def _find_row_bytes(self) -> dict[str, float]:
        """Rows take half as much as planned on their way, counts of them ten times as much."""
        graph, shares = self.plan.graph, {True: 0.5, False: 10.0}
        copies = (name for name, edge in graph.edges.items() if edge.op is Operator.COPY)
        return {name: graph.vertices[name].width * shares[graph.vertices[name].scope == ("posts",)] for name in copies}

    def go_over(self, plan: Plan) -> str | None:
        self.plan = plan
        return None

    def sends_rows(self) -> bool:
        return self.plan.totals.link.get(US_EU, 0.0) > 1e6


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_sqlite(tmp_path / "ledger.db")
    yield opened
    opened.close()


@pytest.fixture
def make_sites(ledger: Ledger) -> Callable[[Callable[[float], float]], Sites]:
    lease = ledger.acquire("service", "test", 1e9)
    return lambda carries: Sites(make_posts(), Replanning(ledger, lease), carries)


Make = Callable[[Callable[[float], float]], Sites]


def test_a_narrow_link_is_left_within_a_minute_and_taken_again_once_it_is_known_to_be_well(make_sites: Make) -> None:
    sites = make_sites(lambda since_s: SLOW if 100 <= since_s < 400 else FAST)
    sites.run(100)
    assert sites.sends_rows() and not sites.moves
    sites.run(60)
    (left,) = sites.moves
    assert left.contracts == ("kinds",) and left.reasons[0].endswith("of what us>eu carries")
    assert left.at_s - START_S <= 160 and not sites.sends_rows()
    sites.run(3600)
    assert [move.contracts for move in sites.moves] == [("kinds",), ("kinds",)], "it returns once"
    returned = sites.moves[1]
    assert returned.reasons == ("what it had left for is over",) and sites.sends_rows()
    assert 400 + PROBE_AFTER_S >= returned.at_s - left.at_s >= 300
    assert sites.probes <= 3


def test_a_link_that_stays_narrow_is_left_for_good(make_sites: Make) -> None:
    sites = make_sites(lambda since_s: SLOW if since_s >= 100 else FAST)
    sites.run(2 * 3600)
    assert len(sites.moves) == 1 and not sites.sends_rows()
    assert sites.probes <= 2 * 3600 / PROBE_AFTER_S


def test_a_link_that_changes_all_the_time_is_not_left_and_taken_again_each_time(make_sites: Make) -> None:
    sites = make_sites(lambda since_s: FAST if since_s // 400 % 2 else SLOW)
    sites.run(4 * 3600)
    assert len(sites.moves) <= 14, "of 36 changes"
    pauses = [after.at_s - before.at_s for before, after in zip(sites.moves, sites.moves[1:], strict=False)]
    assert pauses[-1] > pauses[0], "the longer the more often it has happened"


def test_a_link_that_is_less_than_full_is_used_on(make_sites: Make) -> None:
    sites = make_sites(lambda since_s: 0.5 * FAST)
    sites.run(3600)
    assert not sites.moves


# Joining what sites say


def test_sites_speak_for_their_own_sources_and_copies_say_nothing_about_operators() -> None:
    plan = make_posts()
    (copy,) = [name for name, edge in plan.graph.edges.items() if edge.op is Operator.COPY]
    view = plan.contracts[0].vertex
    quick, slow = OperatorTime(0.1, 0.0, 0.0), OperatorTime(0.3, 0.0, 0.0)
    parts = {
        "us": Measured(90.0, rates={"posts": 3000.0}, times={"aggregate": slow, "copy": slow}, blocking_s=0.2),
        "eu": Measured(95.0, rates={"posts": 1.0}, slowness={copy: 9.0, view: 1.2}, times={"aggregate": quick}),
    }
    found, _ = join_measured(plan, parts, LinksSeen(), frozenset(), 100.0)
    assert found.rates == {"posts": 3000.0}
    assert found.slowness == {view: 1.2}
    assert found.times == {"aggregate": OperatorTime(0.2, 0.0, 0.0)}
    assert found.blocking_s == 0.2


def test_what_a_site_said_long_ago_or_before_it_went_down_does_not_count() -> None:
    plan, parts = make_posts(), {"us": Measured(30.0, rates={"posts": 3000.0})}
    assert join_measured(plan, parts, LinksSeen(), frozenset(), 100.0)[0].rates == {}
    assert join_measured(plan, parts, LinksSeen(), frozenset(("us",)), 40.0)[0].rates == {}


def test_beliefs_are_kept_for_the_next_coordinator(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    assert read_beliefs(folder) == ({}, {})
    known = {US_EU: LinkBelief(5e6, 12.5), ("eu", "us"): LinkBelief(1.0, 2.0)}
    write_beliefs(folder, known, {US_EU: 0.2})
    assert read_beliefs(folder) == (known, {US_EU: 0.2})
    (folder.root / "links.json").write_text('{"of": "another kind"}')
    assert read_beliefs(folder) == ({}, {})
