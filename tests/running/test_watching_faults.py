"""How the benchmark that provokes faults judges what it sees."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.faults import FAULTS
from bench.faults_model import Comparison, Expected, Fault, Look, Outcome, fault, find_seen
from bench.faults_world import World

KEPT, LATE = {"a": "kept", "b": "kept"}, {"a": "late", "b": "kept"}
WELL = Look(1.0, KEPT)
RIGHT, WRONG = {"a": True, "b": True}, {"a": False, "b": True}


@fault("something happens", Expected.STOPPED)
def some_fault(world: World) -> Iterator[None]:
    yield


def outcome(expected: Expected, seen_s: float | None = None, read_again: int = 0, **equal: bool | None) -> Outcome:
    one = Fault("x", "x", expected, some_fault.happen)
    compared = Comparison(equal or RIGHT, WELL, WELL)
    return Outcome(one, seen_s, "", 2.0, (compared,), read_again=read_again)


def test_a_fault_is_made_of_a_function_and_named_after_it() -> None:
    assert (some_fault.name, some_fault.sentence, some_fault.expected) == ("some-fault", "something happens", "stopped")
    assert len(FAULTS) > 50
    assert len({one.name for one in FAULTS}) == len({one.sentence for one in FAULTS}) == len(FAULTS)


def test_rows_are_wrong_while_kept_only_if_the_status_said_kept_before_and_after() -> None:
    assert Comparison(WRONG, WELL, WELL).wrong_while_kept == ("a",)
    assert Comparison(WRONG, Look(1.0, LATE, "a is late"), WELL).wrong_while_kept == ()
    assert Comparison(WRONG, WELL, Look(2.0, LATE, "a is late")).wrong_while_kept == ()
    assert Comparison({"a": None, "b": True}, WELL, WELL).wrong_while_kept == ()


def test_the_last_comparison_says_whether_rows_are_equal() -> None:
    assert [Comparison(equal, WELL, WELL).word for equal in (RIGHT, WRONG, {"a": None}, {})] == [
        *("yes", "no", "not compared", "not compared"),
    ]
    one = Outcome(some_fault, comparisons=(Comparison(WRONG, WELL, WELL), Comparison(RIGHT, WELL, WELL)))
    assert (one.rows_equal, one.wrong_while_kept) == ("yes", ("a",))
    assert Outcome(some_fault, comparisons=one.comparisons, also_equal=False).rows_equal == "no, copy"


def test_what_must_be_noticed_is_as_expected_only_if_it_was() -> None:
    assert outcome(Expected.STOPPED, seen_s=1.0).is_as_expected
    assert not outcome(Expected.STOPPED).is_as_expected
    assert outcome(Expected.READ_ANEW, read_again=1).is_as_expected
    assert outcome(Expected.UNTOUCHED).is_as_expected
    assert outcome(Expected.UNTOUCHED, seen_s=1.0).is_as_expected, "a trouble was said, and all promises were kept"
    assert not replace(outcome(Expected.UNTOUCHED, seen_s=1.0), all_kept=False).is_as_expected
    assert not outcome(Expected.UNTOUCHED, read_again=1).is_as_expected
    assert not outcome(Expected.STOPPED, seen_s=1.0, a=False).is_as_expected
    assert not outcome(Expected.STOPPED, seen_s=1.0, a=None).is_as_expected


def test_the_first_look_that_is_not_well_counts() -> None:
    assert find_seen((WELL, Look(2.0, LATE, "a is late"), Look(3.0, KEPT, "a trouble"))) == Look(2.0, LATE, "a is late")
    assert find_seen((WELL, Look(3.0, KEPT, "a trouble"))) == Look(3.0, KEPT, "a trouble")
    assert find_seen((WELL, WELL)) is None
    assert find_seen((Look(1.0, {}),)) == Look(1.0, {}), "a project without contracts keeps none"


@pytest.mark.long
@pytest.mark.live
def test_faults_are_provoked_in_a_live_project_and_told_as_a_document() -> None:
    checkout = Path(__file__).parents[2]
    command = [sys.executable, "-m", "bench.faults", "--json", "--only", "kill-captures", "divide-by-zero"]
    ran = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    told = json.loads(ran.stdout)["faults"]
    assert [(one["fault"], one["rows_equal"], one["wrong_while_kept"]) for one in told] == [
        ("kill-captures", "yes", []),
        ("divide-by-zero", "yes", []),
    ], ran.stderr
    assert "division by zero" in told[1]["said"]
