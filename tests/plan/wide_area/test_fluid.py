"""The fluid model against worked numbers and published totals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.workloads.wide_area_files import compute_sites, read_network, read_workload
from headrace.plan.wide_area.fluid import Deployment, FlowSharing, max_min_fair, predict
from headrace.plan.wide_area.streams import QueryOperator, SiteNetwork, SiteStream, StreamQuery, Workload, stream_of

PUBLISHED = Path(__file__).parents[3].parent / "shared" / "workloads" / "wide-area"

LINK = ("a", "b")
NETWORK = SiteNetwork(("a", "b"), frozenset({"b"}), {LINK: 10e6}, {LINK: 0.05})


def sink(query: str, stream: str) -> StreamQuery:
    return StreamQuery(query, (QueryOperator(f"{query}.sink", query, (stream,), 1.0, 8.0, pinned="b"),))


def test_two_flows_share_a_full_link_max_min_fairly() -> None:
    streams = {"x": SiteStream("x", "a", 2000, 4000), "y": SiteStream("y", "a", 1000, 4000)}
    workload = Workload(streams, (sink("X", "x"), sink("Y", "y")))
    answer = predict(workload, NETWORK, {"X": {"X.sink": "b"}, "Y": {"Y.sink": "b"}}, FlowSharing.NONE)
    assert answer.queries["X"].records_per_s == pytest.approx(1500)
    assert answer.queries["X"].latency_s == pytest.approx(20.05)
    assert answer.queries["Y"].records_per_s == pytest.approx(1000)
    assert answer.queries["Y"].latency_s == pytest.approx(0.05)
    assert answer.overloaded(NETWORK) == (LINK,)


def test_one_copy_for_two_readers_gets_through_where_two_copies_do_not() -> None:
    workload = Workload({"x": SiteStream("x", "a", 2000, 3000)}, (sink("X", "x"), sink("Y", "x")))
    deployment = {"X": {"X.sink": "b"}, "Y": {"Y.sink": "b"}}
    apart = predict(workload, NETWORK, deployment, FlowSharing.NONE)
    together = predict(workload, NETWORK, deployment, FlowSharing.ALL)
    assert [apart.queries[q].records_per_s for q in "XY"] == pytest.approx([2000 * 5 / 6] * 2)
    assert [together.queries[q].records_per_s for q in "XY"] == pytest.approx([2000] * 2)
    assert (apart.achieved, together.achieved) == pytest.approx((10e6, 6e6))


def test_max_min_fair_never_exceeds_the_link_and_never_starves_a_small_flow() -> None:
    achieved = max_min_fair({("big",): 100.0, ("small",): 1.0, ("middle",): 6.0}, 10.0)
    assert achieved == {("small",): 1.0, ("middle",): 4.5, ("big",): 4.5}


def _at_sink(workload: Workload, network: SiteNetwork) -> Deployment:
    return {query.id: {op.id: query.sink.pinned or "" for op in query.operators} for query in workload.queries}


def _one_source_operators(workload: Workload, where: Callable[[SiteStream], str]) -> dict[str, dict[str, str]]:
    deployment: dict[str, dict[str, str]] = {}
    for query in workload.queries:
        deployment[query.id] = {}
        for op in query.operators:
            stream = stream_of(query, op, workload.streams)
            deployment[query.id][op.id] = where(stream) if stream is not None else query.sink.pinned or ""
    return deployment


def _placement(name: str, workload: Workload, network: SiteNetwork) -> Deployment:
    if name == "sink":
        return _at_sink(workload, network)
    if name == "source":
        return _one_source_operators(workload, lambda stream: stream.site)
    nearest = {
        site: min(sorted(network.compute), key=lambda to: network.latency[site, to])
        for site in network.sites
        if site not in network.compute
    }
    return _one_source_operators(workload, lambda stream: nearest[stream.site])


@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the published workload in ../shared/workloads/wide-area")
def test_all_published_reference_plans_are_reproduced() -> None:
    workload = read_workload(PUBLISHED / "workload.json")
    compute = compute_sites(PUBLISHED / "workload.json")
    plans = json.loads((PUBLISHED / "totals.json").read_text())["plans"]
    assert len(plans) == 54
    for plan in plans:
        network = read_network(PUBLISHED / plan["network"], compute)
        answer = predict(
            workload, network, _placement(plan["placement"], workload, network), FlowSharing(plan["sharing"])
        )
        assert answer.planned / 1e6 == pytest.approx(plan["planned"], abs=0.006)
        assert answer.achieved / 1e6 == pytest.approx(plan["achieved"], abs=0.006)
        assert {f"{a}>{b}" for a, b in answer.overloaded(network)} == set(plan["overloaded"])
        for query, (records, latency) in plan["per_query"].items():
            assert answer.queries[query].records_per_s == pytest.approx(records, abs=0.51)
            assert answer.queries[query].latency_s == pytest.approx(latency, abs=0.006)
