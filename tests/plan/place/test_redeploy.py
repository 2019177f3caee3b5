"""Moving to a better placement pays for itself, within the ratio that is reported."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.place.redeploy import PlacementPart, Redeployment, after_period

part = st.tuples(st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3), st.integers(-3, 40), st.integers(0, 100))
periods = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 20), st.lists(part, max_size=4)), min_size=1, max_size=30
)


def make_parts(drawn: list[tuple[set[str], int, int]]) -> list[PlacementPart]:
    """Parts are apart: a host belongs to the first that has it."""
    seen: set[str] = set()
    found = []
    for hosts, gain, moving in drawn:
        own = sorted(hosts - seen)
        seen |= hosts
        if own:
            found.append(PlacementPart({own[0]: gain, **dict.fromkeys(own[1:], 0)}, moving))
    return found


@given(periods, st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(2)]))
def test_what_is_paid_stays_within_the_bound_that_is_reported(
    history: list[tuple[int, int, list[tuple[set[str], int, int]]]], theta: Fraction
):
    state = Redeployment(theta)
    for length, best, drawn in history:
        state, judged = after_period(state, length, best, make_parts(drawn))
        assert all(one.loss >= theta * one.part.moving and one.part.gain > 0 for one in judged if one.moves)
        assert state.ratio is not None
        assert state.bound is not None
        assert state.ratio <= state.bound


def test_it_moves_once_the_loss_makes_up_for_moving():
    state = Redeployment()
    moved = []
    for _ in range(5):
        state, (one,) = after_period(state, length=1, best_cost=10, parts=[PlacementPart({"a": 2}, 4)])
        moved.append(one.moves)
    assert moved == [False, True, False, True, False]
    assert state.bound == Fraction(14, 10)


def test_a_part_that_gains_much_does_not_wait_for_those_that_gain_little():
    much, little = PlacementPart({"a": 10}, 10), PlacementPart({"b": 1}, 1000)
    state, judged = after_period(Redeployment(), 1, 1, [much, little])
    assert [one.moves for one in judged] == [True, False]
    assert state.losses == {"b": 1}


def test_a_loss_is_kept_by_its_host_when_others_move_with_it():
    state, _ = after_period(Redeployment(), 1, 1, [PlacementPart({"a": 5}, 8), PlacementPart({"b": 2}, 8)])
    state, (one,) = after_period(state, 1, 1, [PlacementPart({"a": 1, "b": 0}, 8)])
    assert one.moves and one.loss == 8 and not state.losses


def test_two_placements_and_an_adversary_force_a_ratio_of_four():
    """Whatever runs costs 1 and the other nothing, until it has moved: then everything is turned round."""
    running, state = 0, Redeployment()
    paid = [0, 0]
    for _ in range(1000):
        paid[running] += 1
        state, (one,) = after_period(state, 1, 0, [PlacementPart({"a": 1}, 1)])
        running = 1 - running if one.moves else running
    best_in_hindsight = min(paid) + 0
    assert state.running + state.moving == 2000
    assert 2000 / best_in_hindsight == 4
    assert state.bound is None, "no bound holds when the best placement costs nothing"


def test_nothing_to_gain_is_no_reason_to_move():
    state, (one,) = after_period(Redeployment(), 1, 10, [PlacementPart({"a": 1, "b": -1}, 0)])
    assert not one.moves
    assert state.bound == 1
