"""Random instances as documents, small enough to try every assignment; ties, zeros and unequal prices are meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from headrace.plan.feeds.document import answer, decide_instance, read_instance
from headrace.plan.feeds.latency import LatencyMethod

Document = dict[str, Any]
Number = int | float

RATES: dict[str, Callable[[Random], Number]] = {
    "small integers, for ties": lambda r: r.randint(0, 6),
    "tenths": lambda r: r.randint(0, 60) / 10,
    "mostly zero": lambda r: r.choice([0, 0, 1, 2.5]),
    "far apart": lambda r: r.choice([r.random() * 10 ** r.randint(-8, 8), 0.1, 0.3]),
}
MODELS = ("rpc", "amortised", "batch", "recency")


def solve(instance: Document, method: LatencyMethod = LatencyMethod.EXACT) -> Document:
    """The answer of the planner, from text to text."""
    named = read_instance(json.dumps(instance), "instance.json")
    document: Document = json.loads(json.dumps(answer(named, decide_instance(named, method), 0.0)))
    return document


def pushed(answered: Document) -> frozenset[tuple[str, str]]:
    return frozenset((first, second) for first, second in answered["push"])


def feeds(random: Random, model: str, pairs: int = 9) -> Document:
    """Up to four producers and four consumers."""
    rate = RATES[random.choice(sorted(RATES))]
    producers = {f"p{n}": producer(random, rate) for n in range(random.randint(1, 4))}
    document: Document = {
        "kind": "feeds",
        "H": random.choice([1, 3, 0.5, 0]),
        "L": random.choice([1, 2, 0.7, 0]),
        "L0": random.choice([0, 0, 1, 2.5]),
        "model": model,
        "k": random.choice([1, 2, 5, 10]),
        "producers": producers,
        "consumers": {},
    }
    for number in range(random.randint(1, 4)):
        follows = random.sample(sorted(producers), min(pairs, random.randint(0, len(producers))))
        pairs -= len(follows)
        document["consumers"][f"c{number}"] = {"rate": rate(random), "follows": follows}
    return document


def producer(random: Random, rate: Callable[[Random], Number]) -> Any:
    if random.random() < 0.6:
        return rate(random)
    return {"rate": rate(random), "L": random.choice([1, 2, 0.5]), "H": random.choice([1, 3])}


def latency(random: Random) -> Document:
    if random.random() < 0.5:
        return {"kind": "mean_pulls", "max": random.choice([0, 0.1, 0.5, 1, 1.3])}
    return {
        "kind": "percentile",
        "q": random.choice([0.1, 0.5, 0.8, 0.95, 1]),
        "max_pulls": random.choice([0, 0, 1, 2]),
    }


def composite(random: Random, accounting: str, circles: bool = False, most_edges: int = 9) -> Document:
    """Up to six nodes, with filters unless there are circles, and prices of their own on some edges."""
    names = [f"n{number}" for number in range(random.randint(2, 6))]
    filters = not circles and random.random() < 0.6
    ends = [(a, b) for i, a in enumerate(names) for j, b in enumerate(names) if i < j or circles]
    edges = random.sample(ends, min(len(ends), random.randint(1, most_edges)))
    return {
        "kind": "composite",
        "H": random.choice([1, 3, 0.5]),
        "L": random.choice([1, 2]),
        "pull_accounting": accounting,
        "nodes": {name: node(random, filters) for name in random.sample(names, len(names))},
        "edges": [[*edge, *edge_prices(random)] for edge in edges],
    }


def node(random: Random, filters: bool) -> Document:
    rates = [0, 1, 2, 3, 5, 8, 0.5, 2.25, 20]
    given = {"event_rate": random.choice(rates), "query_rate": random.choice(rates)}
    kept = {name: rate for name, rate in given.items() if random.random() < 0.8}
    return {**kept, "pass": random.choice([0, 0.1, 0.5, 1])} if filters else kept


def edge_prices(random: Random) -> list[Document]:
    if random.random() < 0.7:
        return []
    return [{name: random.choice([0, 1, 4]) for name in random.choice([["H"], ["L"], ["H", "L"]])}]
