"""After any change the placement is the one that deciding everything anew would give, and no more than needed was
decided.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction

import pytest

from headrace.plan.exact_numbers import Exact
from headrace.plan.place.adapt import PlacementChange, StandingPlacement, change, commit_device, stand
from headrace.plan.place.adapt_graph import StandingGraph, change_graph, find_touched_devices, stand_graph
from headrace.plan.place.decide import decide
from headrace.plan.place.device import wants
from headrace.plan.place.infeasible import Infeasible
from headrace.plan.place.instance import CLOUD, Dag, Device, PairView, PlacedOperator, Single
from headrace.plan.place.read import read_instance
from tests.plan.place.documents import (
    ANY_PRICES,
    UP_DEARER,
    Document,
    dag,
    single,
    with_capacities,
    with_everything,
    with_own_prices,
)


def pairs_instance(document: Document) -> Single:
    found = read_instance(json.dumps(document), "f.json")
    assert isinstance(found, Single)
    return found


def graph_instance(document: Document) -> Dag:
    found = read_instance(json.dumps(document), "f.json")
    assert isinstance(found, Dag)
    return found


def as_instance(standing: StandingPlacement) -> Single:
    return Single(tuple(standing.views.values()), standing.default, standing.devices, standing.cloud_sources)


def random_change(rng: random.Random, standing: StandingPlacement) -> PlacementChange:
    known = sorted(standing.views)
    removed = frozenset(rng.sample(known, min(len(known), rng.randint(0, 2))))
    again = [standing.views[name] for name in sorted(removed) if rng.random() < 0.5]
    added = [replace_rates(rng, view) for view in again]
    for number in range(rng.randint(0, 2)):
        a, b = rng.sample(["d0", "d1", "d2", "d3", "d4", "d5"], 2)
        added.append(PairView(f"new{rng.random()}-{number}", a, b, rng.randint(0, 9), rng.randint(0, 9)))
    priced = {} if rng.random() < 0.8 or not added else {added[0].a: Device(rng.randint(0, 4), rng.randint(0, 4))}
    return PlacementChange(removed, tuple(added), priced)


def replace_rates(rng: random.Random, view: PairView) -> PairView:
    return view._replace(rate_a=rng.randint(0, 9), rate_b=Fraction(rng.randint(0, 90), 10))


@pytest.mark.parametrize("seed", range(15))
def test_a_changed_placement_is_the_one_decided_from_nothing(seed: int):
    rng = random.Random(seed)
    document = with_capacities(rng, with_own_prices(rng, single(rng, UP_DEARER)))
    standing = stand(pairs_instance(document))
    for _ in range(8):
        what = random_change(rng, standing)
        after = change(standing, what)
        fresh = decide(as_instance(after.standing))
        assert after.standing.cost == fresh.cost
        assert after.standing.lower_bound == fresh.lower_bound
        places = {view: after.standing.place_of(view) for view in after.standing.views}
        assert {
            view: at for view, at in places.items() if standing.views.get(view) is None or standing.place_of(view) != at
        }.items() <= (after.moved.items())
        gone = [standing.views[name] for name in what.removed]
        touched = {name for view in (*gone, *what.added) for name in (view.a, view.b)} | what.devices.keys()
        assert after.decided == touched - standing.cloud_sources
        kept = standing.limit.keys() - after.settled
        assert all(after.standing.limit[device] == standing.limit[device] for device in kept)
        standing = after.standing


def test_a_rate_that_changes_concerns_its_two_devices_alone():
    views = tuple(PairView(f"v{n}", f"d{n}", f"d{n + 1}", n + 1, 2 * n + 1) for n in range(50))
    before = stand(Single(views))
    after = change(before, PlacementChange(frozenset({"v7"}), (views[7]._replace(rate_b=500),)))
    assert after.decided == {"d7", "d8"}
    assert after.settled == {"d7", "d8"}
    assert after.moved.keys() <= {"v6", "v7", "v8"}


def test_a_conflict_pulls_in_only_its_own_component():
    """Every pair of devices is in conflict with each other, and with nobody else."""
    views = tuple(PairView(f"v{n}", f"a{n}", f"b{n}", 5, 5) for n in range(20))
    before = stand(Single(views, Device(3, 1)))
    after = change(before, PlacementChange(frozenset({"v4"}), (views[4]._replace(rate_a=6),)))
    assert after.settled == {"a4", "b4"}
    assert after.standing.cost == decide(as_instance(after.standing)).cost


def test_a_failed_device_takes_only_its_views_and_moves_only_its_partners():
    from headrace.plan.place.failure import failure_of

    views = tuple(PairView(f"v{n}", f"d{n}", f"d{n + 1}", n + 1, 2 * n + 1) for n in range(20))
    before = stand(Single(views))
    after = change(before, failure_of(before, "d5"))
    assert before.views.keys() - after.standing.views.keys() == {"v4", "v5"}
    assert after.decided == {"d4", "d5", "d6"}
    assert after.standing.cost == decide(as_instance(after.standing)).cost


def test_a_stale_device_and_a_fresh_one_never_claim_the_same_view():
    rng = random.Random(1)
    for _ in range(300):
        ends = [rng.sample("abcd", 2) for _ in range(6)]
        views = [PairView(f"v{n}", a, b, rng.randint(0, 9), rng.randint(0, 9)) for n, (a, b) in enumerate(ends)]
        limits: dict[str, Exact] = dict.fromkeys("abcd", 9)
        for _ in range(10):
            limits = commit_device(limits, rng.choice("abcd"), rng.randint(0, 9), views)
            claimed = [v for v in views if wants(v, v.a, limits[v.a]) and wants(v, v.b, limits[v.b])]
            assert not claimed


# Operator graphs


def mutated(rng: random.Random, given: Dag) -> Dag:
    operators = list(given.operators)
    at = rng.randrange(len(operators))
    kind = rng.choice(["rate", "remove", "add", "load"])
    if kind == "rate":
        inputs = tuple((name, rate + rng.randint(0, 5)) for name, rate in operators[at].inputs)
        operators[at] = replace(operators[at], inputs=inputs)
    elif kind == "remove" and not any(operators[at].id in dict(op.inputs) for op in operators) and len(operators) > 1:
        del operators[at]
    elif kind == "add":
        streams = [*given.sources, *(op.id for op in operators)]
        inputs = tuple((name, rng.randint(0, 9)) for name in rng.sample(streams, min(2, len(streams))))
        operators.append(PlacedOperator(f"x{rng.random()}", inputs))
    else:
        operators[at] = replace(operators[at], load=rng.randint(0, 3))
    known = {*given.sources, *(op.id for op in operators)}
    return replace(given, operators=tuple(operators), sums=given.sums & known)


def check_graph(standing: StandingGraph) -> None:
    fresh = decide(standing.dag)
    assert standing.cost == fresh.cost
    assert standing.lower_bound == fresh.lower_bound


@pytest.mark.parametrize("mode", ["derive", "located", "any"])
def test_a_changed_graph_is_placed_as_if_decided_from_nothing(mode: str):
    rng = random.Random(mode)
    for _ in range(12):
        given = graph_instance(with_everything(rng, dag(rng, ANY_PRICES, mode, operators=5)))
        try:
            standing = stand_graph(given)
        except Infeasible:
            continue
        check_graph(standing)
        for _ in range(4):
            new = mutated(rng, standing.dag)
            after = change_graph(standing, new)
            check_graph(after.standing)
            kept = {
                name: at for name, at in standing.placement.items() if at in after.standing.own.keys() - after.settled
            }
            assert {name: after.standing.placement[name] for name in kept} == kept
            standing = after.standing


def test_a_change_in_a_graph_touches_the_devices_of_its_stream_and_reader():
    sources = {f"s{n}": f"d{n}" for n in range(10)}
    operators = tuple(PlacedOperator(f"o{n}", ((f"s{n}", n + 1), (f"s{n + 1}", 3))) for n in range(9))
    before = Dag(sources, operators)
    faster = replace(operators[4], inputs=(("s4", 50), ("s5", 3)))
    after = replace(before, operators=(*operators[:4], faster, *operators[5:]))
    assert find_touched_devices(before, after) == {"d4", "d5"}
    result = change_graph(stand_graph(before), after)
    assert result.decided == {"d4", "d5"}
    check_graph(result.standing)


def test_a_failed_device_takes_what_derives_from_it_and_nothing_else():
    from headrace.plan.place.failure import without_device

    given = Dag(
        {"a": "d1", "b": "d2", "c": "d3"},
        (
            PlacedOperator("ab", (("a", 1), ("b", 2))),
            PlacedOperator("abc", (("ab", 1), ("c", 2))),
            PlacedOperator("bc", (("b", 1), ("c", 2))),
            PlacedOperator("show", (("bc", 1),), allowed=("d1",), pin="d1"),
        ),
    )
    failed = without_device(given, "d1")
    assert failed.lost == {"ab", "abc"}
    assert failed.displaced == {"show"}
    assert {operator.id: operator.pin for operator in failed.dag.operators} == {"bc": None, "show": None}
    assert failed.dag.sources == {"b": "d2", "c": "d3"}
    assert decide(failed.dag).placement["show"] in (CLOUD, "d2", "d3")
