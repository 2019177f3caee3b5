"""Which pushes go together in one job, and how a job is cut so that its parts run side by side."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.run.schedule.next_job import Job, ParallelSlots, length_s, next_job, parts_of, together
from headrace.run.schedule.next_push import SECOND, Due, Paths, Promised, Scene

NOW = 1_000 * SECOND


def paths(freshness_s: float = 20.0, views: int = 4) -> Paths:
    """Views that read one source through a vertex each."""
    inputs: dict[str, tuple[str, ...]] = {"source": ()}
    for number in range(views):
        inputs |= {f"part{number}": ("source",), f"view{number}": (f"part{number}",)}
    return Paths(inputs, tuple(Promised(f"c{n}", f"view{n}", freshness_s) for n in range(views)))


def scene(given: Paths, seconds: float) -> Scene:
    return Scene(NOW, dict.fromkeys(given.inputs, NOW - 10 * SECOND), {"source": NOW}, lambda vertex, lacks: seconds)


def due(number: int, left_s: float, late: bool = False, target: int = NOW - SECOND) -> Due:
    return Due(f"c{number}", f"view{number}", target, NOW + round(left_s * SECOND), late)


def test_what_is_due_goes_together_while_it_is_short():
    given = paths()
    job = next_job(given, scene(given, 0.01), [due(n, 4.0) for n in range(4)], 0.2)
    assert job is not None and set(job.targets) == set(given.inputs)


def test_a_job_keeps_nobody_waiting_longer_than_pushes_start_early_for():
    given = paths(freshness_s=20.0)
    job = next_job(given, scene(given, 0.7), [due(n, 10.0 + n) for n in range(4)], 0.2)
    assert job is not None and set(job.targets) == {"source", "part0", "view0", "part1", "view1"}


def test_a_short_promise_that_is_forced_makes_no_job_shorter():
    given = paths(freshness_s=60.0)
    entries = (*given.contracts[1:], Promised("c0", "view0", 1.0, forced=True))
    with_forced, dues = replace(given, contracts=entries), [due(n, 20.0) for n in (1, 2, 3)]
    assert next_job(with_forced, scene(given, 0.7), dues, 0.2) == next_job(given, scene(given, 0.7), dues, 0.2)


def test_a_job_is_done_before_the_first_of_its_promises_ends():
    given = paths(freshness_s=100.0)
    job = next_job(given, scene(given, 0.7), [due(0, 3.0), due(1, 30.0)], 0.2)
    assert job is not None and set(job.targets) == {"source", "part0", "view0"}


def test_a_push_that_is_long_goes_level_by_level_unless_jobs_cost_more_than_that_saves():
    given = paths(freshness_s=10.0)
    assert next_job(given, scene(given, 2.0), [due(0, 8.0)], 0.2) is None
    assert next_job(given, scene(given, 2.0), [due(0, 8.0)], 3.0) is not None


def test_a_push_that_waited_brings_all_that_is_captured_by_now():
    given = paths()
    job = next_job(given, scene(given, 0.01), [due(0, 4.0), due(1, -5.0, late=True)], 0.2)
    assert job is not None and set(job.targets.values()) == {NOW}


def test_nothing_is_due():
    assert next_job(paths(), scene(paths(), 0.1), [], 0.2) is None


def test_a_job_without_its_first_level_falls_apart_and_runs_side_by_side():
    given = paths()
    targets = dict.fromkeys(given.inputs, NOW)
    parts = parts_of(given, Job(targets, dict.fromkeys(targets, 1.0)), ParallelSlots(2), 0.5)
    assert [sorted(part) for part in parts] == [["source"], sorted(set(targets) - {"source"})]


def test_a_short_job_stays_one():
    given = paths()
    targets = dict.fromkeys(given.inputs, NOW)
    assert parts_of(given, Job(targets, dict.fromkeys(targets, 0.05)), ParallelSlots(2), 0.5) == (targets,)


def test_a_job_whose_slots_wait_for_each_other_stays_one_and_takes_as_long_as_all_of_it():
    given = paths()
    targets = dict.fromkeys(given.inputs, NOW)
    seconds = dict.fromkeys(targets, 1.0)
    assert parts_of(given, Job(targets, seconds), ParallelSlots(2, parallel=0.0), 0.5) == (targets,)
    rest = [name for name in targets if given.inputs[name]]
    assert length_s(given, seconds, rest, ParallelSlots(2, parallel=0.0)) == len(rest)
    assert length_s(given, seconds, rest, ParallelSlots(2, parallel=1.0)) < len(rest)


def test_what_builds_on_each_other_is_together_in_the_order_given():
    inputs = {"a": (), "b": ("a",), "c": (), "d": ("c", "elsewhere"), "e": ("b",)}
    assert together(inputs, ["a", "b", "c", "d", "e"]) == [["a", "b", "e"], ["c", "d"]]


@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.5, 2.0]), st.sampled_from([1.0, 0.6]))
def test_no_other_cuts_between_levels_are_shorter(seed: int, overhead_s: float, parallel: float) -> None:
    chosen = random.Random(seed)
    inputs: dict[str, tuple[str, ...]] = {}
    for number in range(chosen.randint(1, 12)):
        known = list(inputs)
        inputs[f"v{number}"] = tuple(chosen.sample(known, min(len(known), chosen.randint(0, 2))))
    given_, sides = Paths(inputs, ()), ParallelSlots(2, parallel)
    job = Job(dict.fromkeys(inputs, NOW), {name: chosen.choice([0.1, 1.0, 4.0]) for name in inputs})
    depth: dict[str, int] = {}
    for name, read in inputs.items():
        depth[name] = 1 + max((depth[one] for one in read), default=-1)
    levels = [[name for name in inputs if depth[name] == level] for level in range(max(depth.values()) + 1)]

    def takes_s(parts: list[list[str]]) -> float:
        return (len(parts) - 1) * overhead_s + sum(length_s(given_, job.seconds, part, sides) for part in parts)

    def cut_at(places: tuple[int, ...]) -> list[list[str]]:
        ends = (0, *places, len(levels))
        return [[name for level in levels[i:j] for name in level] for i, j in itertools.pairwise(ends)]

    every = [cut_at(places) for n in range(len(levels)) for places in itertools.combinations(range(1, len(levels)), n)]
    found = [list(part) for part in parts_of(given_, job, sides, overhead_s)]
    assert sorted(name for part in found for name in part) == sorted(inputs)
    assert takes_s(found) == pytest.approx(min(map(takes_s, every)))
