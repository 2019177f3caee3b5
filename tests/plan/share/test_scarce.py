"""Where a link is too narrow for all contracts, those who can do without it leave it to those who cannot."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.plan.versions import Asked, plan_versions, say_what_replanning_would_keep

ROWS = "SELECT pid, kind, body FROM {}"
COUNTS = "SELECT kind, count(*) AS n, max(body) AS body FROM {} GROUP BY kind"


def two_contracts(bandwidth: str, rate: float = 1000.0, cpu: float = 9.0) -> Catalogue:
    """`counts` is small and comes first; it takes 1 MB/s if its rows are counted at `eu`, where that is cheaper, and
    hardly anything if they are counted at `us`. `rows` takes 1 MB/s in any case.
    """
    project = Project("posts", headroom={"cpu": 0, "link": 0, "blocking": 0})
    project.site("us", cpu=f"{cpu} $/core-hour", disk="0 $/GB-month")
    project.site("eu", cpu="0.01 $/core-hour", disk="0 $/GB-month")
    project.link(between=("us", "eu"), bandwidth=bandwidth, latency="10 ms", price="0.00001 $/GB")
    columns: dict[str, str | dict[str, str | float]] = {
        "pid": "bigint",
        "kind": {"type": "bigint", "distinct": 7},
        "body": {"type": "string", "width": 1000},
    }
    for name in ("posts", "letters"):
        project.source(name, at="us", key="pid", rows=1e5, rate=rate, columns=columns)
    project.view("counts", COUNTS.format("posts"))
    project.view("rows", ROWS.format("letters"))
    project.contract("counts", view="counts", at="eu", freshness="20 s")
    project.contract("rows", view="rows", at="eu", freshness="20 s")
    return project.catalogue


def test_a_contract_that_fills_a_link_for_a_small_saving_leaves_it_to_one_that_needs_it() -> None:
    wide, narrow = make_plan(two_contracts("10 MB/s")), make_plan(two_contracts("1.5 MB/s"))
    assert wide.totals.link["us", "eu"] > 1.9e6, "where there is room, rows are counted where that is cheap"
    assert {one.contract for one in narrow.contracts} == {"counts", "rows"} and not narrow.rejected
    assert narrow.totals.link["us", "eu"] < 1.5e6
    assert {link.price_gb for link in narrow.catalogue.links} == {0.00001}, "prices stay as they are declared"


def test_where_nothing_helps_the_refusal_stays() -> None:
    plan = make_plan(two_contracts("0.5 MB/s"))
    assert [one.contract for one in plan.rejected] == ["rows"]


def test_a_newcomer_is_told_that_planning_all_anew_would_make_room() -> None:
    """Nobody who runs moves for one who comes; whoever wants that can ask for it."""
    for bandwidth, is_told in (("1.5 MB/s", True), ("0.5 MB/s", False)):
        catalogue = two_contracts(bandwidth)
        running = make_plan(replace(catalogue, contracts={"counts": catalogue.contracts["counts"]}))
        asked = Asked(catalogue)
        plan, _ = plan_versions(running, asked)
        told = say_what_replanning_would_keep(plan, running, asked)
        assert [one.contract for one in told.rejected] == ["rows"] and told.graph == plan.graph
        assert told.rejected[0].detail.endswith("; `apply --replan` makes room for it, and may move others") == is_told
        anew, _ = plan_versions(running, replace(asked, from_nothing=True))
        assert bool(anew.rejected) != is_told


@settings(max_examples=15)
@given(st.floats(0.3, 4.0), st.floats(0.02, 20.0))
def test_no_plan_takes_more_of_a_link_than_it_carries_and_every_plan_stands_a_check(carries: float, cpu: float) -> None:
    plan = make_plan(two_contracts(f"{carries:.3f} MB/s", cpu=cpu))
    assert plan.totals.link.get(("us", "eu"), 0.0) <= carries * 1.001e6
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []
    if carries >= 1.2:
        assert not plan.rejected, "both fit if rows are counted at us"
