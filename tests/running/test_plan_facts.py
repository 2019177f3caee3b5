"""What a service knows of a plan."""

from __future__ import annotations

from dataclasses import replace

from bench.workloads.live_table1 import Live, live_catalogue
from headrace.plan.make import make_plan
from headrace.site.plan_facts import CHANGES_BYTES, budgets_of


def test_changes_may_take_what_a_site_declares_or_a_few_gigabytes():
    plan = make_plan(live_catalogue(Live(contracts=3, tweets=1000)))
    first, *others = sorted(plan.catalogue.sites)
    sites = {**plan.catalogue.sites, first: replace(plan.catalogue.sites[first], disk_capacity=5e9)}
    limited = replace(plan, catalogue=replace(plan.catalogue, sites=sites))
    assert budgets_of(limited) == {first: 5_000_000_000, **dict.fromkeys(others, CHANGES_BYTES)}
