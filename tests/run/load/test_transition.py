"""While sites go over from one plan to another, what runs is made as before."""

from __future__ import annotations

from headrace import Project
from headrace.model.plan import Plan
from headrace.plan.make import make_plan
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.load.transition import between


def make_posts(bandwidth: str) -> Plan:
    """Posts are counted at `eu`, where that is cheap, if the link carries their rows; else at `us`."""
    project = Project("posts", headroom={"cpu": 0, "link": 0, "blocking": 0})
    project.site("us", cpu="9 $/core-hour", disk="0.01 $/GB-month")
    project.site("eu", cpu="0.01 $/core-hour", disk="0.01 $/GB-month")
    project.link(between=("us", "eu"), bandwidth=bandwidth, latency="10 ms", price="0.0001 $/GB")
    columns: dict[str, str | dict[str, str | float]] = {
        "pid": "bigint",
        "kind": {"type": "bigint", "distinct": 7},
        "body": {"type": "string", "width": 1000},
    }
    project.source("posts", at="us", key="pid", rows=1e5, rate=2500, columns=columns)
    project.view("kinds", "SELECT kind, count(*) AS posts, max(body) AS body FROM posts GROUP BY kind")
    project.contract("kinds", view="kinds", at="eu", freshness="20 s")
    return make_plan(project.catalogue)


def test_what_another_site_makes_is_brought_until_this_one_makes_it() -> None:
    brought, made = (compile_plan(make_posts(one).at_site("eu")) for one in ("10 Mbps", "100 Mbps"))
    taken_over = brought.imports.keys() & made.tasks.keys()
    assert taken_over, "or the plans do not differ"
    both = between(brought, made, frozenset(made.logs.keys() - brought.logs.keys()))
    assert taken_over <= both.imports.keys() and taken_over.isdisjoint(both.tasks)
    assert made.imports.keys() <= both.imports.keys(), "what it will be made from can be brought already"


def test_what_this_site_makes_is_made_until_another_one_makes_it() -> None:
    brought, made = (compile_plan(make_posts(one).at_site("eu")) for one in ("10 Mbps", "100 Mbps"))
    given_up = made.tasks.keys() & brought.imports.keys()
    both = between(made, brought, frozenset(brought.logs.keys() - made.logs.keys()))
    assert given_up and given_up <= both.tasks.keys() and given_up.isdisjoint(both.imports)


def test_a_log_that_starts_anew_is_made_in_the_new_way_at_once() -> None:
    brought, made = (compile_plan(make_posts(one).at_site("eu")) for one in ("10 Mbps", "100 Mbps"))
    taken_over = brought.imports.keys() & made.tasks.keys()
    both = between(brought, made, frozenset(made.logs))
    assert taken_over <= both.tasks.keys()
