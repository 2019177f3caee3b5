"""When pushes start, how far they go, and which goes first."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.model.log import NEVER
from headrace.run.schedule.next_push import (
    LOOK_AGAIN,
    PRECISION,
    SECOND,
    Due,
    Paths,
    Promised,
    PushDecision,
    Scene,
    longest_item_s,
    next_pushes,
    next_starts,
    path_s,
)
from headrace.run.schedule.next_round import RoundPush, next_round
from tests.run.schedule.push_simulation import Line, RoundSimulation, Simulation, are_admissible, mixed_contracts

NOON = 1_800_000_000 * SECOND


def view(freshness_s: float = 45.0, contract: str = "c") -> Paths:
    return Paths({"source": (), contract: ("source",)}, (Promised(contract, contract, freshness_s),))


def scene_of(line: Line, age_s: float, behind_s: float = 0.0) -> Scene:
    """A view of some age, whose source is captured up to `behind_s` ago; reading the source takes no time."""
    now, at = NOON, NOON - round(age_s * SECOND)
    captured = now - round(behind_s * SECOND)
    seconds = {"source": Line(0.0, 0.0), "c": line}
    return Scene(now, {"source": at, "c": at}, {"source": captured}, lambda name, batch_s: seconds[name].at(batch_s))


def decided(line: Line, freshness_s: float, age_s: float, behind_s: float = 0.0) -> PushDecision:
    return next_pushes(view(freshness_s), scene_of(line, age_s, behind_s))


# When


def test_a_lone_contract_peaks_at_four_fifths_of_its_freshness():
    """A push of x seconds that takes 1 + 0.15 x, and 45 s promised."""
    done = Simulation({"c": (45.0, Line(1.0, 0.15))}, slots=2).run(600.0)
    steady = done[1:]
    assert [round(push.peak_s, 1) for push in steady] == [36.0] * len(steady)
    assert [round(push.trough_s, 1) for push in steady] == [5.6] * len(steady)
    assert [round(push.batch_s, 1) for push in steady] == [30.4] * len(steady)


@given(st.floats(0.0, 5.0), st.floats(0.0, 0.9), st.floats(20.0, 100.0))
def test_the_next_wake_is_where_age_and_push_reach_four_fifths(fixed: float, slope: float, freshness_s: float):
    found = decided(Line(fixed, slope), freshness_s, age_s=0.0)
    expected = (0.8 * freshness_s - fixed) / (1 + slope)
    assert found.due == ()
    assert (found.next_wake - NOON) / SECOND == pytest.approx(expected, abs=0.002)


@example(1.57421875, 0.0, 4.0, 1.0, 0.0)
@given(st.floats(0.0, 10.0), st.floats(0.0, 2.0), st.floats(1.0, 100.0), st.floats(0.0, 200.0), st.floats(0.0, 5.0))
def test_nothing_starts_before_the_wake_and_something_at_it(
    fixed: float, slope: float, freshness_s: float, age_s: float, behind_s: float
):
    line = Line(fixed, slope)
    found = decided(line, freshness_s, age_s, behind_s)
    assert found.next_wake > NOON
    if not found.due and age_s > behind_s:
        later_s = (found.next_wake - NOON) / SECOND
        assert decided(line, freshness_s, age_s + later_s + 1 / SECOND, behind_s).due, "to the microsecond"
        assert not decided(line, freshness_s, age_s + max(0.0, later_s - 2 * PRECISION / SECOND), behind_s).due


@given(st.floats(0.0, 10.0), st.floats(0.0, 2.0), st.floats(1.0, 100.0), st.floats(0.0, 200.0), st.floats(0.0, 5.0))
def test_the_start_that_people_are_told_is_the_one_that_is_waited_for(
    fixed: float, slope: float, freshness_s: float, age_s: float, behind_s: float
):
    scene = scene_of(Line(fixed, slope), age_s, behind_s)
    decision, told = next_pushes(view(freshness_s), scene), next_starts(view(freshness_s), scene)
    if decision.due:
        assert told == {"c": NOON}
    elif age_s > behind_s:
        assert abs(told["c"] - decision.next_wake) <= 2 * PRECISION


def test_a_contract_whose_push_runs_is_not_due_again():
    scene = replace(scene_of(Line(1.0, 0.1), 100.0), in_flight=frozenset(("c",)))
    assert next_pushes(view(), scene).due == ()


def test_a_contract_that_is_not_loaded_waits():
    scene = replace(scene_of(Line(1.0, 0.1), 100.0), times={"source": NOON})
    assert next_pushes(view(), scene).due == ()


@pytest.mark.parametrize("watermarks", [{}, {"source": NEVER}, {"source": NOON - 100 * SECOND}])
def test_a_contract_whose_sources_stand_still_is_looked_at_every_second(watermarks: dict[str, int]):
    scene = replace(scene_of(Line(1.0, 0.1), 100.0), watermarks=watermarks)
    assert next_pushes(view(), scene) == PushDecision((), NOON + LOOK_AGAIN)


def test_a_lag_that_exceeds_the_age_counts():
    scene = scene_of(Line(1.0, 0.1), 10.0)
    assert next_pushes(view(), scene).due == ()
    (due,) = next_pushes(view(), replace(scene, lags_s={"c": 40.0})).due
    assert due.deadline == NOON + 5 * SECOND


@pytest.mark.parametrize(("copy_s", "earlier_s"), [(0.0, 0.0), (2.0, 2.0), (60.0, 13.5)])
def test_a_view_is_pushed_earlier_by_what_its_copy_takes_but_not_before_half_of_its_freshness(
    copy_s: float, earlier_s: float
):
    scene = replace(scene_of(Line(0.0, 0.0), 0.0), copies_take_s={"c": copy_s})
    found = next_pushes(view(), scene)
    assert found.due == ()
    assert (found.next_wake - NOON) / SECOND == pytest.approx(36.0 - earlier_s, abs=0.002)


def test_the_skew_of_clocks_is_kept_free():
    scene = scene_of(Line(1.0, 0.0), 34.5)
    assert next_pushes(view(), scene).due == ()
    (due,) = next_pushes(view(), replace(scene, skew_s=1.0)).due
    assert due.deadline == NOON - round(34.5 * SECOND) + 44 * SECOND


@pytest.mark.parametrize(("age_s", "together"), [(32.5, True), (30.0, False)])
def test_what_is_due_soon_goes_with_what_is_due_now(age_s: float, together: bool):
    """Both of 45 s: one is due at an age of 36 s, the other goes along if it will be within 4.5 s."""
    paths = Paths(
        {"source": (), "a": ("source",), "b": ("source",)}, (Promised("a", "a", 45.0), Promised("b", "b", 45.0))
    )
    times = {"source": NOON, "a": NOON - 36 * SECOND, "b": NOON - round(age_s * SECOND)}
    found = next_pushes(paths, Scene(NOON, times, {"source": NOON}, lambda name, batch_s: 0.0, slots=2))
    assert [due.contract for due in found.due] == (["a", "b"] if together else ["a"])


def test_a_contract_that_may_have_to_wait_starts_earlier_but_not_before_half():
    scene = scene_of(Line(1.0, 0.0), 0.0)
    wakes = [next_pushes(view(), replace(scene, blocking_s=wait_s)).next_wake for wait_s in (5.0, 20.0, 40.0)]
    assert [(wake - NOON) / SECOND for wake in wakes] == [pytest.approx(at, abs=0.002) for at in (35.0, 24.0, 22.5)]


def test_a_margin_makes_paths_longer():
    scene = replace(scene_of(Line(2.0, 0.0), 0.0), margins={"c": 0.5})
    assert (next_pushes(view(), scene).next_wake - NOON) / SECOND == pytest.approx(33.0, abs=0.002)


# How far


@given(st.floats(0.0, 10.0), st.floats(0.0, 2.0), st.floats(5.0, 100.0), st.floats(0.0, 120.0))
def test_the_target_is_the_largest_that_is_done_in_time(fixed: float, slope: float, freshness_s: float, age_s: float):
    """Against every millisecond that could be the target."""
    line = Line(fixed, slope)
    for due in decided(line, freshness_s, age_s).due:
        batch_s = (due.target - (NOON - round(age_s * SECOND))) / SECOND
        if due.late:
            assert due.target == NOON
            assert age_s + line.at(0.001) > freshness_s or age_s < 0.002 or age_s + line.at(age_s) > freshness_s
        else:
            assert age_s + line.at(batch_s) <= freshness_s + 1e-5
            is_largest = due.target == NOON or age_s + line.at(batch_s + 0.0011) > freshness_s
            assert is_largest


def test_a_push_that_would_be_late_as_a_whole_carries_what_is_in_time():
    (due,) = decided(Line(1.0, 0.5), 45.0, age_s=36.0).due
    assert not due.late
    assert (due.target - NOON) / SECOND + 36.0 == pytest.approx(16.0, abs=0.002)


def test_an_overloaded_contract_goes_to_the_watermark_at_once_and_is_late():
    (due,) = decided(Line(10.0, 0.5), 45.0, age_s=40.0, behind_s=2.0).due
    assert due == Due("c", "c", NOON - 2 * SECOND, NOON + 5 * SECOND, late=True)


def test_a_vertex_that_is_ahead_has_less_to_do():
    paths = Paths({"source": (), "shared": ("source",), "c": ("shared",)}, (Promised("c", "c", 45.0),))
    times = {"source": NOON, "shared": NOON - 4 * SECOND, "c": NOON - 20 * SECOND}
    scene = Scene(NOON, times, {"source": NOON}, lambda _, batch_s: 1.0 + 0.1 * batch_s)
    assert path_s(paths, scene, "c", NOON) == pytest.approx(1.4 + 3.0)
    assert path_s(paths, scene, "c", NOON - 10 * SECOND) == pytest.approx(2.0)
    assert path_s(paths, scene, "c", NOON - 30 * SECOND) == 0.0


# Which first


def two(ages_s: tuple[float, float], lines: tuple[Line, Line], slots: int) -> tuple[Paths, Scene]:
    """A contract of 5 s and one of 60 s, over one source."""
    paths = Paths(
        {"source": (), "quick": ("source",), "slow": ("source",)},
        (Promised("slow", "slow", 60.0), Promised("quick", "quick", 5.0)),
    )
    times = {"source": NOON, "quick": NOON - round(ages_s[0] * SECOND), "slow": NOON - round(ages_s[1] * SECOND)}
    seconds = {"source": Line(0.0, 0.0), "quick": lines[0], "slow": lines[1]}
    return paths, Scene(NOON, times, {"source": NOON}, lambda name, batch_s: seconds[name].at(batch_s), slots)


def test_the_earliest_deadline_goes_first():
    paths, scene = two((4.0, 50.0), (Line(0.1, 0.0), Line(5.0, 0.0)), slots=1)
    assert [due.contract for due in next_pushes(paths, scene).due] == ["quick", "slow"]
    paths, scene = two((4.0, 59.5), (Line(0.1, 0.0), Line(0.2, 0.0)), slots=1)
    assert [due.contract for due in next_pushes(paths, scene).due] == ["slow", "quick"]


@pytest.mark.parametrize(
    ("age_s", "order"), [(63.0, ["slow", "quick"]), (121.0, ["quick", "slow"]), (661.0, ["slow", "quick"])]
)
def test_what_is_very_late_gives_way_to_what_is_not_for_a_while(age_s: float, order: list[str]):
    paths, scene = two((4.0, age_s), (Line(0.1, 0.0), Line(5.0, 0.0)), slots=1)
    assert [due.contract for due in next_pushes(paths, scene).due] == order


def test_pushes_that_would_be_due_together_start_one_after_the_other():
    """Four equal promises on one slot, as after a recovery: the first starts when all four still fit."""
    names = [f"c{number}" for number in range(4)]
    paths = Paths(
        {"source": (), **dict.fromkeys(names, ("source",))}, tuple(Promised(name, name, 50.0) for name in names)
    )
    times = {"source": NOON, **dict.fromkeys(names, NOON)}
    cost = {"source": 0.0, **dict.fromkeys(names, 3.0)}
    scene = Scene(NOON, times, {"source": NOON}, lambda name, _: cost[name], slots=1)
    assert next_pushes(paths, scene) == PushDecision((), NOON + (40 - 12) * SECOND)
    alone = next_pushes(paths, replace(scene, slots=4))
    assert (alone.next_wake - NOON) / SECOND == pytest.approx(37.0, abs=0.002)


def test_competition_starts_nothing_before_half_of_the_freshness():
    names = [f"c{number}" for number in range(20)]
    paths = Paths(
        {"source": (), **dict.fromkeys(names, ("source",))}, tuple(Promised(name, name, 50.0) for name in names)
    )
    times = {"source": NOON, **dict.fromkeys(names, NOON)}
    scene = Scene(NOON, times, {"source": NOON}, lambda _, batch_s: 0.1 * batch_s, slots=1)
    assert next_pushes(paths, scene) == PushDecision((), NOON + 25 * SECOND)


@pytest.mark.parametrize("forced_s", [1.0, 25.0, 60.0])
def test_what_is_forced_makes_no_other_push_earlier(forced_s: float):
    names = ("ordinary", "forced")
    promised = (Promised("ordinary", "ordinary", 20.0), Promised("forced", "forced", forced_s, forced=True))
    paths = Paths({"source": (), **dict.fromkeys(names, ("source",))}, promised)
    line = {"source": Line(0.0, 0.0), "ordinary": Line(0.5, 0.0), "forced": Line(0.0, 2.0)}
    for age_s in (5, 12, 15):
        at = NOON - age_s * SECOND
        times = {"source": at, **dict.fromkeys(names, at)}
        scene = Scene(NOON, times, {"source": NOON}, lambda name, batch_s: line[name].at(batch_s), slots=1)
        assert "ordinary" not in {due.contract for due in next_pushes(paths, scene).due}
    blocking_s = longest_item_s(paths, lambda name, batch_s: line[name].at(batch_s))
    assert blocking_s == pytest.approx(2.0 * 0.8 * forced_s), "whoever is in the way, others start early enough for it"


# Rounds


def round_of(paths: Paths, scene: Scene) -> list[str]:
    return [move.vertex for move in next_round(paths, scene, next_pushes(paths, scene).due)]


def test_a_short_promise_does_not_share_a_round_with_an_item_it_cannot_wait_for():
    paths, scene = two((4.0, 50.0), (Line(0.3, 0.0), Line(5.0, 0.0)), slots=2)
    assert round_of(paths, scene) == ["quick"]


def test_items_that_make_nobody_late_go_together():
    paths, scene = two((4.0, 50.0), (Line(0.3, 0.0), Line(0.6, 0.0)), slots=2)
    assert round_of(paths, scene) == ["quick", "slow"]


def test_a_vertex_runs_once_for_all_and_after_its_inputs():
    paths = Paths(
        {"source": (), "shared": ("source",), "a": ("shared",), "b": ("shared",)},
        (Promised("a", "a", 30.0), Promised("b", "b", 40.0)),
    )
    times = dict.fromkeys(paths.inputs, NOON - 30 * SECOND)
    scene = Scene(NOON, times, {"source": NOON}, lambda _, __: 0.1, slots=2)
    due = (Due("b", "b", NOON, NOON + 10 * SECOND, False), Due("a", "a", NOON - SECOND, NOON, False))
    assert next_round(paths, scene, due) == (RoundPush("source", NOON - SECOND, "a"),)
    moved = replace(scene, times={**times, "source": NOON, "shared": NOON - SECOND})
    assert next_round(paths, moved, due) == (RoundPush("a", NOON - SECOND, "a"), RoundPush("shared", NOON, "b"))


def test_small_items_go_together_though_there_are_more_than_slots():
    names = [f"c{number}" for number in range(8)]
    paths = Paths(
        {"source": (), **dict.fromkeys(names, ("source",))}, tuple(Promised(name, name, 50.0) for name in names)
    )
    times = {"source": NOON, **dict.fromkeys(names, NOON - 45 * SECOND)}
    scene = Scene(NOON, times, {"source": NOON}, lambda _, __: 0.02, slots=2)
    assert len(round_of(paths, scene)) == 8


lengths = st.lists(st.floats(0.01, 8.0), min_size=1, max_size=8)


@given(lengths, st.data())
def test_a_round_is_no_longer_than_its_longest_item_could_be_and_has_the_most_urgent_one(items: list[float], data):
    names = [f"c{number}" for number in range(len(items))]
    slots = data.draw(st.integers(1, 3))
    seconds = dict(zip(names, items, strict=True))
    paths = Paths(
        {"source": (), **dict.fromkeys(names, ("source",))}, tuple(Promised(name, name, 50.0) for name in names)
    )
    ages = {name: NOON - data.draw(st.integers(41, 60)) * SECOND for name in names}
    scene = Scene(NOON, {"source": NOON, **ages}, {"source": NOON}, lambda name, _: seconds.get(name, 0.0), slots)
    due = next_pushes(paths, scene).due
    moves = next_round(paths, scene, due)
    assert moves[0].vertex == due[0].vertex
    ends = [0.0] * slots
    for move in moves:
        ends[ends.index(min(ends))] += seconds[move.vertex]
    assert max(ends) <= max(0.25, *items) + 1e-9


# Simulation: 18 minutes of 25 contracts on two slots


@pytest.mark.parametrize("load", [*(pytest.param(load, marks=pytest.mark.long) for load in (0.49, 0.66)), 0.84])
def test_by_deadline_25_admissible_contracts_keep_their_promises_where_first_come_first_served_breaks_them(load: float):
    contracts = mixed_contracts(load, slots=2, seed=4)
    assert are_admissible(contracts)
    spread = random.Random(4)
    starts = {name: -spread.uniform(0.0, 0.5) * freshness_s for name, (freshness_s, _) in contracts.items()}
    runs = [Simulation(contracts, 2, by_deadline, random.Random(4), starts) for by_deadline in (True, False)]
    for simulation in runs:
        simulation.run(1080.0)
    by_deadline, as_they_come = runs
    assert by_deadline.violations() == 0
    assert as_they_come.violations() > 0


def test_after_an_outage_promises_are_kept_again_once_the_backlog_is_done():
    """Two minutes of changes of all 25 contracts wait, more than a minute's work for both slots."""
    contracts = mixed_contracts(0.66, slots=2, seed=1)
    simulation = Simulation(contracts, 2, True, random.Random(1), dict.fromkeys(contracts, -120.0))
    simulation.run(400.0)
    late = [push for push in simulation.finished if push.peak_s > contracts[push.contract][0]]
    assert max(push.at for push in late) < 180 * SECOND


