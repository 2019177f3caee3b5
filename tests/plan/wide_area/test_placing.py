"""Placement across a wide area: worked numbers, Sana's illustrative example, and what must hold for any workload."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.workloads.wide_area_files import compute_sites, read_network, read_workload
from headrace.plan.wide_area.fluid import FlowSharing, predict
from headrace.plan.wide_area.greedy import MODES, SharingMode, admit_greedily
from headrace.plan.wide_area.running import running_of, settle
from headrace.plan.wide_area.search import HEADROOM, added_bytes, admit_all, place_query
from headrace.plan.wide_area.streams import QueryOperator, SiteNetwork, SiteStream, StreamQuery, Workload

PUBLISHED = Path(__file__).parents[3].parent / "shared" / "workloads" / "wide-area"
MB = 1e6


def network(sites: str, links: dict[tuple[str, str], tuple[float, float]], compute: str) -> SiteNetwork:
    """Links as (MB/s, seconds)."""
    return SiteNetwork(
        tuple(sites.split()),
        frozenset(compute.split()),
        {link: bandwidth * MB for link, (bandwidth, _) in links.items()},
        {link: latency for link, (_, latency) in links.items()},
    )


def test_hourglass_takes_the_site_with_least_rate_times_latency_squared_over_bandwidth() -> None:
    both = {("X", "Z"): (20.0, 0.04), ("Y", "X"): (5.0, 0.1), ("Y", "Z"): (10.0, 0.08)}
    net = network("X Y Z", both | {(b, a): v for (a, b), v in both.items()}, "X Y Z")
    streams = {"x": SiteStream("x", "X", 1, 5 * MB), "y": SiteStream("y", "Y", 1, 2 * MB)}
    union = QueryOperator("q.union", "u", ("x", "y"), 1, 1 * MB)
    query = StreamQuery("q", (union, QueryOperator("q.sink", "s", ("q.union",), 1, 1, pinned="Z")))
    running = admit_greedily(Workload(streams, (query,)), net, MODES["net"])
    assert running.deployment["q"]["q.union"] == "Z"


def test_a_link_that_the_output_of_an_earlier_operator_will_take_is_taken() -> None:
    """Two joins of one query send 6 MB/s each to a sink; either site has a link of 10 MB/s to it."""
    both = {("A", "B"): (50.0, 0.01), ("A", "Z"): (10.0, 0.04), ("B", "Z"): (10.0, 0.05)}
    net = network("A B Z", both | {(b, a): v for (a, b), v in both.items()}, "A B")
    streams = {"a": SiteStream("a", "A", 1, 1 * MB), "b": SiteStream("b", "B", 1, 1 * MB)}
    joins = tuple(QueryOperator(f"q.{name}", name, ("a", "b"), 1, 6 * MB) for name in ("first", "second"))
    union = QueryOperator("q.sink", "s", ("q.first", "q.second"), 1, 1, pinned="Z")
    workload = Workload(streams, (StreamQuery("q", (*joins, union)),))
    for mode in ("net", "sana"):
        placed = admit_greedily(workload, net, MODES[mode])
        assert {placed.deployment["q"][f"q.{name}"] for name in ("first", "second")} == {"A", "B"}
        assert predict(workload, net, placed.deployment, MODES[mode].sharing).overloaded(net) == ()


Links = dict[tuple[str, str], tuple[float, float]]


def make_query(name: str, inputs: tuple[str, ...], sends: float, sink: str) -> StreamQuery:
    """One operator that sends so many MB/s to its sink."""
    made = QueryOperator(f"{name}.made", f"{name} of {inputs}", inputs, 1, sends * MB)
    return StreamQuery(name, (made, QueryOperator(f"{name}.sink", f"{name} sink", (made.id,), 1, 1, pinned=sink)))


@pytest.mark.parametrize("mode", ["net", "max-share", "sana"])
def test_a_result_that_has_no_room_to_the_sink_is_made_there_though_rows_come_from_far(mode: str) -> None:
    """M is near, and has 1 MB/s to the sink for 4: whoever looked only at the rows on their way would choose M."""
    links: Links = {("A", "M"): (50, 0.01), ("A", "Z"): (11.5, 0.1), ("M", "Z"): (1, 0.05)}
    links |= {("B", "M"): (50, 0.01), ("B", "Z"): (11.5, 0.1)}
    net = network("A B M Z", links | {(b, a): v for (a, b), v in links.items()} | {("A", "B"): (1, 1)}, "M Z")
    streams = {name: SiteStream(name, name.upper(), 1, 11 * MB) for name in ("a", "b")}
    workload = Workload(streams, (make_query("q", ("a", "b"), 4.0, "Z"),))
    assert admit_greedily(workload, net, MODES[mode]).deployment["q"]["q.made"] == "Z"


def test_of_sites_that_are_about_as_good_that_is_taken_where_fewer_bytes_are_sent() -> None:
    links: Links = {("A", "M"): (100, 0.0995), ("A", "Z"): (100, 0.1), ("B", "M"): (100, 0.01), ("B", "Z"): (100, 0.01)}
    net = network("A B M Z", links | {("M", "Z"): (100, 0.001), ("Z", "M"): (100, 0.001)}, "M Z")
    streams = {name: SiteStream(name, name.upper(), 1, 10 * MB) for name in ("a", "b")}
    workload = Workload(streams, (make_query("q", ("a", "b"), 8.0, "Z"),))
    assert admit_greedily(workload, net, MODES["sana"]).deployment["q"]["q.made"] == "Z"


def test_what_is_shared_has_to_save_more_than_is_sent_on_from_there() -> None:
    """Rows of 2 MB/s are at M already. Made there, 5 MB/s go to the sink; made at the sink, 2."""
    links: Links = {("A", "M"): (100, 0.01), ("A", "Z"): (100, 0.1), ("M", "Z"): (100, 0.1)}
    net = network("A M Z", links | {(b, a): v for (a, b), v in links.items()}, "M Z")
    streams = {"a": SiteStream("a", "A", 1, 2 * MB)}
    workload = Workload(streams, (make_query("first", ("a",), 0.1, "M"), make_query("second", ("a",), 5.0, "Z")))
    sites = {name: admit_greedily(workload, net, MODES[name]).deployment for name in ("sana", "max-share")}
    assert sites["sana"]["second"]["second.made"] == "Z"
    assert sites["max-share"]["second"]["second.made"] == "M", "it shares whatever that costs"


def sana_example() -> tuple[Workload, SiteNetwork]:
    """Two queries over filtered streams of 10 MB/s: Q1 unites US, EU and Asia in London, Q2 sends US and EU to the
    ads.
    """
    sites = ("us", "eu", "asia", "virginia", "london", "singapore", "ads")
    links = [(a, b) for a in sites for b in sites if a != b]
    near = {("us", "virginia"), ("eu", "london"), ("asia", "singapore")}
    net = SiteNetwork(
        sites,
        frozenset(sites[3:]),
        dict.fromkeys(links, 100 * MB),
        {link: 0.005 if link in near else 0.05 for link in links},
    )
    streams = {site: SiteStream(site, site, 10_000, 1000) for site in sites[:3]}

    def filtered(query: str, site: str) -> QueryOperator:
        return QueryOperator(f"{query}.{site}", f"filter {site}", (site,), 5_000, 1000, at_source=True)

    def query(name: str, sites_: tuple[str, ...], sink: str, window_s: int) -> StreamQuery:
        parts = tuple(filtered(name, site) for site in sites_)
        union = QueryOperator(
            f"{name}.union", " ".join(sites_), tuple(part.id for part in parts), 5_000.0 * len(parts), 1000
        )
        window = QueryOperator(f"{name}.window", f"{name} {window_s}", (union.id,), 1, 1, pinned=sink)
        return StreamQuery(name, (*parts, union, window))

    return Workload(streams, (query("Q1", sites[:3], "london", 60), query("Q2", sites[:2], "ads", 30))), net


def flows(deployment: dict[str, dict[str, str]], sharing: FlowSharing) -> float:
    workload, net = sana_example()
    return predict(workload, net, deployment, sharing).planned / MB


INGEST = {"us": "virginia", "eu": "london", "asia": "singapore"}


def as_in_the_paper() -> dict[str, dict[str, str]]:
    """Filters at the ingest sites, unions in London."""
    q1 = {f"Q1.{site}": at for site, at in INGEST.items()} | {"Q1.union": "london", "Q1.window": "london"}
    q2 = {f"Q2.{site}": INGEST[site] for site in ("us", "eu")} | {"Q2.union": "london", "Q2.window": "ads"}
    return {"Q1": q1, "Q2": q2}


def test_the_illustrative_example_sends_75_apart_and_50_shared() -> None:
    assert flows(as_in_the_paper(), FlowSharing.NONE) == pytest.approx(75)
    assert flows(as_in_the_paper(), FlowSharing.ALL) == pytest.approx(50)


def test_search_needs_no_more_than_the_illustrative_example_and_less_with_filters_at_the_source() -> None:
    workload, net = sana_example()
    at_compute = predict(workload, net, admit_all(workload, net).deployment, FlowSharing.ALL).planned / MB
    at_source = (
        predict(workload, net, admit_all(workload, net, at_source=True).deployment, FlowSharing.ALL).planned / MB
    )
    assert at_compute <= 50
    assert at_source < at_compute
    assert at_source <= 25


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Workload, SiteNetwork]:
    """Up to five queries over up to four streams and five sites, some with equal operators, on thin links."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    sites = tuple(f"s{i}" for i in range(rng.randint(2, 5)))
    links = [(a, b) for a in sites for b in sites if a != b]
    net = SiteNetwork(
        sites,
        frozenset(sites),
        {link: rng.choice((4.0, 8.0, 20.0)) * MB for link in links},
        {link: rng.uniform(0.005, 0.2) for link in links},
    )
    streams = {
        f"r{i}": SiteStream(f"r{i}", rng.choice(sites), rng.choice((100, 1000)), 1000) for i in range(rng.randint(1, 4))
    }
    queries = []
    for number in range(rng.randint(1, 5)):
        read = rng.sample(sorted(streams), rng.randint(1, len(streams)))
        kind = rng.choice(("wide", "narrow"))
        width = {"wide": 900, "narrow": 200}[kind]
        parts = tuple(
            QueryOperator(f"q{number}.{name}", f"{kind} {name}", (name,), streams[name].rate, width, at_source=True)
            for name in read
        )
        union = QueryOperator(
            f"q{number}.union",
            f"{kind} {sorted(read)}",
            tuple(part.id for part in parts),
            sum(part.rate for part in parts),
            width,
        )
        end = QueryOperator(f"q{number}.sink", f"sink {number}", (union.id,), 1, 8, pinned=rng.choice(sites))
        queries.append(StreamQuery(f"q{number}", (*parts, union, end)))
    return Workload(streams, tuple(queries)), net


