"""Random joins on random sites, small enough that every plan can be enumerated."""

from __future__ import annotations

import random
from dataclasses import dataclass

from headrace.model.block import Block
from headrace.model.catalogue import Admission, Catalogue, Headroom, Link, Site
from headrace.model.plan_modes import Method
from headrace.plan.admit import Question
from headrace.plan.cores import cores_of
from headrace.plan.live import Live
from headrace.plan.price import tariff_of
from tests.plan.exhaustive import Oracle
from tests.plan.written import block, catalogue, contract, host, link, site, source

SELECTIVITY = 0.25


@dataclass(frozen=True)
class Instance:
    """One contract, as the planner and as the oracle see it."""

    catalogue: Catalogue
    block: Block
    rule: Admission
    shares: dict[str, float]

    @property
    def question(self) -> Question:
        contract_ = self.catalogue.contracts["S"]
        cores = cores_of((self.block,), self.catalogue)
        live = Live(tariff_of(self.catalogue))
        return Question(self.catalogue, contract_, cores, self.rule, Method.CHEAPEST, live)

    @property
    def oracle(self) -> Oracle:
        contract_ = self.catalogue.contracts["S"]
        return Oracle(self.catalogue, self.block, contract_.site, self.shares, contract_.penalty)

    @property
    def freshness_s(self) -> float:
        return self.catalogue.contracts["S"].freshness_s

    @property
    def is_paper(self) -> bool:
        return self.rule is Admission.PAPER


def random_instance(
    seed: int, relations: int, sites: int, *, limited: bool = False, static: bool = False, itself: bool = False
) -> Instance:
    """`limited` gives some sites, hosts and links little capacity; `itself` joins the first source twice."""
    rng = random.Random(f"{seed}/{relations}/{sites}/{limited}/{static}/{itself}")
    names = [f"m{number}" for number in range(1, sites + 1)]
    aliases = [*"ABCD"[:relations]]
    columns, classes = _columns(rng, aliases)
    sources = [
        source(
            alias,
            rng.choice(names),
            rng.choice([1e3, 1e4, 1e5]),
            rng.choice([1, 10, 50]),
            columns[alias],
            static=static and rng.random() < 0.4,
        )
        for alias in aliases
    ]
    inputs: list[str | tuple[str, str]] = list(aliases)
    if itself:
        inputs[0] = ("A#1", "A")
        inputs.append(("A#2", "A"))
        classes = [[(("A#1" if a == "A" else a), column) for a, column in class_] for class_ in classes]
        classes.append([("A#1", "id"), ("A#2", "k0")])
    filtered = rng.choice(aliases[1:]) if len(aliases) > 1 and rng.random() < 0.4 else None
    made = catalogue(
        _sites(rng, names, limited),
        _links(rng, names, limited),
        sources,
        [contract("S", "V", rng.choice(names), rng.choice([2, 4, 10, 40]), rng.choice([0, 0.001]))],
        [(filtered, "pad > 1", SELECTIVITY)] if filtered else [],
        headroom=Headroom(rng.choice([0, 0.3]), rng.choice([0, 0.1]), 0.0),
        hosts=[host("h", rng.choice([0.5, 4]))] if limited else [],
    )
    keep = None
    if rng.random() < 0.4 and not itself:
        keep = {alias: rng.sample(sorted(columns[alias]), rng.randint(0, len(columns[alias]))) for alias in aliases}
    view = block("V", inputs, classes, made.sources, {filtered: "pad > 1"} if filtered else None, keep)
    rule = rng.choice([Admission.SUSTAINABLE, Admission.SUSTAINABLE, Admission.PAPER])
    return Instance(made, view, rule, {filtered: SELECTIVITY} if filtered else {})


def _columns(
    rng: random.Random, aliases: list[str]
) -> tuple[dict[str, dict[str, tuple[float, float | None]]], list[list[tuple[str, str]]]]:
    """A clique, a chain or a star."""
    columns: dict[str, dict[str, tuple[float, float | None]]] = {
        alias: {"id": (8, None), "k0": (8, rng.choice([1e3, 1e4])), "pad": (rng.choice([20, 100, 300]), None)}
        for alias in aliases
    }
    shape = rng.choice(["clique", "chain", "star"])
    if shape == "clique":
        return columns, [[(alias, "k0") for alias in aliases]]
    classes = []
    for number, alias in enumerate(aliases[1:], start=1):
        other = aliases[number - 1] if shape == "chain" else aliases[0]
        for one in (other, alias):
            columns[one][f"k{number}"] = (8, rng.choice([1e2, 1e4]))
        classes.append([(other, f"k{number}"), (alias, f"k{number}")])
    return columns, classes


def _sites(rng: random.Random, names: list[str], limited: bool) -> list[Site]:
    return [
        site(
            name,
            rng.choice([0.1, 0.34, 1.0]),
            rng.choice([0, 0.11, 5]),
            rng.choice([0.5, 1, 2]),
            cores=rng.choice([None, 0.3, 1.0]) if limited else None,
            disk_capacity=rng.choice([None, None, 3e8]) if limited else None,
            host=rng.choice([None, "h"]) if limited else None,
        )
        for name in names
    ]


def _links(rng: random.Random, names: list[str], limited: bool) -> list[Link]:
    bandwidths = [1e5, 1e6, 1e7] if limited else [1e6, 1e7]
    return [
        link(a, b, rng.choice(bandwidths), rng.choice([0.001, 0.05, 0.2]), rng.choice([0, 0.01, 1.0]))
        for a in names
        for b in names
        if a != b and rng.random() < 0.9
    ]
