"""Sizes instead of rates place views that are computed now and then."""

from __future__ import annotations

from headrace.plan.place.decide import decide
from headrace.plan.place.instance import Dag, PlacedOperator
from headrace.plan.place.offline import offline_graph, offline_pairs


def test_the_small_table_travels_to_the_large_one():
    gb = 10**9
    instance = offline_pairs(
        {"eu": 500 * gb, "us": 3 * gb, "asia": 2 * gb}, [("eu", "us"), ("eu", "asia"), ("us", "asia")]
    )
    decision = decide(instance)
    assert decision.placement == {"eu|us": "eu", "eu|asia": "eu", "us|asia": "cloud"}
    assert decision.cost == (3 + 2) * gb + (3 + 2) * gb
    assert decision.all_cloud_cost == 505 * gb


def test_a_graph_is_read_in_sizes_of_its_results():
    graph = Dag(
        {"a": "d1", "b": "d2"}, (PlacedOperator("join", (("a", 1), ("b", 1))), PlacedOperator("report", (("join", 1),)))
    )
    placed = decide(offline_graph(graph, {"a": 100, "b": 5, "join": 2}))
    assert placed.placement == {"join": "d1", "report": "d1"}
    assert placed.cost == 5 + 5
