"""A feed in the plan: kept with its load, or refused with what could be kept instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue
from headrace.model.explanation import ImaginedChange, WhyFeed, WhyPair
from headrace.model.feed_plan import FeedPlan
from headrace.model.plan import Plan
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.explain import what_if, why
from headrace.plan.feeds.load import FETCH_S, PAGE_S, PULL_S, assume_prices, choose_share, find_statistics, measure_load
from headrace.plan.make import make_plan
from tests.declare.projects import write_project

TEXT = """
project: social
sites: {{us: {{cores: 4{us}}}, eu: {{}}}}
links: [{{between: [us, eu], bandwidth: 100 Mbps}}]
sources:
  posts: {{kind: table, at: us, key: pid, rows: 5M rows, rate: 20 /s, columns: {{
            pid: bigint, author: {{type: bigint, distinct: 100k}}, ts: timestamp, body: {{type: string, width: 200}}}}}}
  follows: {{kind: table, at: us, key: [who, whom], rows: 1M rows, rate: 0.1 /s,
            columns: {{who: {{type: bigint, distinct: 200k}}, whom: {{type: bigint, distinct: 100k}}}}}}
contracts: {{few: {{view: few, at: us, freshness: 30 s}}}}
feeds:
  home: {{events: {events}, follows: {{source: follows, consumer: who, producer: whom}}{fields}}}
