"""What every decision about feeds must equal: all assignments tried, each priced from first principles.

Instances are plain documents, as `feeds decide` reads them. Nothing here is shared with the code that is judged:
costs are counted query by query and event by event, in fractions, and networks are walked instead of summed up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Document = dict[str, Any]
Pair = tuple[str, str]
Pushed = frozenset[Pair]


@dataclass(frozen=True)
class Best:
    """The least cost of all feasible assignments, and the assignments that reach it."""

    cost: Fraction
    pushes: tuple[Pushed, ...]
    push_all_cost: Fraction
    pull_all_cost: Fraction


def exact(number: Any) -> Fraction:
    return Fraction(str(number))


def best(document: Document) -> Best:
    if document["kind"] == "composite":
        network = Network(document)
        return best_of(network.edges, network.feasible, network.cost)
    return best_of(
        pairs(document), lambda pushed: meets_latency(document, pushed), lambda pushed: feeds_cost(document, pushed)
    )


def best_of(choices: list[Pair], feasible: Callable[[Pushed], bool], cost: Callable[[Pushed], Fraction]) -> Best:
    priced = [(cost(pushed), pushed) for pushed in subsets(choices) if feasible(pushed)]
    least = min(price for price, _ in priced)
    winners = tuple(pushed for price, pushed in priced if price == least)
    return Best(least, winners, cost(frozenset(choices)), cost(frozenset()))


def subsets(choices: list[Pair]) -> Iterator[Pushed]:
    for size in range(len(choices) + 1):
        yield from map(frozenset, itertools.combinations(choices, size))


# Consumers that follow producers


def pairs(document: Document) -> list[Pair]:
    return [(name, followed) for name, consumer in document["consumers"].items() for followed in consumer["follows"]]


def event_rate(document: Document, producer: str) -> Fraction:
    entry = document["producers"][producer]
    return exact(entry["rate"] if isinstance(entry, dict) else entry)


def price(document: Document, producer: str, name: str) -> Fraction:
    entry = document["producers"][producer]
    return exact(entry.get(name, document[name]) if isinstance(entry, dict) else document[name])


def feeds_cost(document: Document, pushed: Pushed) -> Fraction:
    """Every event written to the feeds that store it, plus every query of every consumer."""
    written = sum(
        (price(document, producer, "H") * event_rate(document, producer) for _, producer in pushed), start=Fraction(0)
    )
    asked = Fraction(0)
    for name, consumer in document["consumers"].items():
        pulled = [producer for producer in consumer["follows"] if (name, producer) not in pushed]
        asked += exact(consumer["rate"]) * query_cost(document, consumer["follows"], pulled)
    return written + asked


def query_cost(document: Document, follows: list[str], pulled: list[str]) -> Fraction:
    model = document.get("model", "batch")
    calls = {producer: price(document, producer, "L") for producer in pulled}
    everyone = sum((event_rate(document, producer) for producer in follows), start=Fraction(0))
    if model == "rpc":
        return sum(calls.values(), start=Fraction(0))
    if model == "batch":
        return sum(calls.values(), start=exact(document.get("L0", 0)) if pulled else Fraction(0))
    shares = {p: event_rate(document, p) / everyone if everyone else Fraction(0) for p in pulled}
    if model == "amortised":
        return sum((calls[p] * shares[p] for p in pulled), start=Fraction(0))
    shown = document.get("k", 10)
    return sum((calls[p] * (1 - (1 - shares[p]) ** shown) for p in pulled), start=Fraction(0))


def meets_latency(document: Document, pushed: Pushed) -> bool:
    target = document.get("latency")
    if target is None:
        return True
    consumers = document["consumers"].items()
    queries = {name: exact(consumer["rate"]) for name, consumer in consumers}
    pulls = {
        name: sum((name, producer) not in pushed for producer in consumer["follows"]) for name, consumer in consumers
    }
    everything = sum(queries.values(), start=Fraction(0))
    if target["kind"] == "mean_pulls":
        return sum(queries[name] * pulls[name] for name in queries) <= exact(target["max"]) * everything
    served = sum(queries[name] for name in queries if pulls[name] <= target["max_pulls"])
    return served >= exact(target["q"]) * everything


# Networks in which nodes follow nodes


class Network:
    """A composite network, walked edge by edge."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.nodes: dict[str, Any] = document["nodes"]
        self.edges: list[Pair] = [(edge[0], edge[1]) for edge in document["edges"]]
        self.own_prices = {(edge[0], edge[1]): edge[2] if len(edge) > 2 else {} for edge in document["edges"]}
        self.rates = self.output_rates()

    def price(self, edge: Pair, name: str) -> Fraction:
        return exact(self.own_prices[edge].get(name, self.document[name]))

    def into(self, node: str) -> list[Pair]:
        return [edge for edge in self.edges if edge[1] == node]

    def upstream(self, node: str) -> set[str]:
        """Nodes whose events can reach this one, itself included."""
        seen, todo = {node}, [node]
        while todo:
            for source, _ in self.into(todo.pop()):
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
        return seen

    def output_rates(self) -> dict[str, Fraction]:
        """In a cycle every node gives out every event of the cycle once; here only cycles without filters."""
        rates: dict[str, Fraction] = {}

        def rate(node: str) -> Fraction:
            if node not in rates:
                cycle = {other for other in self.upstream(node) if node in self.upstream(other)}
                own = sum((exact(self.nodes[n].get("event_rate", 0)) for n in cycle), start=Fraction(0))
                arriving = [(n, u) for n in cycle for u, _ in self.into(n) if u not in cycle]
                if len(cycle) > 1 or (node, node) in self.edges:
                    assert all(exact(self.nodes[n].get("pass", 1)) == 1 for n in cycle)
                rates[node] = own + sum(
                    (exact(self.nodes[n].get("pass", 1)) * rate(u) for n, u in arriving), start=Fraction(0)
                )
            return rates[node]

        return {node: rate(node) for node in self.nodes}

    def feasible(self, pushed: Pushed) -> bool:
        """What is pushed onwards must have been pushed in."""
        return all(edge in pushed for source, _ in pushed for edge in self.into(source))

    def cost(self, pushed: Pushed) -> Fraction:
        written = sum((self.price(edge, "H") * self.rates[edge[0]] for edge in pushed), start=Fraction(0))
        asked = sum(
            (exact(self.nodes[node].get("query_rate", 0)) * self.query_cost(node, pushed) for node in self.nodes),
            start=Fraction(0),
        )
        return written + asked

    def query_cost(self, node: str, pushed: Pushed) -> Fraction:
        fetched = list(self.fetches(node, pushed))
        distinct = self.document.get("pull_accounting", "paths") == "distinct"
        return sum((self.price(edge, "L") for edge in (set(fetched) if distinct else fetched)), start=Fraction(0))

    def fetches(self, node: str, pushed: Pushed) -> Iterator[Pair]:
        """Every fetch that one query of this node sets off, once per path that leads to it."""
        if self.document.get("pull_accounting", "paths") == "distinct":
            yield from self.fetches_once(node, pushed, set())
            return
        for edge in self.into(node):
            if edge not in pushed:
                yield edge
                yield from self.fetches(edge[0], pushed)

    def fetches_once(self, node: str, pushed: Pushed, asked: set[str]) -> Iterator[Pair]:
        asked.add(node)
        for edge in self.into(node):
            if edge not in pushed:
                yield edge
                if edge[0] not in asked:
                    yield from self.fetches_once(edge[0], pushed, asked)
