"""Instances on which simpler rules are known to fail, with the optimum."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.place import exhaustive
from tests.plan.place.test_against_exhaustive import check, decided


def sources(**homes: str) -> dict[str, str]:
    return homes


def op(name: str, **inputs: int) -> dict[str, Any]:
    return {"id": name, "inputs": [[stream, rate] for stream, rate in inputs.items()]}


CASES: dict[str, tuple[dict[str, Any], int]] = {
    "alice and bob": ({"kind": "single", "pairs": [["alice", "bob", 1, 360]]}, 2),
    "an output dearer than its inputs stays in the cloud": (
        {
            "kind": "dag",
            "sources": sources(a1="d1", a0="d0", a2="d2"),
            "ops": [op("s", a1=3, a0=2), op("t", s=4, a2=3)],
        },
        8,
    ),
    "what the parent's parent downloads counts": (
        {
            "kind": "dag",
            "sources": sources(a1="d1", a2="d2", a0="d0", a3="d3"),
            "ops": [op("s", a1=4, a2=2), op("t", s=7, a0=1), op("w", t=7, a3=2)],
        },
        9,
    ),
    "a shared download is paid once": (
        {"kind": "dag", "sources": sources(a="d0", b="d1"), "ops": [op("v1", a=2, b=1), op("v2", a=2, b=1)]},
        2,
    ),
    "a limit is raised, not a whole device": (
        {"kind": "single", "cu": 5, "cd": 1, "pairs": [["c", "a", 1, 2], ["c", "b", 1, 2], ["a", "b", 1, 2]]},
        13,
    ),
    "raising further than asked may be cheaper": (
        {"kind": "single", "cu": 2, "cd": 1, "pairs": [["d1", "d0", 6, 5], ["d2", "d0", 3, 6]]},
        23,
    ),
    "two devices want the same operator though downloads are dearer": (
        {
            "kind": "dag",
            "cu": 1,
            "cd": 2,
            "sources": sources(ad="d", ad2="d", ae="e", ae2="e"),
            "ops": [op("s", ad=1, ae=1), op("t1", s=10, ad2=100), op("t2", s=10, ae2=100)],
        },
        33,
    ),
    "devices first and then the core is not enough when uploads are dearer": (
        {
            "kind": "single",
            "cu": 3,
            "cd": 1,
            "pairs": [["d2", "d3", 3, 7], ["d1", "d3", 6, 7]],
            "core": {"links": [["n0", "n1", 20], ["n1", "n2", 20]], "attach": {"d3": "n0", "d2": "n0", "d1": "n2"}},
        },
        276,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_known_counterexamples_have_their_optimum(case: str):
    document, optimum = CASES[case]
    check(document)
    assert decided(document).cost == optimum == exhaustive.best_cost(exhaustive.problem(document))


def test_equal_rates_at_equal_prices_stay_in_the_cloud():
    """Without the tie-break towards fewer views on devices both would take the view."""
    assert decided({"kind": "single", "pairs": [["a", "b", 5, 5]]}).placement == {"a|b": "cloud"}


def test_alice_and_bob_improve_by_the_whole_upload():
    decision = decided({"kind": "single", "pairs": [["alice", "bob", 1, 360]]})
    assert decision.placement == {"alice|bob": "bob"}
    assert decision.all_cloud_cost == 361
    assert decision.improvement == 180.5
    assert decision.method == "local thresholds"
