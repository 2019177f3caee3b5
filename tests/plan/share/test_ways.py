"""A contract with `refresh: auto` is planned in the cheaper way that keeps it, and says so."""

from __future__ import annotations

import json
import random
from math import inf
from typing import Literal

import pytest

from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.model.plan import Plan, PlanOptions
from headrace.model.plan_modes import Method, Sharing, WideArea
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.figures import score
from headrace.plan.make import make_plan
from headrace.plan.share.arrangement import arrangement_of

VIEWS = {
    "joined": "SELECT o.oid, o.total, c.country FROM orders o JOIN customers c ON o.cid = c.cid",
    "large": "SELECT oid, total FROM orders WHERE total > 100",
    "by_country": "SELECT c.country, count(*) AS n FROM orders o JOIN customers c ON o.cid = c.cid GROUP BY c.country",
    "top": "SELECT cid, sum(total) AS spent FROM orders GROUP BY cid ORDER BY spent DESC LIMIT 10",
}


Way = Literal["incremental", "full", "auto"]
WAYS: tuple[Way, Way] = ("incremental", "full")


def view_of(rng: random.Random) -> str:
    return rng.choice(list(VIEWS))


def random_project(seed: int, refresh: Way, others: int = 0) -> Catalogue:
    """One contract that is refreshed as asked for, `sales`, and some that are maintained."""
    rng = random.Random(f"ways {seed}")
    project = Project("shop", headroom={"cpu": 0, "link": 0, "blocking": 0})
    sites = ["us", "eu"]
    for name in sites:
        cores = rng.choice([None, None, 0.5, 0.05])
        project.site(name, cpu="0.34 $/core-hour", disk=rng.choice(["0 $/GB-month", "100 $/GB-month"]), cores=cores)
    bandwidth = rng.choice(["10 MB/s", "20 kB/s"])
    project.link(between=("us", "eu"), bandwidth=bandwidth, latency="50 ms", price="0.02 $/GB")
    for name, key, more in (("orders", "oid", ["cid", "total"]), ("customers", "cid", ["country"])):
        rows, rate = rng.choice([10, 1e3, 1e5, 1e6]), rng.choice([0.01, 1, 100, 10_000])
        columns = dict.fromkeys((key, *more), "bigint")
        project.source(name, at=rng.choice(sites), key=key, rows=rows, rate=rate, columns=columns)
    for name, sql in VIEWS.items():
        project.view(name, sql)
    at, freshness = rng.choice(sites), rng.choice(["1 s", "10 s", "10 min", "1 d"])
    project.contract(
        "sales", view=view_of(rng), at=at, freshness=freshness, penalty=rng.choice([0, 0.001]), refresh=refresh
    )
    for number in range(others):
        at = rng.choice(sites)
        project.contract(f"other {number}", view=view_of(rng), at=at, freshness=rng.choice(["10 s", "10 min"]))
    return project.catalogue


def score_of(plan: Plan) -> tuple[int, float]:
    """What is compared: how many are refused, and the score of the others."""
    return len(plan.rejected), score(arrangement_of(plan))


def offered(plan: Plan) -> float | None:
    """What could be promised instead, in seconds; None if the contract is kept."""
    refused = next((one for one in plan.rejected if one.contract == "sales"), None)
    return None if refused is None else refused.smallest_staleness_s or inf


def check_choice(auto: Plan, each: dict[Way, Plan]) -> str:
    """Which way was taken; what it costs is the least of both, and what is refused in one is kept in the other.

    Among others it may cost less than both: each contract is tried in both ways when all others are there.
    """
    best = min(map(score_of, each.values()))
    assert score_of(auto)[0] == best[0]
    assert score_of(auto)[1] <= best[1] * (1 + 1e-9)
    assert check_document(json.loads(json.dumps(plan_document(auto)))) == []
    if offered(auto) is not None:
        assert offered(auto) == min(offered(one) or inf for one in each.values())
        return "refused"
    taken = "full" if auto.catalogue.is_in_full("sales") else "incremental"
    if len(auto.contracts) == 1:
        refused, cost = score_of(each["incremental"])
        is_full = (best[0], best[1] * (1 + 1e-9)) < (refused, cost)
        assert taken == ("full" if is_full else "incremental")
        assert score_of(auto)[1] == pytest.approx(best[1], rel=1e-9)
    other: Way = "incremental" if taken == "full" else "full"
    return taken if not each[other].rejected else f"{taken}, the other is refused"


def plan_ways(seed: int, options: PlanOptions, others: int = 0) -> tuple[Plan, dict[Way, Plan]]:
    each = {way: make_plan(random_project(seed, way, others), options) for way in WAYS}
    return make_plan(random_project(seed, "auto", others), options), each


def test_the_cheaper_way_that_keeps_the_promise_is_taken():
    seen = {check_choice(*plan_ways(seed, PlanOptions())) for seed in range(60)}
    refused = {"refused", "incremental, the other is refused", "full, the other is refused"}
    assert seen == {"incremental", "full", *refused}


@pytest.mark.parametrize(
    "options",
    [
        PlanOptions(sharing=Sharing.NONE),
        PlanOptions(sharing=Sharing.PLUMB),
        PlanOptions(method=Method.SMILE),
        PlanOptions(wide_area=WideArea.DEFAULT),
    ],
    ids=["none", "plumb", "smile", "wide area"],
)
def test_the_cheaper_way_is_taken_by_every_search(options: PlanOptions):
    seen = {check_choice(*plan_ways(seed, options)) for seed in range(15)}
    assert seen >= {"incremental", "full"}


def test_the_cheaper_way_is_taken_among_other_contracts():
    seen = {check_choice(*plan_ways(seed, PlanOptions(), others=2)) for seed in range(30)}
    assert seen >= {"incremental", "full"}
