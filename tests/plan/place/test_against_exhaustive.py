"""The planner's cost is the least of all placements, for thousands of small instances of every kind."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest

from headrace.model.errors import InputError
from headrace.plan.place.decide import decide
from headrace.plan.place.effort import Effort
from headrace.plan.place.instance import PlacementDecision
from headrace.plan.place.read import read_instance
from tests.plan.place import exhaustive
from tests.plan.place.documents import (
    ANY_PRICES,
    DOWN_DEARER,
    SYMMETRIC,
    UP_DEARER,
    Document,
    dag,
    single,
    with_capacities,
    with_core,
    with_everything,
    with_own_prices,
)

Make = Callable[[random.Random], Document]

ONE_LEVEL: dict[str, Make] = {
    "one view per pair, up = down": lambda rng: single(rng, SYMMETRIC, several=False),
    "one view per pair, up < down": lambda rng: single(rng, DOWN_DEARER, several=False),
    "several views per pair, up <= down": lambda rng: single(rng, SYMMETRIC + DOWN_DEARER),
    "uploads dearer": lambda rng: single(rng, UP_DEARER, views=8),
    "prices per device": lambda rng: with_own_prices(rng, single(rng, ANY_PRICES)),
    "capacities": lambda rng: with_capacities(rng, single(rng, ANY_PRICES)),
    "capacities and prices per device": lambda rng: with_capacities(rng, with_own_prices(rng, single(rng, UP_DEARER))),
    "core": lambda rng: with_core(rng, with_own_prices(rng, single(rng, ANY_PRICES, views=4))),
}

GRAPHS: dict[str, Make] = {
    "graph, up = down": lambda rng: dag(rng, SYMMETRIC, "derive"),
    "graph, up < down": lambda rng: dag(rng, DOWN_DEARER, "derive"),
    "graph, uploads dearer": lambda rng: dag(rng, UP_DEARER, "derive"),
    "graph, any device": lambda rng: dag(rng, ANY_PRICES, "any", operators=5),
    "graph, where an input is": lambda rng: dag(rng, ANY_PRICES, "located"),
    "graph with everything": lambda rng: with_everything(rng, dag(rng, ANY_PRICES, "derive")),
    "graph with everything, where an input is": lambda rng: with_everything(rng, dag(rng, ANY_PRICES, "located")),
    "graph with everything, any device": lambda rng: with_everything(rng, dag(rng, ANY_PRICES, "any", operators=5)),
    "graph with core": lambda rng: with_core(rng, with_everything(rng, dag(rng, ANY_PRICES, "derive", operators=4))),
    "graph with core, where an input is": lambda rng: with_core(
        rng, with_everything(rng, dag(rng, ANY_PRICES, "located", operators=4))
    ),
    "graph with core, any device": lambda rng: with_core(
        rng, with_everything(rng, dag(rng, ANY_PRICES, "any", operators=3))
    ),
}

KINDS = {**ONE_LEVEL, **GRAPHS}


def decided(document: Document, effort: Effort = Effort()) -> PlacementDecision:  # noqa: B008
    return decide(read_instance(json.dumps(document), "instance.json"), effort)


def check(document: Document) -> str:
    """Whether the decision is feasible, priced rightly and optimal; returns the method."""
    given = exhaustive.problem(document)
    best = exhaustive.best_cost(given)
    if best is None:
        with pytest.raises(InputError):
            decided(document)
        return "infeasible"
    decision = decided(document)
    placement = dict(decision.placement)
    assert placement.keys() == given.inputs.keys(), document
    assert exhaustive.feasible(given, placement), (document, decision)
    assert exhaustive.cost(given, placement) == decision.cost, (document, decision)
    assert decision.cost == best, (document, decision)
    assert decision.lower_bound == best, (document, decision)
    assert decision.optimal
    return decision.method


@pytest.mark.parametrize("kind", KINDS)
def test_the_cost_is_the_least_of_all_placements(kind: str):
    rng = random.Random(kind)
    for _ in range(60):
        check(KINDS[kind](rng))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_the_cost_is_the_least_of_all_placements_in_a_long_sweep(kind: str, seed: int):
    rng = random.Random(f"{kind} {seed}")
    for _ in range(500):
        check(KINDS[kind](rng))


@pytest.mark.parametrize(
    "kind", ["uploads dearer", "graph, uploads dearer", "graph with everything", "graph with core"]
)
def test_a_search_that_is_cut_short_still_tells_the_truth(kind: str):
    """No effort at all: the answer is feasible and priced rightly, and its bound is not above the optimum."""
    rng = random.Random(kind)
    for _ in range(60):
        document = KINDS[kind](rng)
        given = exhaustive.problem(document)
        best = exhaustive.best_cost(given)
        if best is None:
            continue
        decision = decided(document, Effort(milp_nodes=0, exact_nodes=0))
        placement = dict(decision.placement)
        assert exhaustive.feasible(given, placement)
        assert exhaustive.cost(given, placement) == decision.cost
        assert decision.lower_bound <= best <= decision.cost
        assert decision.optimal == (decision.lower_bound == decision.cost)


def test_all_in_the_cloud_is_priced_by_the_definition():
    rng = random.Random(8)
    for _ in range(100):
        document = single(rng, ANY_PRICES)
        given = exhaustive.problem(document)
        everything = dict.fromkeys(given.inputs, "cloud")
        assert decided(document).all_cloud_cost == exhaustive.cost(given, everything)


def test_every_way_of_settling_conflicts_is_exercised():
    """The sweep above would say little about a method that none of its instances needs."""
    rng = random.Random(5)
    methods: Counter[str] = Counter()
    while len(methods) < 4 and sum(methods.values()) < 4000:
        names = ["a", "b", "c", "d", "e"]
        pairs = [[one, other, rng.randint(1, 9), rng.randint(1, 9)] for one in names for other in names if one < other]
        document = {"kind": "single", "cu": 5, "cd": 1, "pairs": rng.sample(pairs, rng.randint(3, 7))}
        methods.update(
            set(check(document).split(" + ")) & {"tree dynamic program", "bipartite cut", "half-integral cut", "MILP"}
        )
    assert methods.keys() == {"tree dynamic program", "bipartite cut", "half-integral cut", "MILP"}


def test_decimals_are_taken_exactly():
    """0.1 + 0.2 is 0.3: as doubles the two limits would differ and the view would move."""
    document = {"kind": "single", "pairs": [["a", "b", 0.3, 0.1], ["a", "c", 0.3, 0.2]]}
    decision = decided(document)
    assert decision.placement == {"a|b": "cloud", "a|c": "cloud"}
    assert decision.cost == Fraction(6, 10)


def test_rates_beyond_64_bits_are_exact_even_at_no_price():
    check({"kind": "single", "cu": 0, "cd": 0, "pairs": [["a", "b", 12, 19 * 10**18]]})


def test_a_device_may_be_named_as_the_feed_of_a_cloud_source():
    check(
        {
            "kind": "single",
            "cu": 2,
            "pairs": [["feed:a", "a", 30, 28], ["feed:a", "b", 3, 1]],
            "cloud_sources": ["a"],
            "core": {"links": [["n0", "n1", 20]], "attach": {"feed:a": "n0", "b": "n0", "a": "n1"}},
        }
    )


def test_a_search_that_finds_nothing_in_time_does_not_call_the_instance_impossible():
    """Pins in mode `located` ask for a chain of operators on their device, which takes a search to find."""
    document = {
        "kind": "dag",
        "mode": "located",
        "sources": {"s0": "d0", "s1": "d0"},
        "cu": 0.5,
        "cd": 0.7,
        "ops": [
            {"id": "o0", "inputs": [["s1", 0.2], ["s0", 0.5]]},
            {"id": "o1", "inputs": [["s1", 0], ["o0", 0.3]]},
            {"id": "o2", "inputs": [["o0", 0.1], ["s0", 0.2], ["o1", 1.5], ["s1", 0]]},
            {"id": "o3", "inputs": [["o2", 0], ["o0", 0.5]], "pin": "d0"},
            {"id": "o4", "inputs": [["o2", 0.2], ["s1", 1.83], ["o0", 1.5], ["s0", 0]]},
            {"id": "o5", "inputs": [["o1", 1], ["o3", 0], ["o2", 0]]},
        ],
        "devices": {"d0": {"cu": 3, "cd": 0.1, "capacity": 5}},
    }
    check(document)
    with pytest.raises(InputError, match="the search stopped at its limit"):
        decided(document, Effort(milp_nodes=0, exact_nodes=0, exact_work=0))
