"""What becomes of the way to refresh a view when the files of a running project change."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.model.explanation import ImaginedChange
from headrace.model.names import name_of_view
from headrace.model.plan import Plan
from headrace.model.wire import read_wire, write_wire
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.explain import what_if_running
from headrace.plan.make import make_plan
from headrace.plan.share.difference import difference
from headrace.plan.versions import Asked, plan_versions

Way = Literal["incremental", "full", "auto"]
WALL = "SELECT p.post, u.name, p.score FROM posts p JOIN users u ON p.uid = u.uid"
OTHER = "SELECT p.post, p.score FROM posts p WHERE p.score > 3"
CALM, BUSY = 150.0, 60_000.0


def catalogue_of(*refresh: Way, rate: float = BUSY, sql: str = WALL, freshness: str = "8 s") -> Catalogue:
    """One contract for each way."""
    project = Project("shop", headroom={"cpu": 0, "link": 0, "blocking": 0})
    project.site("eu", cpu="0.34 $/core-hour", cores=2)
    project.source("users", at="eu", key="uid", rows=50, rate=1, columns={"uid": "bigint", "name": "string"})
    posts = dict.fromkeys(("post", "uid", "score"), "bigint")
    project.source("posts", at="eu", key="post", rows=100_000, rate=rate, columns=posts)
    project.view("wall", sql)
    for number, way in enumerate(refresh):
        project.contract(f"c{number}", view="wall", at="eu", freshness=freshness, refresh=way)
    return project.catalogue


def apply(running: Plan, declared: Catalogue) -> Plan:
    plan, _ = plan_versions(running, Asked(declared))
    assert check_document(plan_document(plan)) == []
    assert {name_of_view(one.view) for one in plan.contracts} <= {"wall"}
    return plan


@pytest.mark.parametrize(("rate", "in_full"), [(CALM, False), (BUSY, True)])
@pytest.mark.parametrize("before", ["incremental", "full"])
def test_a_contract_that_leaves_the_choice_from_now_on_gets_the_cheaper_way(before: Way, rate: float, in_full: bool):
    running = make_plan(catalogue_of(before, rate=rate))
    then = apply(running, catalogue_of("auto", rate=rate))
    assert [one.contract for one in then.contracts] == ["c0"]
    assert then.catalogue.is_in_full("c0") is in_full
    assert len({then.catalogue.contracts["c0"].view, *then.catalogue.contracts["c0"].ways}) == 2


@pytest.mark.parametrize("rate", [CALM, BUSY])
@pytest.mark.parametrize("after", ["incremental", "full"])
def test_a_contract_that_asks_for_one_way_from_now_on_gets_it(after: Way, rate: float):
    then = apply(make_plan(catalogue_of("auto", rate=rate)), catalogue_of(after, rate=rate))
    assert then.catalogue.is_in_full("c0") is (after == "full")
    assert not then.catalogue.contracts["c0"].ways


@pytest.mark.parametrize("rate", [CALM, BUSY])
def test_the_same_files_change_nothing_even_at_another_rate(rate: float):
    running = read_wire(write_wire(make_plan(catalogue_of("auto", rate=rate)), "test"), Plan)
    same = difference(running, apply(running, catalogue_of("auto", rate=rate)))
    assert same.is_nothing
    other = apply(running, catalogue_of("auto", rate=CALM + BUSY - rate))
    assert other.catalogue.is_in_full("c0") is running.catalogue.is_in_full("c0")


def test_contracts_beside_each_other_share_what_they_both_have():
    both = make_plan(catalogue_of("auto", "full", "incremental", "auto"))
    assert not both.rejected
    ways = [both.catalogue.is_in_full(f"c{number}") for number in range(4)]
    assert ways[1:3] == [True, False]
    views = [one.vertex for one in both.contracts]
    assert len(set(views)) == 2
    assert check_document(plan_document(both)) == []


def test_an_earlier_version_goes_on_in_its_way_while_the_new_one_is_refused():
    running = make_plan(catalogue_of("auto"))
    assert running.catalogue.is_in_full("c0")
    held = apply(running, catalogue_of("auto", sql=WALL + " WHERE p.score > 0", freshness="10 ms"))
    assert [one.contract for one in held.goes_on] == ["c0"]
    assert held.catalogue.is_in_full("c0")
    assert difference(running, held).added == ()
    again = apply(held, catalogue_of("auto"))
    assert again.catalogue.contracts["c0"].ways == running.catalogue.contracts["c0"].ways
    assert difference(running, again).added == ()
    changed = apply(held, catalogue_of("auto", sql=OTHER))
    assert [one.contract for one in changed.contracts] == ["c0"] and not changed.goes_on


def test_what_if_imagines_the_other_way_where_only_that_keeps_the_promise():
    running = make_plan(catalogue_of("auto", rate=CALM, freshness="2 s"))
    assert not running.catalogue.is_in_full("c0")
    found = what_if_running(running, "c0", ImaginedChange(rate={"posts": 10 * BUSY}))
    assert not found.before.recomputed
    assert found.after.kept and found.after.recomputed


def test_only_ways_that_are_taken_are_views_of_the_document():
    maintained, in_full = (make_plan(catalogue_of("auto", rate=rate)) for rate in (CALM, BUSY))
    assert [view["id"] for view in plan_document(maintained)["views"]] == ["wall"]
    document = plan_document(in_full)
    assert [view["id"] for view in document["views"]] == ["wall", "wall~full"]
    (contract,) = document["contracts"]
    assert (contract["view"], contract["block"]) == ("wall", "wall~full")
    (derived,) = (edge["derive"] for edge in document["edges"] if edge["op"] == "derive")
    assert derived["kind"] == "full" and "sql" in derived["args"]
    assert replace(in_full.catalogue.contracts["c0"], view="wall").asks_as(in_full.catalogue.contracts["c0"])
