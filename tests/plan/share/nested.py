"""A shop whose views ask for nested ranges of the same joins, and for nested groups of the same rows."""

from __future__ import annotations

from functools import cache

from headrace import Project
from headrace.model.catalogue import Catalogue, Contract
from headrace.model.plan import Plan, PlanOptions
from headrace.model.plan_modes import Sharing
from headrace.plan.make import make_plan
from tests.plan.share.projects import with_contracts
from tests.plan.written import contract

SITES = ("us", "eu", "asia")
JOIN = "FROM orders o JOIN customers c ON o.cid = c.cid"


def nested_views() -> dict[str, str]:
    """Filters that contain one another, overlap, or differ in a column."""
    columns = "o.oid, o.total, c.country"
    return {
        "every": f"SELECT {columns} {JOIN}",
        "over_5": f"SELECT {columns} {JOIN} WHERE o.total > 5",
        "over_7": f"SELECT {columns} {JOIN} WHERE o.total > 7",
        "under_7": f"SELECT {columns} {JOIN} WHERE o.total < 7",
        "between_6_and_9": f"SELECT {columns} {JOIN} WHERE o.total BETWEEN 6 AND 9",
        "over_7_at_home": f"SELECT {columns} {JOIN} WHERE o.total > 7 AND c.country = 'fr'",
        "lean_over_5": f"SELECT o.oid, c.country {JOIN} WHERE o.total > 5",
        "lean_over_7": f"SELECT o.oid, c.country {JOIN} WHERE o.total > 7",
        "over_7_with_items": f"SELECT {columns}, i.product {JOIN} JOIN items i ON i.oid = o.oid WHERE o.total > 7",
        "orders_over_5": "SELECT oid, total FROM orders WHERE total > 5",
        "orders_over_7": "SELECT oid, total FROM orders WHERE total > 7",
        "count_over_7": f"SELECT c.country, count(*) AS n {JOIN} WHERE o.total > 7 GROUP BY c.country",
    }


@cache
def shop() -> Catalogue:
    project = Project("nested", headroom={"cpu": 0, "link": 0, "blocking": 0})
    for name in SITES:
        project.site(name, cpu="0.34 $/core-hour", disk="0.11 $/GB-month")
    for first, second in (("us", "eu"), ("eu", "asia"), ("us", "asia")):
        project.link(between=(first, second), bandwidth="10 MB/s", latency="50 ms", price="0.02 $/GB")
    project.source(
        "orders", at="us", key="oid", rows=1e6, rate=50, columns=dict.fromkeys(("oid", "cid", "total"), "bigint")
    )
    project.source("customers", at="eu", key="cid", rows=1e5, rate=20, columns={"cid": "bigint", "country": "string"})
    project.source(
        "items", at="eu", key="iid", rows=3e6, rate=2, columns=dict.fromkeys(("iid", "oid", "product"), "bigint")
    )
    for name, sql in nested_views().items():
        project.view(name, sql)
    project.selectivity("orders", "total > 5", 0.5)
    project.selectivity("orders", "total > 7", 0.1)
    return project.catalogue


def plan_for(*contracts: Contract, sharing: Sharing = Sharing.MARGINAL) -> Plan:
    return make_plan(with_contracts(shop(), contracts), PlanOptions(sharing=sharing))


def wanted(view: str, at: str = "eu", freshness: float = 60.0) -> Contract:
    return contract(f"{view}_{at}", view, at, freshness, 0.0)
