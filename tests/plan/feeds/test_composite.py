"""Networks in which nodes follow nodes: one cut against all assignments, priced by walking the network."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from tests.plan.feeds.exhaustive import Network, best
from tests.plan.feeds.instances import Document, composite, pushed, solve
from tests.plan.feeds.milp import least_composite_cost

KINDS = [("paths", False), ("distinct", False), ("distinct", True)]
NAMES = ["paths", "distinct", "circles"]


def check(document: Document) -> None:
    expected, answer, network = best(document), solve(document), Network(document)
    assert network.feasible(pushed(answer))
    assert network.cost(pushed(answer)) == expected.cost
    assert answer["cost"] == answer["lower_bound"] == pytest.approx(float(expected.cost), rel=1e-12)
    assert answer["push_all_cost"] == pytest.approx(float(expected.push_all_cost), rel=1e-12)
    assert answer["pull_all_cost"] == pytest.approx(float(expected.pull_all_cost), rel=1e-12)
    assert answer["optimal"] is True
    assert len(answer["push"]) == max(map(len, expected.pushes)), "a tie stores ahead"


@pytest.mark.parametrize(("accounting", "circles"), KINDS, ids=NAMES)
def test_the_cut_equals_exhaustive_search(accounting: str, circles: bool):
    random = Random(f"{accounting} {circles}")
    for _ in range(300):
        check(composite(random, accounting, circles))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("accounting", "circles"), KINDS, ids=NAMES)
def test_the_cut_equals_exhaustive_search_on_thousands_of_networks(accounting: str, circles: bool):
    random = Random(f"{accounting} {circles}, at length")
    for _ in range(3_000):
        check(composite(random, accounting, circles, most_edges=11))


def layered(random: Random, accounting: str) -> Document:
    """Sources, two layers of aggregators that filter, and readers: about a hundred edges, many of them contested."""
    layers = [[f"{layer}{n}" for n in range(count)] for layer, count in zip("sabr", (12, 8, 8, 14), strict=True)]
    nodes: Document = {
        name: {"event_rate": random.randint(1, 40) if name in layers[0] else 0,
               "query_rate": random.randint(1, 60) if name in layers[3] else 0,
               "pass": random.choice([0.1, 0.3, 1])}
        for layer in layers for name in layer
    }  # fmt: skip
    edges = [
        [source, target]
        for before, after in pairwise(layers)
        for target in after
        for source in random.sample(before, 3)
    ]
    return {"kind": "composite", "H": 3, "L": 1, "pull_accounting": accounting, "nodes": nodes, "edges": edges}


@pytest.mark.parametrize("accounting", ["paths", "distinct"])
def test_larger_networks_equal_an_integer_program(accounting: str):
    random = Random(accounting)
    for _ in range(10):
        document = layered(random, accounting)
        answer = solve(document)
        assert Network(document).feasible(pushed(answer))
        assert answer["cost"] == pytest.approx(least_composite_cost(document), rel=1e-6)


def test_an_aggregator_is_asked_as_often_as_those_below_it():
    document = {
        "kind": "composite", "H": 3, "L": 1,
        "nodes": {"a": {"event_rate": 2}, "b": {"event_rate": 1}, "agg": {},
                  "c1": {"query_rate": 5}, "c2": {"query_rate": 7}},
        "edges": [["a", "agg"], ["b", "agg"], ["agg", "c1"], ["agg", "c2"]],
    }  # fmt: skip
    answer = solve(document)
    assert (answer["cost"], answer["pull_all_cost"], answer["push_all_cost"]) == (21, 36, 27)
    assert answer["push"] == [["a", "agg"], ["b", "agg"]]


def test_a_filter_is_not_stored_ahead_of_what_it_pulls():
    document = {
        "kind": "composite", "H": 3, "L": 1,
        "nodes": {"a": {"event_rate": 20}, "agg": {"pass": 0.1}, "c": {"query_rate": 30}},
        "edges": [["a", "agg"], ["agg", "c"]],
    }  # fmt: skip
    answer = solve(document)
    assert (answer["cost"], answer["push_all_cost"], answer["push"]) == (60, 66, [])


def test_a_diamond_is_fetched_once_per_path_or_once_per_query():
    document = {
        "kind": "composite", "H": 100, "L": 1,
        "nodes": {"top": {"event_rate": 1}, "left": {}, "right": {}, "c": {"query_rate": 1}},
        "edges": [["top", "left"], ["top", "right"], ["left", "c"], ["right", "c"]],
    }  # fmt: skip
    one_more_source = {
        **document,
        "nodes": {**document["nodes"], "far": {"event_rate": 1}},  # type: ignore[dict-item]
        "edges": [*document["edges"], ["far", "top"]],  # type: ignore[misc]
    }
    assert solve(one_more_source)["cost"] == 6
    assert solve({**one_more_source, "pull_accounting": "distinct"})["cost"] == 5


def test_filters_in_a_circle_apply_to_what_passes_them_and_nothing_comes_back():
    document = {
        "kind": "composite", "H": 1, "L": 1000, "pull_accounting": "distinct",
        "nodes": {"a": {"event_rate": 10}, "b": {"pass": 0.1}, "c": {"pass": 0.5, "query_rate": 1}},
        "edges": [["a", "b"], ["b", "c"], ["c", "a"]],
    }  # fmt: skip
    assert solve(document)["cost"] == 10 + 1 + 0.5


def test_a_large_network_with_contested_edges_is_decided_exactly():
    random = Random("large")
    document = layered(random, "paths")
    copies = 60
    names = [f"{name}@{copy}" for copy in range(copies) for name in document["nodes"]]
    whole = {
        **document,
        "nodes": {name: document["nodes"][name.split("@")[0]] for name in names},
        "edges": [[f"{end}@{copy}" for end in edge] for copy in range(copies) for edge in document["edges"]],
    }
    assert solve(whole)["cost"] == pytest.approx(copies * solve(document)["cost"])
