"""The same least costs as mixed integer programs, to solver tolerance: for instances too large to try everything."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array

from tests.plan.feeds.exhaustive import Document, Network, event_rate, exact, pairs, price


class Program:
    """Minimise a linear cost of yes/no variables under linear conditions."""

    def __init__(self) -> None:
        self.cost: list[float] = []
        self.conditions: list[tuple[dict[int, float], float, float]] = []
        self.constant = 0.0

    def variable(self, cost: Fraction | float) -> int:
        self.cost.append(float(cost))
        return len(self.cost) - 1

    def require(self, terms: dict[int, float], low: float = -np.inf, high: float = np.inf) -> None:
        self.conditions.append((terms, low, high))

    def least_cost(self) -> float:
        matrix = lil_array((len(self.conditions), len(self.cost)))
        for row, (terms, _, _) in enumerate(self.conditions):
            for column, factor in terms.items():
                matrix[row, column] = factor
        lows, highs = ([condition[side] for condition in self.conditions] for side in (1, 2))
        rows = [LinearConstraint(matrix.tocsr(), lows, highs)] if self.conditions else []
        count = np.ones(len(self.cost))
        options = {"mip_rel_gap": 0.0}
        solved = milp(self.cost, constraints=rows, integrality=count, bounds=Bounds(0, 1), options=options)
        assert solved.success, solved.message
        return float(solved.fun) + self.constant


def least_feeds_cost(document: Document) -> float:
    """Models rpc and batch, with or without a latency target."""
    program = Program()
    batch = exact(document.get("L0", 0)) if document.get("model", "batch") == "batch" else Fraction(0)
    rates = {name: exact(consumer["rate"]) for name, consumer in document["consumers"].items()}
    pulled: dict[str, list[int]] = defaultdict(list)
    for consumer, producer in pairs(document):
        stored = price(document, producer, "H") * event_rate(document, producer)
        program.constant += float(stored)
        pulled[consumer].append(program.variable(price(document, producer, "L") * rates[consumer] - stored))
    for consumer, variables in pulled.items():
        any_pulled = program.variable(batch * rates[consumer])
        for variable in variables:
            program.require({variable: 1, any_pulled: -1}, high=0)
    _require_latency(program, document, rates, pulled)
    return program.least_cost()


def _require_latency(
    program: Program, document: Document, rates: dict[str, Fraction], pulled: dict[str, list[int]]
) -> None:
    target = document.get("latency")
    if target is None:
        return
    queries = sum(rates.values(), start=Fraction(0))
    if target["kind"] == "mean_pulls":
        terms = {variable: float(rates[name]) for name, variables in pulled.items() for variable in variables}
        program.require(terms, high=float(exact(target["max"]) * queries))
        return
    missed = {}
    for name, variables in pulled.items():
        slow = program.variable(0)
        missed[slow] = float(rates[name])
        program.require({**dict.fromkeys(variables, 1.0), slow: -float(len(variables))}, high=target["max_pulls"])
    program.require(missed, high=float((1 - exact(target["q"])) * queries))


def least_composite_cost(document: Document) -> float:
    """Fetches are priced by walking down from each edge, once per path or once per node."""
    network, program = Network(document), Program()
    distinct = document.get("pull_accounting", "paths") == "distinct"
    stored = {}
    for edge in network.edges:
        below = [node for node in network.nodes if edge[1] in network.upstream(node)]
        ways = {node: 1 if distinct else paths(network, edge[1], node) for node in below}
        asked = sum((ways[n] * exact(network.nodes[n].get("query_rate", 0)) for n in below), start=Fraction(0))
        fetched = network.price(edge, "L") * asked
        program.constant += float(fetched)
        stored[edge] = program.variable(network.price(edge, "H") * network.rates[edge[0]] - fetched)
    for edge in network.edges:
        for before in network.into(edge[0]):
            program.require({stored[before]: 1, stored[edge]: -1}, low=0)
    return program.least_cost()


def paths(network: Network, start: str, end: str) -> int:
    if start == end:
        return 1
    return sum(paths(network, target, end) for source, target in network.edges if source == start)