@pytest.mark.parametrize(("load", "steps"), [(0.49, 1), (0.66, 1), (0.66, 3)])
def test_rounds_that_are_never_interrupted_keep_promises_too(load: float, steps: int):
    """At loads that are admitted: a host is planned to be busy for at most 70 % of the time."""
    contracts, spread = mixed_contracts(load, slots=2, seed=4), random.Random(4)
    starts = {name: -spread.uniform(0.0, 0.5) * freshness_s for name, (freshness_s, _) in contracts.items()}
    simulation = RoundSimulation(contracts, 2, True, random.Random(4), starts, steps=steps)
    simulation.run(600.0)
    assert simulation.violations() == 0


# Streaming


def streaming(freshness_s: float = 45.0) -> Paths:
    return Paths({"source": (), "c": ("source",)}, (Promised("c", "c", freshness_s, streaming=True),))


@given(st.floats(0.0, 100.0), st.floats(0.0, 100.0), st.floats(0.0, 5.0))
def test_a_streaming_contract_is_due_whenever_something_is_captured(age_s: float, behind_s: float, fixed_s: float):
    scene = scene_of(Line(fixed_s, 0.1), age_s, behind_s)
    found = next_pushes(streaming(), scene)
    if scene.watermarks["source"] > scene.times["c"]:
        assert [(one.contract, one.target) for one in found.due] == [("c", scene.watermarks["source"])]
    else:
        assert found.due == () and found.next_wake <= scene.now + LOOK_AGAIN


def test_a_streaming_contract_is_not_pushed_twice_at_once():
    scene = replace(scene_of(Line(1.0, 0.1), 10.0), in_flight=frozenset(("c",)))
    assert next_pushes(streaming(), scene).due == ()
