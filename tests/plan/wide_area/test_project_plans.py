"""Contracts of a project, placed operator by operator: what the modes decide is a plan like any other."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.model.plan import Operator, Plan, PlanOptions
from headrace.model.plan_modes import Prefer, WideArea
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan, plan_on_running
from headrace.testing.plans import simulate
from tests.examples import examples
from tests.plan.share.projects import SITES, VIEWS, shop, wanted, with_contracts
from tests.plan.written import contract

TERMS = st.tuples(st.sampled_from(sorted(VIEWS)), st.sampled_from(SITES), st.sampled_from((10.0, 60.0)))


def planned(catalogue: Catalogue, mode: WideArea, prefer: Prefer = Prefer.BYTES) -> Plan:
    return make_plan(catalogue, PlanOptions(wide_area=mode, prefer=prefer))


def document_of(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plan_document(plan), allow_nan=False))
    return found


def bytes_sent(plan: Plan) -> float:
    return sum(plan.totals.link.values())


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    terms=st.lists(TERMS, min_size=1, max_size=4, unique_by=lambda terms: terms[:2]),
    mode=st.sampled_from(WideArea),
    prefer=st.sampled_from(Prefer),
    seed=st.integers(0, 9),
)
def test_every_mode_makes_a_plan_that_passes_the_check_and_gives_what_the_queries_give(terms, mode, prefer, seed):
    plan = planned(with_contracts(shop(), (wanted(*one) for one in terms)), mode, prefer)
    document = document_of(plan)
    assert check_document(document) == []
    assert simulate(document, seed, changes=10) == []
    assert len(plan.contracts) + len(plan.rejected) == len(terms)


@pytest.mark.parametrize("mode", WideArea)
def test_modes_that_share_send_less_for_equal_views_and_others_keep_them_apart(mode):
    one = planned(with_contracts(shop(), [wanted("sales")]), mode)
    both = planned(with_contracts(shop(), [wanted("sales"), wanted("sales", name="again")]), mode)
    if mode in (WideArea.DEFAULT, WideArea.NET, WideArea.NO_SHARE):
        assert bytes_sent(both) == pytest.approx(2 * bytes_sent(one))
        assert all(len(figures.serves) == 1 for figures in both.vertex_figures.values())
    else:
        assert bytes_sent(both) == pytest.approx(bytes_sent(one))


def test_without_looking_at_links_all_operators_run_where_the_first_table_is():
    plan = planned(with_contracts(shop(), [wanted("bought", "asia")]), WideArea.DEFAULT)
    joins = {plan.graph.vertices[name].site for name, edge in plan.graph.edges.items() if edge.op is Operator.JOIN}
    assert len(joins) == 1
    assert joins <= {"us", "eu"}


def thin_link(bandwidth: str) -> Catalogue:
    """Two views of one join, wanted at two sites; between them the link is thin."""
    project = Project("thin", headroom={"cpu": 0, "link": 0.1, "blocking": 0})
    for name in ("a", "b", "c"):
        project.site(name, cpu="0.1 $/core-hour", disk="0.1 $/GB-month")
    for first, second in (("a", "b"), ("a", "c")):
        project.link(between=(first, second), bandwidth="100 MB/s", latency="20 ms", price="0.01 $/GB")
    project.link(between=("b", "c"), bandwidth=bandwidth, latency="5 ms", price="0.01 $/GB")
    columns = {"k": "bigint", "x": "bigint", "y": "bigint"}
    project.source("r", at="a", key="k", rows=1e5, rate=100, columns=columns)
    project.source("s", at="b", key="k", rows=1e5, rate=100, columns=columns)
    project.view("v", "SELECT r.k, r.x, s.y FROM r JOIN s ON r.k = s.k")
    contracts = [contract("first", "v", "b", 60.0, 0.0), contract("second", "v", "c", 60.0, 0.0)]
    return with_contracts(project.catalogue, contracts)


def test_a_share_that_would_fill_a_link_is_refused_and_the_next_best_is_taken():
    wide = planned(thin_link("10 MB/s"), WideArea.SANA)
    assert not wide.rejected
    assert ("b", "c") in wide.totals.link
    thin = planned(thin_link("1 kB/s"), WideArea.SANA)
    assert not thin.rejected
    assert thin.totals.link.get(("b", "c"), 0.0) <= 900
    blind = planned(thin_link("1 kB/s"), WideArea.MAX_SHARE)
    assert [(entry.contract, entry.reason) for entry in blind.rejected] == [("second", "link:b>c")]
    for plan in (wide, thin, blind):
        assert check_document(document_of(plan)) == []


def test_a_placement_that_is_too_late_is_refused_with_its_critical_path():
    hurried = with_contracts(shop(), [wanted("bought", "asia", 0.9)])
    plan = planned(hurried, WideArea.NET)
    (refused,) = plan.rejected
    assert refused.reason == "freshness"
    assert refused.fastest_cp_s is not None
    assert refused.fastest_cp_s > 0.45
    assert '"net"' in refused.detail


def test_one_that_is_forced_is_placed_by_its_mode_however_late_it_is():
    catalogue = with_contracts(shop(), [wanted("bought", "asia", 0.9)])
    forced = {name: replace(one, forced=True) for name, one in catalogue.contracts.items()}
    plan = planned(replace(catalogue, contracts=forced), WideArea.NET)
    assert not plan.rejected
    (late,) = plan.contracts
    assert late.critical_path_s > 0.45
    assert check_document(document_of(plan)) == []


def streams_of_two_sites(into_sources: bool) -> Catalogue:
    """Two views of the same rows of two sites, wanted at two others; the link between those is narrow."""
    project = Project("streams", headroom={"cpu": 0, "link": 0.1, "blocking": 0})
    for name in ("here", "there", "first", "second"):
        project.site(name, cpu="0.1 $/core-hour")
    links = [(a, b, "10 MB/s") for a in ("here", "there") for b in ("first", "second")]
    links += [("first", "second", "50 kB/s"), ("second", "first", "50 kB/s")]
    links += [("here", "there", "10 MB/s"), ("there", "here", "10 MB/s")] if into_sources else []
    for start, end, bandwidth in links:
        project.link(from_=start, to=end, bandwidth=bandwidth, latency="5 ms", price="0.01 $/GB")
    columns: dict[str, str | dict[str, str | float]] = {
        "id": "bigint",
        "k": {"type": "bigint", "distinct": 10},
        "body": {"type": "string", "width": 1000},
    }
    for name in ("here", "there"):
        project.source(f"r_{name}", at=name, key="id", rows=1e6, rate=200, columns=columns)
    rows = " UNION ALL ".join(f"SELECT k, body FROM r_{name}" for name in ("here", "there"))
    project.view("sizes", f"SELECT k, sum(length(body)) AS size FROM ({rows}) GROUP BY k")
    project.view("counts", f"SELECT k, max(length(body)) AS longest, count(*) AS n FROM ({rows}) GROUP BY k")
    contracts = [contract("a", "sizes", "first", 20.0, 0.0), contract("b", "counts", "second", 20.0, 0.0)]
    return with_contracts(project.catalogue, contracts)


def test_groups_of_united_rows_are_made_where_the_rows_are_already_as_only_groups_are_sent_on():
    """All rows would not fit over the link on which the groups have room."""
    plan = planned(streams_of_two_sites(into_sources=False), WideArea.SANA)
    assert not plan.rejected
    assert check_document(document_of(plan)) == []
    sent = plan.totals.link
    assert sum(size for ends, size in sent.items() if ends[0] in ("here", "there")) == pytest.approx(2 * 200 * 1024)
    assert len([ends for ends in sent if ends[0] in ("first", "second")]) == 1


def test_one_that_comes_later_finds_united_rows_where_they_run():
    catalogue = streams_of_two_sites(into_sources=False)
    alone = planned(replace(catalogue, contracts={"a": catalogue.contracts["a"]}), WideArea.SANA)
    both = plan_on_running(alone, catalogue)
    assert not both.rejected
    assert set(alone.graph.vertices) <= set(both.graph.vertices)
    assert both.totals.link == planned(catalogue, WideArea.SANA).totals.link


def test_without_looking_at_links_operators_still_run_where_a_link_leads():
    plan = planned(streams_of_two_sites(into_sources=False), WideArea.DEFAULT)
    assert not plan.rejected
    made = {plan.graph.vertices[name].site for name, edge in plan.graph.edges.items() if edge.op is Operator.UNION}
    assert made <= {"first", "second"}
    plan = planned(streams_of_two_sites(into_sources=True), WideArea.DEFAULT)
    made = {plan.graph.vertices[name].site for name, edge in plan.graph.edges.items() if edge.op is Operator.UNION}
    assert made <= {"here", "there"}


def test_where_latency_is_preferred_a_far_operator_is_not_shared():
    project = Project("far", headroom={"cpu": 0, "link": 0, "blocking": 0})
    for name in ("here", "far", "also_here"):
        project.site(name, cpu="0.1 $/core-hour")
    for first, second, latency in (
        ("here", "also_here", "5 ms"),
        ("here", "far", "300 ms"),
        ("also_here", "far", "300 ms"),
    ):
        project.link(between=(first, second), bandwidth="100 MB/s", latency=latency, price="0.01 $/GB")
    columns = {"k": "bigint", "x": "bigint"}
    project.source("r", at="here", key="k", rows=1e5, rate=100, columns=columns)
    project.source("s", at="also_here", key="k", rows=1e5, rate=100, columns=columns)
    project.source("t", at="far", key="k", rows=1e5, rate=1000, columns={**columns, "pad": "string"})
    project.view("v", "SELECT r.k, r.x, s.x AS y FROM r JOIN s ON r.k = s.k")
    contracts = [contract("first", "v", "far", 60.0, 0.0), contract("second", "v", "here", 60.0, 0.0)]
    catalogue = with_contracts(project.catalogue, contracts)
    for prefer in Prefer:
        plan = planned(catalogue, WideArea.SANA, prefer)
        assert not plan.rejected
        assert check_document(document_of(plan)) == []
    soon = planned(catalogue, WideArea.SANA, Prefer.LATENCY)
    late = planned(catalogue, WideArea.SANA, Prefer.BYTES)
    at = {plan.options.prefer: plan.contracts[1].critical_path_s for plan in (soon, late)}
    assert at[Prefer.LATENCY] <= at[Prefer.BYTES]
