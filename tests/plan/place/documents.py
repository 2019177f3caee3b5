"""Random JSON instances of every kind, small enough to be tried out in full."""

from __future__ import annotations

import random
from typing import Any

from tests.plan.place import exhaustive

Document = dict[str, Any]

SYMMETRIC = [(1, 1), (2, 2), (0, 0)]
DOWN_DEARER = [(1, 2), (2, 3), (0, 1)]
UP_DEARER = [(2, 1), (3, 1), (5, 1), (1, 0), (5, 4)]
ANY_PRICES = SYMMETRIC + DOWN_DEARER + UP_DEARER

NAMES = [["d0", "d1", "d2", "d3", "d4"], ["a", "feed:a", "b", "feed:feed:a", "feed:b"]]
"""Of devices; the second kind is made to be confused with names that are derived from others."""

SCALES = (1, 1, 1, "decimal", 10**6, 10**20)


def amount(rng: random.Random, top: int, scale: Any) -> Any:
    number = rng.randint(0, top)
    return number + rng.choice([0, 0.5, 0.25, 0.1]) if scale == "decimal" else number * scale


def single(rng: random.Random, prices: list[tuple[int, int]], views: int = 7, several: bool = True) -> Document:
    """Pairs with every feature of one level: several views per pair, own prices, capacities, loads, Cloud sources."""
    devices = rng.choice(NAMES)[: rng.randint(2, 5)]
    top, scale = rng.choice([2, 6, 10]), rng.choice(SCALES)
    pairs: list[list[Any]] = []
    for _ in range(rng.randint(0, views)):
        a, b = rng.sample(devices, 2)
        if several or all({a, b} != set(pair[:2]) for pair in pairs):
            pairs.append([a, b, amount(rng, top, scale), amount(rng, top, scale)])
    cu, cd = rng.choice(prices)
    return {"kind": "single", "cu": cu, "cd": cd, "pairs": pairs}


def with_own_prices(rng: random.Random, document: Document) -> Document:
    devices = sorted({name for pair in document["pairs"] for name in pair[:2]})
    kinds = {name: {"cu": rng.randint(0, 4), "cd": rng.randint(0, 4)} for name in devices if rng.random() < 0.6}
    in_cloud = [name for name in devices if rng.random() < 0.15]
    return {**document, "devices": kinds, "cloud_sources": in_cloud}


def with_capacities(rng: random.Random, document: Document) -> Document:
    ids = exhaustive.view_ids(document["pairs"])
    pairs = [
        [*pair, name, rng.choice([0, 1, 1, 2, 3, 0.5])] if rng.random() < 0.5 else pair
        for name, pair in zip(ids, document["pairs"], strict=True)
    ]
    # Ids that were left out are counted anew, so name them all or none.
    pairs = [pair if len(pair) > 4 else [*pair, name] for name, pair in zip(ids, pairs, strict=True)]
    devices = sorted({name for pair in pairs for name in pair[:2]})
    kinds = document.get("devices", {})
    for name in devices:
        if rng.random() < 0.6:
            kinds = {**kinds, name: {**kinds.get(name, {}), "capacity": rng.choice([0, 1, 2, 3, 1.5])}}
    return {**document, "pairs": pairs, "devices": kinds}


def dag(rng: random.Random, prices: list[tuple[int, int]], mode: str, operators: int = 6) -> Document:
    devices = [f"d{number}" for number in range(rng.randint(1, 4))]
    homes = [*devices, "cloud"] if rng.random() < 0.4 else devices
    sources = {f"s{number}": rng.choice(homes) for number in range(rng.randint(1, 5))}
    names, ops = list(sources), []
    top, scale = rng.choice([2, 6, 12]), rng.choice(SCALES)
    for number in range(rng.randint(1, operators)):
        inputs = rng.sample(names, min(len(names), rng.choice([1, 2, 2, 3])))
        ops.append({"id": f"o{number}", "inputs": [[name, amount(rng, top, scale)] for name in inputs]})
        names.append(f"o{number}")
    cu, cd = rng.choice(prices)
    return {"kind": "dag", "cu": cu, "cd": cd, "mode": mode, "sources": sources, "ops": ops}


def with_everything(rng: random.Random, document: Document) -> Document:
    """Own prices, capacities, loads, allowed devices, pins, and streams that are not shared."""
    sources, ops = document["sources"], [dict(op) for op in document["ops"]]
    devices = sorted({home for home in sources.values() if home != "cloud"})
    for op in ops:
        if rng.random() < 0.3:
            op["load"] = rng.choice([0, 1, 2, 3, 0.5])
        if rng.random() < 0.15:
            op["allowed"] = rng.sample(devices, rng.randint(0, len(devices)))
    kinds = {}
    for name in devices:
        entry = {"cu": rng.randint(0, 4), "cd": rng.randint(0, 4), "capacity": rng.choice([0, 1, 2, 4])}
        kinds[name] = {field: value for field, value in entry.items() if rng.random() < 0.3}
    share = {name: "sum" for name in [*sources, *(op["id"] for op in ops)] if rng.random() < 0.1}
    made = {**document, "ops": ops, "devices": kinds, "share": share}
    if rng.random() < 0.3:
        op = rng.choice(ops)
        op["pin"] = rng.choice(exhaustive.problem(made).choices[op["id"]])
    return made


def with_core(rng: random.Random, document: Document) -> Document:
    nodes = [f"n{number}" for number in range(rng.randint(2, 4))]
    links = [[nodes[rng.randrange(at)], nodes[at], rng.choice([0, 1, 2, 5, 20])] for at in range(1, len(nodes))]
    rng.shuffle(links)
    if document["kind"] == "single":
        in_cloud = set(document.get("cloud_sources", ()))
        devices = {name for pair in document["pairs"] for name in pair[:2]}
    else:
        in_cloud = {name for name, home in document["sources"].items() if home == "cloud"}
        devices = {home for home in document["sources"].values() if home != "cloud"} | in_cloud
    attach = {name: rng.choice(nodes) for name in sorted(devices) if name not in in_cloud or rng.random() < 0.5}
    return {**document, "core": {"links": links, "attach": attach}}
