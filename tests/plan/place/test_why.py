"""Why a view runs where it does, in numbers that add up and in words."""

from __future__ import annotations

import random

import pytest

from headrace.model.errors import InputError
from headrace.plan.place.decide import decide
from headrace.plan.place.instance import Dag, Device, PairView, PlacedOperator, Single
from headrace.plan.place.why import why_document, why_operator, why_pair, why_text
from tests.plan.place import exhaustive
from tests.plan.place.documents import UP_DEARER, dag, single, with_everything, with_own_prices
from tests.plan.place.test_adapt import graph_instance, pairs_instance

ALICE_AND_BOB = Single((PairView("alice|bob", "alice", "bob", 1, 360),))


def test_two_messages_instead_of_361():
    why = why_pair(ALICE_AND_BOB, decide(ALICE_AND_BOB).placement, "alice,bob")
    assert why_text(why, "h").splitlines() == [
        "on bob's device: 360/h stay local, 1/h comes down; 2 messages/h instead of 361",
        "  in the cloud the whole placement would cost 359 more",
        "  on alice's device the whole placement would cost 718 more",
    ]
    assert why_document(why)["alternatives"] == {"cloud": 359, "alice": 718}


def test_a_view_in_the_cloud_says_what_comes_up():
    instance = Single((PairView("v", "a", "b", 5, 5),))
    why = why_pair(instance, decide(instance).placement, "v")
    assert why_text(why, "s").splitlines() == [
        "in the cloud: 5/s and 5/s come up; 10 messages/s",
        "  on a's device it would cost the same",
        "  on b's device it would cost the same",
    ]


def test_a_full_device_is_no_alternative():
    instance = Single((PairView("v", "a", "b", 1, 9),), Device(1, 1), {"b": Device(1, 1, 0)})
    why = why_pair(instance, decide(instance).placement, "v")
    assert why.at == "cloud"
    assert why.alternatives.keys() == {"a"}


def test_alternatives_of_pairs_are_the_differences_between_whole_placements():
    rng = random.Random(4)
    for _ in range(60):
        document = with_own_prices(rng, single(rng, UP_DEARER))
        instance, given = pairs_instance(document), exhaustive.problem(document)
        placement = dict(decide(instance).placement)
        for view in placement:
            for place, more in why_pair(instance, placement, view).alternatives.items():
                assert exhaustive.cost(given, {**placement, view: place}) - exhaustive.cost(given, placement) == more


def test_alternatives_of_operators_are_the_differences_between_whole_placements():
    rng = random.Random(5)
    for _ in range(40):
        document = with_everything(rng, dag(rng, UP_DEARER, "derive"))
        if exhaustive.best_cost(exhaustive.problem(document)) is None:
            continue
        instance, given = graph_instance(document), exhaustive.problem(document)
        placement = dict(decide(instance).placement)
        for operator in placement:
            for place, more in why_operator(instance, placement, operator).alternatives.items():
                moved = {**placement, operator: place}
                assert exhaustive.feasible(given, moved)
                assert exhaustive.cost(given, moved) - exhaustive.cost(given, placement) == more


def test_an_operator_is_explained_by_its_inputs():
    graph = Dag({"gps": "phone", "map": "cloud"}, (PlacedOperator("near", (("gps", 60), ("map", 1))),))
    why = why_operator(graph, decide(graph).placement, "near")
    assert why_text(why, "min").startswith("on phone's device: 60/min stay local, 1/min comes down; 1 message/min")


def test_an_unknown_view_is_named_with_what_was_meant():
    with pytest.raises(InputError, match=r'no view "alice\|bop"'):
        why_pair(ALICE_AND_BOB, {"alice|bob": "bob"}, "alice|bop")
