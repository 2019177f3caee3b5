"""From a template and its rows to views: shared ones once, and changes that touch only what they must."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.catalogue import Devices, DeviceStream, Refusal, Template, View
from headrace.model.errors import InputError, Location, Problem
from headrace.plan.place.adapt_graph import change_graph, stand_graph
from headrace.plan.place.decide import decide
from headrace.plan.place.instance import Device
from headrace.plan.place.logical_templates import device_kinds, make_logical_template, pairs_of
from headrace.plan.place.templates import (
    Demand,
    LogicalInput,
    LogicalTemplate,
    LogicalView,
    change_rows,
    demand_graph,
    instantiate,
)

HERE = Location("headrace.yml")

FRIENDS = LogicalTemplate(
    (
        LogicalView("place", ("a",), (LogicalInput("gps", ("a",), 10), LogicalInput("friends", ("a",), 1))),
        LogicalView(
            "near", ("a", "b"), (LogicalInput("place", ("a",), "rate_a"), LogicalInput("gps", ("b",), "rate_b"))
        ),
    ),
    in_cloud=frozenset({"friends"}),
)
"""The friend finder of the paper: positions joined with the social network, then with the positions of friends."""


def row(a: str, b: str, rate_a: int = 2, rate_b: int = 3) -> dict[str, Any]:
    return {"a": a, "b": b, "rate_a": rate_a, "rate_b": rate_b}


def view(name: str, *reads: str) -> View:
    """Only what a view reads matters here, so its query may be anything."""
    return View(name, "", Refusal("none", (Problem("none"),)), reads, (), HERE)


TEMPLATE = Template("nearby", "friends", "uid", "friend", "phones", "near", HERE)
PHONES = Devices("phones", "people", "uid", 1.0, 0.5, 20, (DeviceStream("location", (), 0.1),), HERE)


def test_a_view_that_rows_share_is_there_once():
    views = instantiate(FRIENDS, [row("p", "q"), row("p", "r"), row("q", "p")])
    assert sorted(views.uses) == ["near[p,q]", "near[p,r]", "near[q,p]", "place[p]", "place[q]"]
    assert views.uses["place[p]"] == 2
    dag = views.dag(Device(1, 1))
    assert dag.sources == {
        "friends[p]": "cloud",
        "friends[q]": "cloud",
        "gps[p]": "p",
        "gps[q]": "q",
        "gps[r]": "r",
    }
    assert dict(next(op for op in dag.operators if op.id == "near[p,r]").inputs) == {"place[p]": 2, "gps[r]": 3}


def test_the_demand_graph_says_who_needs_whose_data():
    dag = instantiate(FRIENDS, [row("p", "q")]).dag(Device(1, 1))
    assert set(demand_graph(dag)) == {
        Demand("friends[p]", "gps[p]", 1, "place[p]"),
        Demand("gps[p]", "friends[p]", 10, "place[p]"),
        Demand("place[p]", "gps[q]", 2, "near[p,q]"),
        Demand("gps[q]", "place[p]", 3, "near[p,q]"),
    }


def test_a_row_more_adds_its_own_view_and_touches_no_other():
    before = instantiate(FRIENDS, [row("p", "q"), row("r", "s")])
    after = change_rows(before, added=[row("p", "t")])
    assert after.added == {"near[p,t]"}
    assert (after.removed, after.changed) == (frozenset(), frozenset())


def test_the_last_row_takes_the_shared_view_with_it():
    before = instantiate(FRIENDS, [row("p", "q"), row("p", "r")])
    one_less = change_rows(before, removed=[row("p", "q")])
    assert one_less.removed == {"near[p,q]"}
    assert change_rows(one_less.views, removed=[row("p", "r")]).removed == {"near[p,r]", "place[p]"}


def test_a_shared_view_is_read_at_the_fastest_rate_that_a_row_asks_for():
    template = LogicalTemplate((LogicalView("v", ("a",), (LogicalInput("s", ("a",), "rate_a"),)),))
    before = instantiate(template, [row("p", "q", 2), row("p", "r", 5)])
    assert before.dag(Device(1, 1)).operators[0].inputs == (("s[p]", 5),)
    after = change_rows(before, removed=[row("p", "r", 5)])
    assert after.changed == {"v[p]"}
    assert after.views.dag(Device(1, 1)).operators[0].inputs == (("s[p]", 2),)


rows = st.lists(
    st.tuples(st.sampled_from("pqrs"), st.sampled_from("pqrs"), st.integers(1, 3), st.integers(1, 3)), max_size=8
)


@given(rows, rows)
def test_adding_and_removing_rows_ends_where_starting_from_the_rows_left_does(
    first: list[tuple[Any, ...]], second: list[tuple[Any, ...]]
):
    some, more = [row(*values) for values in first], [row(*values) for values in second]
    grown = change_rows(instantiate(FRIENDS, some), added=more).views
    shrunk = change_rows(grown, removed=some).views
    assert shrunk.uses == instantiate(FRIENDS, more).uses
    assert shrunk.dag(Device(1, 1)) == instantiate(FRIENDS, more).dag(Device(1, 1))


def test_a_row_that_comes_or_goes_is_placed_as_if_all_were_decided_anew():
    rng = random.Random(2)
    everyone = [row(a, b, rng.randint(1, 9), rng.randint(1, 9)) for a in "pqrstu" for b in "pqrstu" if a != b]
    views = instantiate(FRIENDS, everyone[:15])
    standing = stand_graph(views.dag(Device(1, 1)))
    for _ in range(6):
        views = change_rows(views, added=[rng.choice(everyone)], removed=[]).views
        after = change_graph(standing, views.dag(Device(1, 1)))
        assert after.standing.cost == decide(views.dag(Device(1, 1))).cost
        assert after.decided <= {"p", "q", "r", "s", "t", "u"}
        standing = after.standing


def test_a_declared_template_over_one_stream_of_each_device_is_a_pair():
    template = make_logical_template(TEMPLATE, PHONES, {"near": view("near", "a.location", "b.location")})
    default, kinds = device_kinds(PHONES, ())
    single = pairs_of(template, [{"a": "anna", "b": "bob"}], default, kinds)
    assert single is not None
    assert single.views[0].id == "near[anna,bob]"
    assert single.views[0].rate_a * 10 == 1
    assert (single.default.up, single.default.down * 2, single.default.capacity) == (1, 1, 20)


def test_a_declared_template_may_read_views_that_rows_share():
    views = {"near": view("near", "home", "b.location"), "home": view("home", "a.location", "places")}
    template = make_logical_template(TEMPLATE, PHONES, views, {"home": 3, "location": "rate_b"})
    assert [(one.name, one.keys) for one in template.views] == [("home", ("a",)), ("near", ("a", "b"))]
    assert template.in_cloud == {"places"}
    assert pairs_of(template, [], Device(1, 1)) is None
    dag = instantiate(template, [row("p", "q"), row("p", "r")]).dag(Device(1, 1))
    assert sorted(op.id for op in dag.operators) == ["home[p]", "near[p,q]", "near[p,r]"]
    assert dag.sources["places[]"] == "cloud"


def test_a_capacity_may_be_a_column_of_the_devices_table():
    phones = Devices("phones", "people", "uid", 1.0, 1.0, "slots", (), HERE)
    _, kinds = device_kinds(phones, [{"uid": 1, "slots": 4}, {"uid": 2, "slots": None}])
    assert {name: kind.capacity for name, kind in kinds.items()} == {"1": 4, "2": None}


def test_a_rate_that_nobody_knows_is_asked_for():
    phones = Devices("phones", "people", "uid", 1.0, 1.0, None, (DeviceStream("location", (), None),), HERE)
    with pytest.raises(InputError, match='template "nearby" needs the rate of "location"'):
        make_logical_template(TEMPLATE, phones, {"near": view("near", "a.location", "b.location")})
