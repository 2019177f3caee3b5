"""A small shop on three sites, with views that overlap in every way: columns, filters, aggregates, ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from headrace import Project
from headrace.model.catalogue import Catalogue, Contract
from headrace.model.plan import Plan, PlanOptions
from headrace.plan.make import make_plan
from tests.plan.written import contract

SITES = ("us", "eu", "asia")

VIEWS = {
    "sales": "SELECT o.oid, o.cid, o.total, c.country FROM orders o JOIN customers c ON o.cid = c.cid",
    "names": "SELECT o.oid, c.name FROM orders o JOIN customers c ON o.cid = c.cid",
    "countries": "SELECT o.oid, c.country FROM orders o JOIN customers c ON o.cid = c.cid",
    "large": "SELECT o.oid, c.country FROM orders o JOIN customers c ON o.cid = c.cid WHERE o.total > 100",
    "larger": "SELECT o.oid, c.country FROM orders o JOIN customers c ON o.cid = c.cid WHERE o.total > 500",
    "bought_items": "SELECT o.oid, i.product, i.amount FROM orders o JOIN items i ON o.oid = i.oid",
    "bought": "SELECT c.name, i.product FROM orders o JOIN items i ON o.oid = i.oid JOIN customers c ON o.cid = c.cid",
    "by_country": "SELECT c.country, count(*) AS n, sum(o.total) AS total "
    "FROM orders o JOIN customers c ON o.cid = c.cid GROUP BY c.country",
    "by_product": "SELECT i.product, sum(i.amount) AS amount FROM items i GROUP BY i.product",
    "top": "SELECT c.name, count(*) AS n FROM orders o JOIN customers c ON o.cid = c.cid GROUP BY c.name "
    "ORDER BY n DESC LIMIT 10",
    "customers_as_they_are": "SELECT * FROM customers",
}


@cache
def shop(cores: float | None = None) -> Catalogue:
    """No contracts yet. `cores` limits every site."""
    project = Project("shop", headroom={"cpu": 0, "link": 0, "blocking": 0})
    for name in SITES:
        project.site(name, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", cores=cores)
    for first, second in (("us", "eu"), ("eu", "asia"), ("us", "asia")):
        project.link(between=(first, second), bandwidth="10 MB/s", latency="50 ms", price="0.02 $/GB")
    project.source("orders", at="us", key="oid", rows=1e6, rate=50, columns=_bigints("oid", "cid", "total"))
    named: dict[str, str | dict[str, str | float]] = {
        **_bigints("cid"),
        "name": "string",
        "country": {"type": "string", "distinct": 50},
    }
    project.source("customers", at="eu", key="cid", rows=1e5, rate=2, columns=named)
    project.source("items", at="us", key="iid", rows=3e6, rate=150, columns=_bigints("iid", "oid", "product", "amount"))
    for name, sql in VIEWS.items():
        project.view(name, sql)
    return project.catalogue


def _bigints(*names: str) -> dict[str, str | dict[str, str | float]]:
    return dict.fromkeys(names, "bigint")


def with_contracts(catalogue: Catalogue, contracts: Iterable[Contract]) -> Catalogue:
    return replace(catalogue, contracts={entry.name: entry for entry in contracts})


def plan_for(*contracts: Contract, cores: float | None = None, options: PlanOptions | None = None) -> Plan:
    return make_plan(with_contracts(shop(cores), contracts), options or PlanOptions())


def wanted(view: str, at: str = "eu", freshness: float = 60.0, name: str | None = None) -> Contract:
    return contract(name or f"{view}_{at}", view, at, freshness, 0.0)
