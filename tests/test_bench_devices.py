"""The parts of `bench devices` that decide what is right: loads, the model of messages, and the oracle."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.devices_model import as_pairs, place_phones, predict_messages
from bench.devices_oracle import Oracle, Published, find_said_twice
from bench.devices_report import Counted, DevicesReport
from bench.workloads.phones import (
    FASTEST,
    Phones,
    Walk,
    change_rates,
    make_alice_and_bob,
    make_sampled_phones,
    make_zipf_phones,
)
from headrace.meaning.scalar_number import FUNCTIONS
from headrace.plan.place.single import decide_pairs
from headrace.plan.place.tables import uniform_star

DATA = Path(__file__).parents[2] / "shared" / "data"
SEEDS = range(1, 31)

NEAR = """
    SELECT pairs.a, pairs.b, x.n, y.n FROM pairs
    JOIN {x} x ON x.device = pairs.a JOIN {x} y ON y.device = pairs.b
    WHERE distance(x.lat, x.lng, y.lat, y.lng) < 100"""


TRUE = """
    SELECT a, b, mine, theirs FROM said
    JOIN location_published x ON x.device = a AND x.n = mine
    JOIN location_published y ON y.device = b AND y.n = theirs
    WHERE distance(x.lat, x.lng, y.lat, y.lng) < 100"""


# The model


def test_alice_and_bob_send_361_messages_an_hour_to_the_cloud_and_2_when_the_view_runs_at_bob() -> None:
    phones = make_alice_and_bob(360)
    where = place_phones(phones)
    found = predict_messages(phones, where)
    assert where.tolist() == [2]
    assert 3600 * found.all_cloud == pytest.approx(361) and 3600 * found.placed == pytest.approx(2)


@pytest.mark.parametrize(("phones", "published"), [(100, (196, 173, 473, 386)), (500, (912, 857))])
def test_messages_of_the_papers_deployment_are_what_was_computed_for_it(
    phones: int, published: tuple[int, ...]
) -> None:
    """RACE, section 5.3, bullets 3 and 4: all in the cloud, placed; after rates changed as placed before, and anew."""
    found = np.array([_predict_race(phones, seed) for seed in SEEDS])
    mean, spread = found.mean(axis=0), found.std(axis=0)
    for number, at in zip(published, range(4), strict=False):
        assert abs(number - mean[at]) < 2 * spread[at], f"{number} is not among {mean[at]:.0f} +- {spread[at]:.0f}"
    saved = 1 - mean[3] / mean[2]
    assert saved == pytest.approx(1 - 386 / 473, abs=0.06)
    assert mean[1] / mean[0] == pytest.approx(published[1] / published[0], abs=0.04)


def _predict_race(count: int, seed: int) -> tuple[float, float, float, float]:
    phones = make_zipf_phones(count, seed)
    where, changed = place_phones(phones), change_rates(phones, seed)
    before = predict_messages(phones, where)
    after, anew = (predict_messages(changed, one) for one in (where, place_phones(changed)))
    return before.all_cloud, before.placed, after.placed, anew.placed


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_model_counts_what_deciding_says_a_placement_costs(seed: int) -> None:
    for phones in (make_zipf_phones(60, seed), make_sampled_phones(60, seed, Path("/nowhere"), 60)):
        star, _ = uniform_star(len(phones), 1, 1)
        decided, counted = decide_pairs(as_pairs(phones), star), predict_messages(phones, place_phones(phones))
        assert counted.placed == pytest.approx(decided.cost / 1e6, rel=1e-4)
        assert counted.all_cloud == pytest.approx(decided.all_cloud_cost / 1e6, rel=1e-4)


@pytest.mark.skipif(not DATA.exists(), reason="public data is not on this machine")
@pytest.mark.parametrize("seed", [1, 2])
def test_friends_of_brightkite_with_rates_of_geolife_save_half_of_the_messages(seed: int) -> None:
    phones = make_sampled_phones(2000, seed, DATA, 4)
    assert "Brightkite" in phones.origin and "simulated" not in phones.origin
    assert predict_messages(phones, place_phones(phones)).ratio > 2.0


# The load


def test_phones_follow_from_the_seed_and_have_rates_and_friends_within_bounds() -> None:
    phones, again = make_zipf_phones(500, 1), make_zipf_phones(500, 1)
    assert phones.pairs == again.pairs and (phones.rate == again.rate).all()
    assert make_zipf_phones(500, 2).pairs != phones.pairs
    assert set(phones.rate) <= set(range(1, FASTEST + 1))
    assert all(a < b for a, b in phones.pairs) and len(set(phones.pairs)) == len(phones.pairs)
    assert {one for pair in phones.pairs for one in pair} == set(range(500)), "everybody has a friend"


def test_without_public_data_the_graph_and_the_rates_say_that_they_are_simulated() -> None:
    phones = make_sampled_phones(200, 1, Path("/nowhere"), 60)
    assert phones.origin.count("simulated") == 2
    assert not (phones.a == phones.b).any() and len(set(phones.pairs)) == len(phones.pairs)


def test_intervals_are_multiples_of_one_another_so_that_rows_for_one_reader_serve_slower_ones() -> None:
    phones = make_sampled_phones(200, 1, Path("/nowhere"), 60)
    powers = np.log2(np.concatenate([phones.every_a, phones.every_b]))
    assert (powers == np.rint(powers)).all()
    fastest = np.maximum(phones.needed_a, 0)
    assert (fastest <= phones.rate[phones.a]).all()


def test_a_walk_stays_in_town_and_never_stands_still() -> None:
    walk = Walk(3, 1, 1000.0, 10.0)
    places = [walk.step() for _ in range(500)]
    steps = [_metres(*one, *other) for one, other in pairwise(places)]
    assert all(0.1 < step < 10.1 for step in steps)
    assert max(_metres(*one, *other) for one in places for other in places[::25]) < 1000 * math.sqrt(2) + 1


def _metres(lat: float, lng: float, other_lat: float, other_lng: float) -> float:
    found = FUNCTIONS["distance"](lat, lng, other_lat, other_lng)
    assert isinstance(found, float)
    return found


# The oracle


def _walk_phones(phones: Phones, rows: int) -> Published:
    found = Published(("lat", "lng", "n"))
    for phone in range(len(phones)):
        walk = Walk(phone, 1, 400.0, 30.0)
        for seq in range(1, rows + 1):
            found.add(phone, seq, 1000 * seq, (*walk.step(), seq))
    return found


def _make_oracle(rows: int = 12) -> tuple[Oracle, Published, Phones]:
    phones = make_zipf_phones(40, 1)
    published = _walk_phones(phones, rows)
    pairs = pa.table({"a": phones.a, "b": phones.b})
    return Oracle({"location": published}, {"pairs": pairs}), published, phones


def test_the_oracle_finds_what_a_plain_loop_over_pairs_finds() -> None:
    oracle, published, phones = _make_oracle()
    latest = {device: (lat, lng, n) for device, _, _, lat, lng, n in published.rows}
    near = [
        (a, b, latest[a][2], latest[b][2]) for a, b in phones.pairs if _metres(*latest[a][:2], *latest[b][:2]) < 100
    ]
    assert near and not oracle.compare(NEAR.format(x="location"), near)


def test_the_text_of_a_templates_view_is_run_for_each_pair_by_itself() -> None:
    oracle, _, phones = _make_oracle()
    views = {
        "my_place": "SELECT lat, lng, n FROM a.location",
        "near": "SELECT x.n AS mine, y.n AS theirs FROM my_place x"
        " JOIN b.location y ON distance(x.lat, x.lng, y.lat, y.lng) < 100",
    }
    found = oracle.ask_pair_by_pair(views, "near", phones.pairs)
    assert found and not oracle.compare(NEAR.format(x="location"), found)


@pytest.mark.parametrize("fault", ["one is missing", "one is twice", "one is of an older row"])
def test_the_oracle_names_what_is_wrong(fault: str) -> None:
    oracle, _, _ = _make_oracle()
    right = oracle.ask(NEAR.format(x="location"))
    a, b, n, m = right[0]
    wrong = {"one is missing": right[1:], "one is twice": [*right, right[0]]}
    found = oracle.compare(NEAR.format(x="location"), wrong.get(fault, [(a, b, n - 1, m), *right[1:]]))
    assert found and (right[0] in found.missing or right[0] in found.extra)
    assert str(a) in found.say()


def test_a_result_on_the_way_must_be_true_of_rows_that_existed() -> None:
    oracle, _, phones = _make_oracle()
    every = oracle.ask(NEAR.format(x="location_published"))
    near = {(a, b) for a, b, *_ in every}
    a, b = next(pair for pair in phones.pairs if pair not in near)
    true = random.Random(1).sample(every, 5)
    columns = ("a", "b", "mine", "theirs")
    assert oracle.find_untrue(TRUE, columns, []) == oracle.find_untrue(TRUE, columns, true) == []
    false = [(a, b, 1, 1), (*true[0][:3], 99)]
    assert oracle.find_untrue(TRUE, columns, [*true, *false, *false]) == false


def test_kept_rows_count_each_until_they_are_too_old() -> None:
    _, published, phones = _make_oracle()
    oracle = Oracle({"location": published}, {}, {"location": 9000})
    assert Counter(device for device, *_ in oracle.ask("SELECT device FROM location")) == Counter(
        dict.fromkeys(range(len(phones)), 3)
    )


def test_a_result_that_comes_twice_or_goes_before_it_came_is_found() -> None:
    assert find_said_twice([(1, ("x",)), (-1, ("x",)), (1, ("x",))]) == []
    assert find_said_twice([(1, ("x",)), (1, ("y",)), (1, ("x",))]) == [("x",)]
    assert find_said_twice([(-1, ("x",))]) == [("x",)]


# The report


def test_a_report_tells_claims_beside_the_papers_figures_in_text_and_json() -> None:
    report = DevicesReport("D2", ["500 phones"])
    report.claim("less than 140 KB/s", "70 KB/s", True, "140 KB/s")
    report.claim_near("messages", 900.0, 857.0)
    report.claim_near("messages", 960.0, 857.0)
    assert list(report.tell()) == [
        "500 phones",
        "met: less than 140 KB/s: 70 KB/s (paper: 140 KB/s)",
        "met: messages within 10% of the model's 857.0 messages/s: 900.0 (+5.0%)",
        "NOT met: messages within 10% of the model's 857.0 messages/s: 960.0 (+12.0%)",
    ]
    document = json.loads(json.dumps(report.document()))
    assert [one["met"] for one in document["claims"]] == [True, True, False] and document["wrong"] == []


def test_ratios_count_rows_and_results_and_control_is_beside() -> None:
    before = Counted(s_up=10, control_up=3, bytes_up=100)
    found = Counted(s_up=15, s_down=2, r_up=1, control_up=7, control_down=1, bytes_up=300).since(before)
    assert (found.messages, found.everything, found.bytes_up) == (8, 13, 200)
