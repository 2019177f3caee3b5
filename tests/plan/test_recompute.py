"""Views that are recomputed are priced by all rows that they read and make, and admitted as such."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue
from headrace.model.plan import Plan, PlanOptions, VertexKind
from headrace.model.plan_modes import Sharing, WideArea
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.explain import why
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.share.adapt import plan_as_measured
from headrace.plan.share.revalue import Measured

PROJECT = """
project: auctions
sites: {us: {cpu: 3.6 $/core-hour, CORES}, eu: {cpu: 3.6 $/core-hour}}
links: [{between: [us, eu], bandwidth: 1 MB/s, latency: 10 ms, price: 1 $/GB}]
sources:
  bids: {kind: table, at: us, key: [id], rows: 100000, rate: 10 /s, STAYS
    columns: {id: bigint, auction: int, price: bigint}}
  auctions: {kind: table, at: eu, key: [id], rows: 1000, rate: 1 /s, columns: {id: int, seller: int}}
operator_times:
  derive: {fixed: 0.1, per_in: 0.000001, per_out: 0.000002}
  apply: {fixed: 0.05, per_in: 0, per_out: 0}
  copy: {fixed: 0, per_in: 0, per_out: 0}
contracts:
"""
RANKED = "SELECT id, rank() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bids"
RANKED_S = 0.1 + 1e-6 * 100_000 + 2e-6 * 100_000
"""One push: all rows of bids in, as many rows of the view out."""


def project(folder: Path, contracts: str, cores: str = "cores: 2", stays: str = "", **views: str) -> Catalogue:
    (folder / "views").mkdir(exist_ok=True)
    text = PROJECT.replace("CORES", cores).replace("STAYS", stays)
    (folder / "headrace.yml").write_text(text + contracts)
    for name, sql in (views or {"ranked": RANKED}).items():
        (folder / "views" / f"{name}.sql").write_text(sql)
    return read_project(folder, {})


def full(name: str, freshness: str = "30 s", view: str = "ranked", at: str = "us") -> str:
    return f"  {name}: {{view: {view}, at: {at}, freshness: {freshness}, refresh: full}}\n"


def is_right(plan: Plan) -> bool:
    return check_document(json.loads(json.dumps(plan_document(plan)))) == []


@pytest.mark.parametrize("freshness_s", [2, 30, 3000])
def test_a_push_takes_as_long_whatever_has_changed(tmp_path: Path, freshness_s: int):
    plan = make_plan(project(tmp_path, full("a", f"{freshness_s} s")))
    (kept,) = plan.contracts
    assert kept.critical_path_s == pytest.approx(RANKED_S + 0.05)
    assert plan.totals.cpu["us"] == pytest.approx((RANKED_S + 0.05) / (freshness_s / 2))
    made = next(edge for edge in plan.graph.edges.values() if edge.is_recomputed)
    assert made.inputs == ("d:bids|bids@us", "r:bids@us")
    assert plan.edge_figures[made.output].time_s == pytest.approx(RANKED_S)
    assert is_right(plan)


def test_rows_are_those_of_the_largest_source_and_change_at_most_once_in_a_push(tmp_path: Path):
    sellers = (
        "SELECT seller, regr_count(price, price) OVER (ORDER BY price) AS r "
        "FROM bids JOIN auctions ON auctions.id = bids.auction"
    )
    plan = make_plan(project(tmp_path, full("a", "60 s", "sellers") + full("b", "1 d", "sellers"), sellers=sellers))
    made = next(plan.graph.vertices[name] for name, edge in plan.graph.edges.items() if edge.is_recomputed)
    assert made.rows == 100_000
    assert made.rate.at(30) == pytest.approx(2 * 11, rel=0.01)
    assert made.rate.at(1e9) == pytest.approx(2 * 100_000 / 1e9)
    assert is_right(plan)


# Refusals


def test_a_freshness_that_is_too_small_is_refused_with_what_would_do(tmp_path: Path):
    plan = make_plan(project(tmp_path, full("a", "500 ms")))
    (refused,) = plan.rejected
    assert refused.reason == "freshness"
    assert refused.fastest_cp_s == pytest.approx(RANKED_S + 0.05)
    assert refused.smallest_staleness_s == pytest.approx(2 * (RANKED_S + 0.05), rel=1e-6)
    offered = f"{refused.smallest_staleness_s} s"
    assert not make_plan(project(tmp_path, full("a", offered))).rejected


def test_cores_that_are_too_few_are_refused_with_what_would_do(tmp_path: Path):
    plan = make_plan(project(tmp_path, full("a", "30 s"), cores="cores: 0.01", stays="stays: [us],"))
    (refused,) = plan.rejected
    assert refused.reason == "cpu:us"
    assert refused.smallest_staleness_s == pytest.approx(2 * (RANKED_S + 0.05) / 0.01, rel=1e-6)


def test_rows_that_stay_are_not_recomputed_elsewhere(tmp_path: Path):
    plan = make_plan(project(tmp_path, full("a", at="eu"), stays="stays: [us],"))
    assert [one.reason for one in plan.rejected] == ["stays:bids"]


# Sharing


def test_what_is_recomputed_shares_its_sources_with_what_is_maintained(tmp_path: Path):
    joined = "SELECT bids.*, seller FROM bids JOIN auctions ON auctions.id = bids.auction"
    ranked = f"SELECT b.*, rank() OVER (ORDER BY price) AS place FROM ({joined}) AS b"
    contracts = "  m: {view: joined, at: us, freshness: 30 s}\n" + full("r")
    plan = make_plan(project(tmp_path, contracts, joined=joined, ranked=ranked))
    assert not plan.rejected
    copies = [name for name in plan.graph.vertices if name.startswith("d:auctions") and name.endswith("@us")]
    assert [plan.vertex_figures[name].serves for name in copies] == [("r", "m")]
    assert is_right(plan)


def test_two_contracts_of_one_view_are_recomputed_once(tmp_path: Path):
    plan = make_plan(project(tmp_path, full("a", "1 min") + full("b", "5 min") + full("c", "1 min", at="eu")))
    assert sum(edge.is_recomputed for edge in plan.graph.edges.values()) == 1
    assert is_right(plan)


def test_the_view_is_recomputed_where_that_is_cheapest_and_its_changes_travel(tmp_path: Path):
    plan = make_plan(project(tmp_path, full("a", at="eu")))
    made = next(name for name, edge in plan.graph.edges.items() if edge.is_recomputed)
    assert plan.graph.vertices[made].site == "us"
    assert plan.graph.vertices[plan.contracts[0].vertex].site == "eu"
    assert is_right(plan)


def test_asked_is_asked_also_for_sql_that_is_maintained(tmp_path: Path):
    counts = "SELECT auction, count(*) AS n FROM bids GROUP BY auction"
    contracts = "  m: {view: maintained, at: us, freshness: 30 s}\n" + full("r", view="again")
    plan = make_plan(project(tmp_path, contracts, maintained=counts, again=counts))
    vertices = [plan.graph.vertices[one.vertex] for one in plan.contracts]
    assert len({vertex.fingerprint for vertex in vertices}) == 2
    assert [one.op for one in plan.graph.edges.values() if one.is_recomputed] == ["derive"]
    assert is_right(plan)


def test_one_view_is_kept_in_both_ways_if_both_are_asked_for(tmp_path: Path):
    counts = "SELECT auction, count(*) AS n FROM bids GROUP BY auction"
    contracts = "  m: {view: counts, at: us, freshness: 30 s}\n" + full("r", view="counts")
    plan = make_plan(project(tmp_path, contracts, counts=counts))
    assert {one.contract: one.view for one in plan.contracts} == {"m": "counts", "r": "counts~full"}
    assert is_right(plan)


@pytest.mark.parametrize("mode", list(WideArea))
def test_scheduling_across_a_wide_area_knows_it(tmp_path: Path, mode: WideArea):
    plan = make_plan(project(tmp_path, full("a") + full("b", at="eu")), PlanOptions(wide_area=mode))
    assert not plan.rejected
    assert is_right(plan)


@pytest.mark.parametrize("sharing", list(Sharing))
def test_every_way_of_sharing_knows_it(tmp_path: Path, sharing: Sharing):
    plan = make_plan(project(tmp_path, full("a") + full("b", at="eu")), PlanOptions(sharing=sharing))
    assert not plan.rejected
    assert is_right(plan)


# What runs


def test_what_runs_is_kept_until_another_way_is_asked_for(tmp_path: Path):
    counts = "SELECT auction, count(*) AS n FROM bids GROUP BY auction"
    before = make_plan(project(tmp_path, full("a", view="v"), v=counts))
    same = plan_on_running(before, project(tmp_path, full("a", view="v") + full("b", view="v"), v=counts))
    assert before.graph.vertices.keys() == same.graph.vertices.keys()
    maintained = "  a: {view: v, at: us, freshness: 30 s}\n"
    after = plan_on_running(before, project(tmp_path, maintained, v=counts))
    assert not any(edge.is_recomputed for edge in after.graph.edges.values())


def test_measured_rates_change_what_is_kept_and_not_what_a_push_takes(tmp_path: Path):
    before = make_plan(project(tmp_path, full("a")))
    after = plan_as_measured(before, Measured(0.0, {"bids": 1000.0}))
    assert after.contracts[0].critical_path_s == pytest.approx(before.contracts[0].critical_path_s)
    changes = [next(v for v in plan.graph.vertices.values() if v.stands_for == "ranked") for plan in (before, after)]
    assert all(vertex.kind is VertexKind.DELTA and vertex.rows == 100_000 for vertex in changes)
    assert changes[1].rate.at(15) > 50 * changes[0].rate.at(15)


def test_why_names_the_whole_way(tmp_path: Path):
    plan = make_plan(project(tmp_path, full("a")))
    (answer,) = why(plan, "a")
    assert [step.op for step in answer.steps] == [None, "capture", "derive", "apply"]  # type: ignore[union-attr]


# The checker


def forget_relation(document: dict[str, Any]) -> None:
    derive(document)["in"].pop()


def forget_changes(document: dict[str, Any]) -> None:
    derive(document)["in"] = derive(document)["in"][1:]


def evaluate_something_else(document: dict[str, Any]) -> None:
    derive(document)["derive"]["args"]["sql"] += " LIMIT 1"


def read_fewer_rows(document: dict[str, Any]) -> None:
    next(v for v in document["vertices"] if v["id"] == "r:bids@us")["rows"] = 10


def make_fewer_rows(document: dict[str, Any]) -> None:
    next(v for v in document["vertices"] if v["id"] == derive(document)["out"])["rows"] = 10


def count_changes_only(document: dict[str, Any]) -> None:
    document["contracts"][0]["critical_path_s"] = 0.15


def charge_changes_only(document: dict[str, Any]) -> None:
    document["totals"]["cpu"]["us"] /= 2


def promise_more(document: dict[str, Any]) -> None:
    document["contracts"][0] |= {"staleness": 0.5, "batch_s": 0.25}


def derive(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(edge for edge in document["edges"] if edge["op"] == "derive")
    return found


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (forget_relation, "relation"),
        (forget_changes, ""),
        (evaluate_something_else, "operator of no view"),
        (read_fewer_rows, "rows"),
        (make_fewer_rows, "rows"),
        (count_changes_only, "critical path"),
        (charge_changes_only, "is"),
        (promise_more, "too long"),
    ],
)
def test_the_checker_finds_what_is_wrong(tmp_path: Path, harm: Callable[[dict[str, Any]], None], word: str):
    document = json.loads(json.dumps(plan_document(make_plan(project(tmp_path, full("a"))))))
    assert check_document(document) == []
    harmed = copy.deepcopy(document)
    harm(harmed)
    found = check_document(harmed)
    assert found
    assert any(word in what for _, what in found), found


def test_views_that_are_recomputed_are_not_unsupported(tmp_path: Path):
    document = plan_document(make_plan(project(tmp_path, full("a"))))
    (view,) = document["views"]
    assert "unsupported" not in view
    assert view["derive"] == {"kind": "full", "args": {"sql": RANKED.replace("bids", "`source:bids` AS `bids`")}}
