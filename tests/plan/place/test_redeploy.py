"""Moving to a better placement pays for itself, within the ratio that is reported."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.place.redeploy import Redeployment, after_period, moving_cost

periods = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 20), st.integers(0, 40), st.integers(0, 100)), min_size=1, max_size=30
)


@given(periods, st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(2)]))
def test_what_is_paid_stays_within_the_bound_that_is_reported(
    history: list[tuple[int, int, int, int]], theta: Fraction
):
    state = Redeployment(theta)
    for length, best, excess, moving in history:
        state, _ = after_period(state, length, best + excess, best, moving)
        assert state.ratio is not None
        assert state.bound is not None
        assert state.ratio <= state.bound


def test_it_moves_once_the_loss_makes_up_for_moving():
    state = Redeployment()
    moved = []
    for _ in range(5):
        state, move = after_period(state, length=1, cost=12, best_cost=10, moving_cost=4)
        moved.append(move)
    assert moved == [False, True, False, True, False]
    assert state.bound == Fraction(14, 10)


def test_two_placements_and_an_adversary_force_a_ratio_of_four():
    """Whatever runs costs 1 and the other nothing, until it has moved: then everything is turned round."""
    running, state, other_cost = 0, Redeployment(), 0
    paid = [0, 0]
    for _ in range(1000):
        paid[running] += 1
        state, move = after_period(state, 1, 1, other_cost, 1)
        running = 1 - running if move else running
    best_in_hindsight = min(paid) + 0
    assert state.running + state.moving == 2000
    assert 2000 / best_in_hindsight == 4
    assert state.bound is None, "no bound holds when the best placement costs nothing"


def test_nothing_to_gain_is_no_reason_to_move():
    state, move = after_period(Redeployment(), 1, 10, 10, 0)
    assert not move
    assert state.bound == 1


def test_moving_costs_by_the_view_that_moves():
    before = {"a": "cloud", "b": "d1", "c": "d2"}
    after = {"a": "d1", "b": "d1", "c": "cloud", "new": "d1"}
    assert moving_cost(before, after, Fraction(1, 2)) == 1
