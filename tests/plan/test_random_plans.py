"""Random SQL is planned, the plan passes the check, and running it gives what the query gives."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.model.errors import UnsupportedSql
from headrace.model.plan import PlanOptions
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import plan_views
from headrace.testing import SCHEMA, queries
from headrace.testing.plans import simulate
from tests.examples import examples
from tests.plan.written import catalogue, contract, mesh, site

SITES = ("m1", "m2", "m3")
SOURCES = {
    name: replace(source, site=SITES[number % len(SITES)], rows=1000.0, rate=2.0)
    for number, (name, source) in enumerate(SCHEMA.items())
}


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(queries(SCHEMA), min_size=1, max_size=2), st.sampled_from(SITES), st.integers(0, 9))
def test_plans_of_random_queries_are_right(texts, target, seed):
    views = {}
    for number, sql in enumerate(texts):
        try:
            views[f"v{number}"] = blocks_of(f"v{number}", read_query(sql, SOURCES))
        except UnsupportedSql:
            continue
    contracts = [contract(f"c_{name}", name, target, 60) for name in views]
    project = catalogue([site(name) for name in SITES], mesh(SITES), SOURCES.values(), contracts)
    document = json.loads(json.dumps(plan_document(plan_views(project, views, PlanOptions())), allow_nan=False))
    assert check_document(document) == []
    assert simulate(document, seed, changes=12) == []
