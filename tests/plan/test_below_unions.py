"""Aggregates in parts: the same answer as the whole, and plans that take them where they are cheaper."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Project
from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.errors import EvaluationError
from headrace.model.plan import Plan
from headrace.model.relation import Relation, fields_of
from headrace.plan.canonical.below_unions import aggregate_below_unions
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan, plan_on_running
from headrace.testing import SCHEMA, Tables, tables

BRANCHES = (
    "SELECT k, n, amount AS price, name AS label, at FROM r",
    "SELECT k, n, price, label, at FROM s WHERE n > 0",
    "SELECT k, CAST(k AS bigint) AS n, CAST(1.5 AS decimal(10, 2)) AS price, name AS label,"
    " CAST(day AS timestamp) AS at FROM t",
    "SELECT k, count(*) AS n, CAST(1 AS decimal(10, 2)) AS price, label, max(at) AS at FROM s GROUP BY k, label",
)
CALLS = (
    "count(*)",
    "count(n)",
    "sum(n)",
    "sum(k)",
    "sum(price)",
    "min(label)",
    "max(at)",
    "max(DISTINCT n)",
    "count(*) FILTER (WHERE n > 1)",
)
KEYS = ("k", "label", "date_trunc('day', at)", "n % 2")


@st.composite
def aggregates(draw: st.DrawFn) -> str:
    branches = draw(st.lists(st.sampled_from(BRANCHES), min_size=2, max_size=4))
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4))
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    made = ", ".join(
        [*(f"{key} AS g{i}" for i, key in enumerate(keys)), *(f"{c} AS c{i}" for i, c in enumerate(calls))]
    )
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = draw(st.sampled_from(("", " HAVING count(*) > 1"))) if keys else ""
    where = draw(st.sampled_from(("", " WHERE k >= 0")))
    return f"SELECT {made} FROM ({' UNION ALL '.join(branches)}){where}{group}{having}"


def answer(relation: Relation, data: Tables) -> ZSet | str:
    try:
        return evaluate(relation, data)
    except EvaluationError as error:
        return str(error)


@given(aggregates(), tables(), st.sampled_from(("rst", "rrt", "rsr")))
def test_an_aggregate_in_parts_has_the_answer_of_the_whole(sql: str, data: Tables, sites: str) -> None:
    query = read_query(sql, SCHEMA)
    parts = aggregate_below_unions(query, dict(zip("rst", sites, strict=True)).__getitem__)
    if parts is None:
        return
    assert fields_of(parts) == fields_of(query)
    assert answer(parts, data) == answer(query, data)


@pytest.mark.parametrize(
    "call", ["avg(n)", "sum(x)", "count(DISTINCT n)", "sum(DISTINCT n)", "string_agg(label, ',')", "stddev(n)"]
)
def test_what_does_not_add_up_exactly_stays_whole(call: str) -> None:
    columns = "k, n, label, 0.5D AS x"
    both = " UNION ALL ".join(f"SELECT {columns} FROM {source}" for source in ("s", "s"))
    query = read_query(f"SELECT k, count(*) AS c, {call} AS v FROM ({both}) GROUP BY k", SCHEMA)
    sites = iter(("us", "eu"))
    assert aggregate_below_unions(query, lambda _: next(sites)) is None


def test_rows_of_one_site_are_aggregated_together() -> None:
    branches = ("SELECT k FROM r", "SELECT k FROM s", "SELECT k FROM t")
    query = read_query(f"SELECT k, count(*) AS c FROM ({' UNION ALL '.join(branches)}) GROUP BY k", SCHEMA)
    assert aggregate_below_unions(query, lambda _: "us") is None
    parts = aggregate_below_unions(query, lambda source: "eu" if source == "t" else "us")
    assert parts is not None and str(parts).count("Aggregate(") == 3


# Plans


def make_project(rate: float = 1000.0, kinds: int = 6) -> Project:
    project = Project("tweets", headroom={"cpu": 0, "link": 0, "blocking": 0})
    for site in ("us", "eu", "asia"):
        project.site(site, cpu="0.01 $/core-hour")
    for ends in (("us", "asia"), ("eu", "asia"), ("us", "eu")):
        project.link(between=ends, bandwidth="100 Mbps", latency="10 ms", price="0.1 $/GB")
    columns: dict[str, str | dict[str, str | float]] = {
        "id": "bigint",
        "kind": {"type": "bigint", "distinct": kinds},
        "body": {"type": "string", "width": 500},
    }
    for site in ("us", "eu"):
        project.source(f"posts_{site}", at=site, key="id", rows=1e6, rate=rate, columns=columns)
    both = "SELECT kind, body FROM posts_us UNION ALL SELECT kind, body FROM posts_eu"
    project.view("kinds", f"SELECT kind, count(*) AS n, sum(length(body)) AS size FROM ({both}) GROUP BY kind")
    project.contract("kinds", view="kinds", at="asia", freshness="20 s")
    return project


def is_in_parts(plan: Plan) -> bool:
    return sum(entry.block.id.startswith("kinds") for entry in plan.blocks) > 2


def test_few_groups_of_many_rows_cross_links_instead_of_the_rows() -> None:
    plan = make_plan(make_project().catalogue)
    assert is_in_parts(plan)
    assert sum(plan.totals.link.values()) < 0.1 * 2 * 1000 * 24, "of what the rows would take without their texts"
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []


def test_as_many_groups_as_rows_are_not_aggregated_twice() -> None:
    assert not is_in_parts(make_plan(make_project(rate=0.01, kinds=1_000_000).catalogue))


def test_a_view_that_runs_stays_as_it_runs_and_others_come_and_go() -> None:
    project = make_project()
    running = make_plan(project.catalogue)
    project.view("bodies", "SELECT id, body FROM posts_us WHERE kind = 1")
    project.contract("bodies", view="bodies", at="eu", freshness="20 s")
    then = plan_on_running(running, project.catalogue)
    assert is_in_parts(then)
    assert set(running.graph.vertices) <= set(then.graph.vertices)
    assert plan_on_running(then, make_project().catalogue).graph.vertices.keys() == running.graph.vertices.keys()
