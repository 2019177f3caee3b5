"""First rows from wider first rows: the newest posts without their texts are those with their texts."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from headrace import Project
from headrace.model.block import DerivationKind
from headrace.model.catalogue import Catalogue, Contract
from headrace.model.plan import Plan, PlanOptions
from headrace.model.plan_modes import Sharing
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.plan.share.change import add_contract, remove_contract
from headrace.testing.plans import simulate
from tests.plan.share.projects import with_contracts
from tests.plan.written import contract

RANKED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY author ORDER BY ts DESC, pid DESC) AS n FROM posts)"
VIEWS = {
    "newest": f"SELECT pid, author, ts, body FROM {RANKED} WHERE n <= 3",
    "renamed": f"SELECT pid AS id, author AS who, ts AS since, upper(body) AS loud FROM {RANKED} WHERE n <= 3",
    "times": f"SELECT author, ts FROM {RANKED} WHERE n <= 3",
    "newest_two": f"SELECT author, ts FROM {RANKED} WHERE n <= 2",
    "stored": f"""
        SELECT f.who, x.author, x.ts, x.pid FROM follows f
        JOIN (SELECT author, ts, pid FROM {RANKED} WHERE n <= 3) x ON x.author = f.whom WHERE f.whom > 1
    """,
    "both": f"""
        SELECT x.pid, y.pid AS other FROM (SELECT author, pid FROM {RANKED} WHERE n <= 3) x
        JOIN (SELECT author, pid FROM {RANKED} WHERE n <= 3) y ON x.author = y.author WHERE x.pid < y.pid
    """,
}


@cache
def project() -> Catalogue:
    made = Project("social", headroom={"cpu": 0, "link": 0, "blocking": 0})
    for name in ("us", "eu"):
        made.site(name, cpu="0.34 $/core-hour", disk="0.11 $/GB-month")
    made.link(between=("us", "eu"), bandwidth="10 MB/s", latency="50 ms", price="0.02 $/GB")
    posts: dict[str, str | dict[str, str | float]] = {
        "pid": "bigint",
        "author": {"type": "bigint", "distinct": 1000},
        "ts": "timestamp",
        "body": {"type": "string", "width": 200},
    }
    made.source("posts", at="us", key="pid", rows=1e6, rate=100, columns=posts)
    made.source("follows", at="us", key=["who", "whom"], rows=1e5, rate=1, columns={"who": "bigint", "whom": "bigint"})
    for name, sql in VIEWS.items():
        made.view(name, sql)
    return made.catalogue


def wanted(view: str, at: str = "us", freshness: float = 60.0) -> Contract:
    return contract(f"{view}_{at}", view, at, freshness, 0.0)


def plan_for(*contracts: Contract, sharing: Sharing = Sharing.MARGINAL) -> Plan:
    return make_plan(with_contracts(project(), contracts), PlanOptions(sharing=sharing))


def sources_of(plan: Plan, view: str) -> list[str]:
    return next(list(entry.reads.values()) for entry in plan.blocks if entry.block.id == view)


def count_tops(plan: Plan) -> int:
    derived = (edge.derivation for edge in plan.graph.edges.values() if edge.derivation is not None)
    return sum(one.kind is DerivationKind.TOPK for one in derived)


def assert_right(plan: Plan) -> None:
    document: dict[str, Any] = json.loads(json.dumps(plan_document(plan), allow_nan=False))
    assert check_document(document) == []
    for seed in range(3):
        assert simulate(document, seed, changes=12) == []


@pytest.mark.parametrize("order", [("newest", "times"), ("times", "newest")])
def test_the_narrower_is_read_from_the_wider_whichever_came_first(order: tuple[str, str]) -> None:
    plan = plan_for(*map(wanted, order))
    assert (sources_of(plan, "times"), sources_of(plan, "newest")) == (["newest"], ["posts"])
    assert count_tops(plan) == 1
    merged = plan_for(*map(wanted, order), sharing=Sharing.MERGE)
    assert plan.totals.rescost < merged.totals.rescost
    assert_right(plan)


@pytest.mark.parametrize("wide", ["newest", "renamed"])
def test_a_join_reads_its_first_rows_from_a_wider_view(wide: str) -> None:
    plan = plan_for(wanted(wide), wanted("stored"))
    assert set(sources_of(plan, "stored")) == {"follows", wide}
    assert count_tops(plan) == 1
    assert_right(plan)


def test_other_limits_and_joins_of_two_tops_are_made_from_the_posts() -> None:
    plan = plan_for(wanted("newest"), wanted("newest_two"))
    assert (sources_of(plan, "newest_two"), count_tops(plan)) == (["posts"], 2)
    assert_right(plan)
    plan = plan_for(wanted("newest"), wanted("both"))
    assert "newest" not in sources_of(plan, "both")
    assert_right(plan)


def test_first_rows_stay_when_the_wider_contract_goes_and_are_free_again_afterwards() -> None:
    plan = remove_contract(plan_for(wanted("newest"), wanted("stored")), "newest_us")
    assert_right(plan)
    again = add_contract(remove_contract(plan, "stored_us"), wanted("stored"))
    assert "newest" not in sources_of(again, "stored")
    assert_right(again)
    both = add_contract(plan_for(wanted("newest")), wanted("stored", "eu"))
    assert_right(both)
