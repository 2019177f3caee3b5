"""Instances too large to try out in full, against a mixed-integer program written from the definition.

The program knows nothing of thresholds, cuts or conflicts: one variable per view and place, one per upload and
download.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from headrace.plan.place.decide import decide
from headrace.plan.place.read import read_instance
from tests.plan.place import exhaustive
from tests.plan.place.documents import ANY_PRICES, Document, dag, with_everything


class Program:
    """Collects variables with their costs, and rows of coefficients that must be at most a limit."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.whole: list[int] = []
        self.rows: list[tuple[dict[int, float], float]] = []

    def variable(self, cost: float, whole: bool = False) -> int:
        self.costs.append(cost)
        self.whole.append(int(whole))
        return len(self.costs) - 1

    def solve(self) -> float:
        matrix = np.zeros((len(self.rows), len(self.costs)))
        for line, (row, _) in enumerate(self.rows):
            for variable, coefficient in row.items():
                matrix[line, variable] += coefficient
        upper = np.where(np.array(self.whole) == 1, 1.0, np.inf)
        found = milp(
            np.array(self.costs),
            integrality=np.array(self.whole),
            bounds=Bounds(0, upper),
            constraints=LinearConstraint(matrix, -np.inf, np.array([limit for _, limit in self.rows])),
            options={"mip_rel_gap": 0.0},
        )
        assert found.status == 0, found.message
        return float(found.fun)


def optimum(given: exhaustive.Problem) -> float:
    program = Program()
    at = {op: {place: program.variable(0.0, whole=True) for place in places} for op, places in given.choices.items()}
    for places in at.values():
        program.rows += [(dict.fromkeys(places.values(), 1.0), 1.0), (dict.fromkeys(places.values(), -1.0), -1.0)]
    for device, limit in given.capacity.items():
        held = {places[device]: float(given.load[op]) for op, places in at.items() if device in places}
        program.rows.append((held, float(limit)))
    if given.located:
        _must_be_with_an_input(program, given, at)
    for stream, demands in given.readers.items():
        for device, prices in given.prices.items():
            shared = [program.variable(float(price)) for price in prices]
            for op, rate in demands:
                alone = [program.variable(float(price)) for price in prices]
                paid = alone if stream in given.sums else shared
                made = given.sources[stream] == device if stream in given.sources else at[stream].get(device)
                _must_pay(program, paid[0], float(rate), made, at[op].get(device))
                _must_pay(program, paid[1], float(rate), at[op].get(device), made)
    return program.solve()


def _must_be_with_an_input(program: Program, given: exhaustive.Problem, at: dict[str, dict[str, int]]) -> None:
    for op, places in at.items():
        for device in places.keys() & given.prices.keys():
            streams = {stream for stream, _ in given.inputs[op]}
            row = {places[device]: 1.0}
            row |= {at[stream][device]: -1.0 for stream in streams if device in at.get(stream, {})}
            program.rows.append((row, float(sum(given.sources.get(stream) == device for stream in streams))))


def _must_pay(program: Program, paid: int, rate: float, here: int | bool | None, there: int | bool | None) -> None:
    """`paid` is at least the rate if the first is at the device and the second is not.

    Each may be certain, or never there.
    """
    row: dict[int, float] = {paid: -1.0}
    certain = 0.0
    for sign, who in ((rate, here), (-rate, there)):
        if isinstance(who, bool):
            certain += sign * who
        elif who is not None:
            row[who] = row.get(who, 0.0) + sign
    program.rows.append((row, -certain))


def medium_single(rng: random.Random) -> Document:
    devices = [f"d{number}" for number in range(12)]
    pairs: list[list[Any]] = [
        [*rng.sample(devices, 2), rng.randint(0, 20), rng.randint(0, 20)] for _ in range(rng.randint(10, 30))
    ]
    cu, cd = rng.choice([(1, 1), (1, 2), (2, 1), (5, 1), (3, 1)])
    named = sorted({name for pair in pairs for name in pair[:2]})
    kinds = {name: {"capacity": rng.randint(0, 4)} for name in named if rng.random() < 0.2}
    return {"kind": "single", "cu": cu, "cd": cd, "pairs": pairs, "devices": kinds}


def check(document: Document) -> None:
    given = exhaustive.problem(document)
    decision = decide(read_instance(json.dumps(document), "f.json"))
    placement = dict(decision.placement)
    assert exhaustive.feasible(given, placement)
    assert exhaustive.cost(given, placement) == decision.cost
    assert float(decision.cost) == pytest.approx(optimum(given), abs=1e-4)
    assert decision.optimal


@pytest.mark.parametrize("seed", range(25))
def test_pairs_cost_what_a_mixed_integer_program_finds(seed: int):
    check(medium_single(random.Random(seed)))


@pytest.mark.parametrize("mode", ["derive", "located", "any"])
@pytest.mark.parametrize("seed", range(15))
def test_graphs_cost_what_a_mixed_integer_program_finds(seed: int, mode: str):
    rng = random.Random(f"{seed} {mode}")
    document = dag(rng, ANY_PRICES, mode, operators=14)
    document["ops"] = [
        {**op, "inputs": [[name, min(int(rate), 50)] for name, rate in op["inputs"]]} for op in document["ops"]
    ]
    made = with_everything(rng, document)
    for op in made["ops"]:
        op.pop("pin", None)
    check(made)