"""
EVENTS = "{source: posts, producer: author, time: ts}"
VIEWS = {"few": "SELECT pid, author, ts FROM posts WHERE pid < 100", "all_posts": "SELECT pid, author, ts FROM posts"}


def read_social(folder: Path, fields: str = "", us: str = "", events: str = EVENTS) -> Catalogue:
    written = TEXT.format(fields=f", {fields}" if fields else "", us=f", {us}" if us else "", events=events)
    return read_project(write_project(folder, written, **VIEWS), {})


def plan_social(folder: Path, fields: str = "", us: str = "", events: str = EVENTS) -> tuple[Plan, FeedPlan]:
    plan = make_plan(read_social(folder, fields, us, events))
    (feed,) = plan.feeds
    return plan, feed


def test_a_feed_is_three_promises_and_one_vertex(tmp_path: Path) -> None:
    plan, feed = plan_social(tmp_path, "per_producer: 5")
    kept = {one.contract: one for one in plan.contracts}
    assert set(kept) == {"few", "home/newest", "home/pairs", "home/stored"} == {"few", *feed.contracts}
    assert all(kept[name].freshness_s == 5.0 and kept[name].site == "us" for name in feed.contracts)
    assert (feed.vertex, feed.reason, plan.rejected) == ("f:home@us", None, ())
    rates = {plan.graph.edges[name].block: figures.rows_per_s for name, figures in plan.edge_figures.items()}
    # Every event comes in for its ten followers, and pushes an older one out.
    assert rates["home/stored"] == pytest.approx(2 * feed.entries_s, rel=0.1)
    assert feed.entries_s == pytest.approx(20 * 10)


def test_load_of_a_feed_counts_its_views_and_its_store(tmp_path: Path) -> None:
    plan, feed = plan_social(tmp_path, "at: eu, reads: 300 /s")
    assert set(feed.cpu) == {"us", "eu"} or set(feed.cpu) == {"eu"}
    assert feed.link["us", "eu"] > 0.0
    assert feed.disk["eu"] >= feed.store_bytes > 1e8
    views = sum(plan.totals.cpu.values())
    assert sum(feed.cpu.values()) <= views + feed.store_cpu
    assert feed.store_cpu == pytest.approx(200 * 15e-6 + 300 * 360e-6 + 20 * 27e-6)


def test_a_store_elsewhere_takes_nothing_of_a_site(tmp_path: Path) -> None:
    ours, theirs = (plan_social(tmp_path, text)[1] for text in ("limit: 20", 'store: {postgres: {dsn: "host=x"}}'))
    assert theirs.store_bytes == ours.store_bytes
    assert theirs.disk["us"] == pytest.approx(ours.disk["us"] - ours.store_bytes)


def test_the_document_of_a_plan_with_a_feed_is_correct(tmp_path: Path) -> None:
    for fields, events in (("", EVENTS), ("at: eu", "{view: all_posts, producer: author, time: ts, id: pid}")):
        document = plan_document(plan_social(tmp_path, fields, events=events)[0])
        assert check_document(document) == []
        (feed,) = document["feeds"]
        assert (feed["id"], feed["kept"], feed["pairs"]) == ("home", True, 1e6)


def test_events_and_follows_of_the_api_are_planned_without_tables(tmp_path: Path) -> None:
    text = "project: p\nsites: {us: {}}\nfeeds: {home: {events: api, follows: api}}\n"
    plan = make_plan(read_project(write_project(tmp_path, text), {}))
    assert [one.reason for one in plan.feeds] == [None]
    assert {vertex.scope for vertex in plan.graph.vertices.values() if vertex.base} == {
        ("home/events",),
        ("home/follows",),
        ("home/decisions",),
    }


# Which share is stored ahead


def test_without_a_word_about_reads_everything_is_provided_for(tmp_path: Path) -> None:
    assert plan_social(tmp_path)[1].ahead == 1.0


@pytest.mark.parametrize("reads_s", [0.1, 1, 10, 50, 100, 150, 160, 200, 1000])
def test_the_share_costs_least_of_all_shares(reads_s: float, tmp_path: Path) -> None:
    catalogue = read_social(tmp_path, f"reads: {reads_s} /s")
    feed, prices = catalogue.feeds["home"], assume_prices(catalogue)
    now = find_statistics(feed, catalogue)

    def price(share: float) -> float:
        load = measure_load(feed, now, prices, share)
        return load.entries_s * prices.store_s + reads_s * load.pulls * FETCH_S

    chosen, least = choose_share(feed, now, prices, None)
    assert least == 0.0
    assert price(chosen) <= min(price(share / 20) for share in range(21)) * (1 + 1e-12)


def test_a_latency_target_bounds_what_is_pulled(tmp_path: Path) -> None:
    """A consumer follows five producers, and a page has time for two of them."""
    target_ms = (PAGE_S + 2 * PULL_S) * 1000
    feed = plan_social(tmp_path, f"reads: 0.001 /s, latency: {{p95: {target_ms} ms, p99: 1 s}}")[1]
    assert feed.pulls == pytest.approx(2.0)
    assert feed.page_s == pytest.approx(target_ms / 1000)


def test_a_small_disk_leaves_more_on_read(tmp_path: Path) -> None:
    whole = plan_social(tmp_path)[1]
    capacity = 0.9 * whole.disk["us"]
    feed = plan_social(tmp_path, us=f"disk_capacity: {capacity} B")[1]
    assert feed.reason is None
    assert 0.0 < feed.ahead < whole.ahead
    assert feed.disk["us"] <= capacity


# Refusals


def refuse(folder: Path, fields: str = "", us: str = "") -> tuple[Plan, FeedPlan]:
    plan, feed = plan_social(folder, fields, us)
    assert [one.contract for one in plan.contracts] == ["few"]
    assert {one.contract for one in plan.rejected} == set(feed.contracts)
    assert check_document(plan_document(plan)) == []
    return plan, feed


def test_a_feed_that_cannot_be_read_in_time_is_refused_with_what_could_be(tmp_path: Path) -> None:
    _, feed = refuse(tmp_path, "latency: {p95: 1 ms}")
    assert feed.reason == "latency"
    assert "`latency: {p95: 3 ms}` could be kept" in feed.detail
    assert plan_social(tmp_path, "latency: {p95: 3 ms}")[1].reason is None


def test_a_feed_whose_store_has_no_room_is_refused(tmp_path: Path) -> None:
    _, feed = refuse(tmp_path, us="disk_capacity: 2.2 GB")
    assert feed.reason == "disk:us"
    assert "smaller `keep`" in feed.detail


def test_a_feed_that_is_read_more_often_than_its_site_can_bear_is_refused(tmp_path: Path) -> None:
    _, feed = refuse(tmp_path, "reads: 100000 /s")
    assert feed.reason == "cpu:us"


def test_a_feed_that_cannot_be_as_fresh_is_refused_with_a_counter_offer(tmp_path: Path) -> None:
    plan, feed = refuse(tmp_path, "freshness: 100 ms")
    assert feed.reason == "freshness"
    offer = max(one.smallest_staleness_s or 0.0 for one in plan.rejected)
    assert plan_social(tmp_path, f"freshness: {offer} s")[1].reason is None


# Questions


def test_why_explains_a_feed_and_its_pairs(tmp_path: Path) -> None:
    plan, feed = plan_social(tmp_path, "reads: 1000 /s, latency: {p95: 50 ms}")
    (whole,) = why(plan, "home")
    assert isinstance(whole, WhyFeed)
    assert (whole.plan, whole.wanted, whole.least) == (feed, 1.0, 0.0)
    (pair,) = why(plan, "home:anna<-bob")
    assert isinstance(pair, WhyPair)
    assert (pair.consumer, pair.producer, pair.stored_ahead) == ("anna", "bob", True)
    assert pair.read_cost_h is not None
    assert pair.stored_cost_h < pair.read_cost_h
    (pair,) = why(plan_social(tmp_path, "reads: 1 /s")[0], "home:anna<-bob")
    assert isinstance(pair, WhyPair)
    assert not pair.stored_ahead


def test_what_if_changes_a_feed_as_a_whole(tmp_path: Path) -> None:
    catalogue = read_social(tmp_path, "reads: 1000 /s")
    answer = what_if(catalogue, "home", ImaginedChange(freshness_s=0.1))
    assert (answer.before.kept, answer.after.kept, answer.after.reason) == (True, False, "freshness")
    answer = what_if(catalogue, "home", ImaginedChange(rate={"posts": 200.0}))
    assert answer.after.kept
    assert (answer.after.money or 0.0) >= (answer.before.money or 0.0)
    answer = what_if(catalogue, "few", ImaginedChange(freshness_s=1.0))
    assert "home/stored" not in answer.others


EMPTY = """
project: first
sites: {us: {cores: 2}}
sources:
  posts: {kind: table, at: us, key: pid, rows: 0 rows, columns: {pid: bigint, author: string, ts: timestamp}}
  follows: {kind: table, at: us, key: [who, whom], rows: 0 rows, columns: {who: string, whom: string}}
feeds:
  home: {events: {source: posts, producer: author, time: ts}, follows: {source: follows, consumer: who, producer: whom}}
  wall: {events: api, follows: api}
"""


def test_a_first_feed_over_empty_tables_is_kept(tmp_path: Path) -> None:
    """Two empty tables that meet by two columns were taken to have rows without number."""
    plan = make_plan(read_project(write_project(tmp_path, EMPTY), {}))
    assert {feed.feed: (feed.reason, feed.detail) for feed in plan.feeds} == {"home": (None, ""), "wall": (None, "")}
    assert check_document(plan_document(plan)) == []
    assert max(figures.rows_per_s for figures in plan.edge_figures.values()) < 100.0


def test_a_refused_feed_says_which_freshness_could_be_kept(tmp_path: Path) -> None:
    _, feed = plan_social(tmp_path, "freshness: 10 ms")
    assert feed.reason is not None and feed.smallest_staleness_s is not None and feed.smallest_staleness_s > 0.01