@given(workloads(), st.sampled_from(sorted(MODES)))
def test_every_operator_of_every_query_has_an_allowed_site(made: tuple[Workload, SiteNetwork], mode: str) -> None:
    workload, net = made
    for running in (admit_greedily(workload, net, MODES[mode]), admit_all(workload, net)):
        for query in workload.queries:
            sites = running.deployment[query.id]
            assert set(sites) == {op.id for op in query.operators}
            assert all(sites[op.id] == op.pinned for op in query.operators if op.pinned)


@given(workloads())
def test_queries_arriving_together_never_overbook_a_link_unless_marked_contended(
    made: tuple[Workload, SiteNetwork],
) -> None:
    workload, net = made
    deployment: dict[str, Mapping[str, str]] = {}
    contended = False
    for query in workload.queries:
        running = running_of(workload, net, deployment, FlowSharing.ALL)
        placed = place_query(workload, net, query, running, at_source=False)
        deployment[query.id] = placed.sites
        contended = contended or placed.contended
        load = predict(workload, net, deployment, FlowSharing.ALL).load
        assert load == pytest.approx({link: running.used.get(link, 0) + placed.added.get(link, 0) for link in load})
        over = [link for link in load if load[link] > (1 - HEADROOM) * net.bandwidth[link] * (1 + 1e-9)]
        assert contended or not over


@given(workloads())
def test_on_thick_links_the_search_adds_as_few_bytes_as_any_choice_of_sites(made: tuple[Workload, SiteNetwork]) -> None:
    workload, thin = made
    net = SiteNetwork(thin.sites, thin.compute, dict.fromkeys(thin.bandwidth, 1e12), thin.latency)
    deployment: dict[str, Mapping[str, str]] = {}
    for query in workload.queries[:2]:
        running = running_of(workload, net, deployment, FlowSharing.ALL)
        placed = place_query(workload, net, query, running, at_source=False)
        free = [op.id for op in query.operators if op.pinned is None]
        if len(net.sites) ** len(free) <= 625:
            fewest = min(
                sum(added_bytes(workload, query, settle(workload, query, chosen, running), running).values())
                for sites in itertools.product(net.sites, repeat=len(free))
                if (chosen := {**dict(zip(free, sites, strict=True)), query.sink.id: query.sink.pinned or ""})
            )
            assert sum(placed.added.values()) == pytest.approx(fewest)
        deployment[query.id] = placed.sites


needs_published = pytest.mark.skipif(
    not PUBLISHED.exists(), reason="needs the published workload in ../shared/workloads/wide-area"
)
NETWORKS = [
    "network-measured.json",
    "network-modelled.json",
    *(f"network-modelled-{seed}.json" for seed in range(2, 6)),
]


@needs_published
@pytest.mark.parametrize("name", NETWORKS)
def test_search_carries_every_record_with_a_fraction_of_the_bandwidth_of_unshared_placement(name: str) -> None:
    workload = read_workload(PUBLISHED / "workload.json")
    net = read_network(PUBLISHED / name, compute_sites(PUBLISHED / "workload.json"))

    def greedy(mode: SharingMode) -> tuple[dict[str, float], float]:
        answer = predict(workload, net, admit_greedily(workload, net, mode).deployment, mode.sharing)
        return {query: flow.records_per_s for query, flow in answer.queries.items()}, answer.planned

    ours = predict(workload, net, admit_all(workload, net).deployment, FlowSharing.ALL)
    at_source = predict(workload, net, admit_all(workload, net, at_source=True).deployment, FlowSharing.ALL)
    unshared, unshared_bytes = greedy(MODES["net"])
    most_shared, _ = greedy(MODES["max-share"])
    assert not ours.overloaded(net)
    assert ours.records_per_s == pytest.approx(90_560)
    assert ours.planned <= 0.67 * unshared_bytes
    assert at_source.planned <= unshared_bytes / 3
    assert ours.records_per_s >= sum(most_shared.values()) * (1 - 1e-9)
    if name == "network-measured.json":
        ratios = [ours.queries[query].records_per_s / records for query, records in unshared.items()]
        assert sum(ratios) / len(ratios) >= 1.21
