"""The judge: tries every placement of a JSON instance and prices each by the definition, sharing no code with the
planner.

    up(s)     = Cu_d * max{ r(s,o) : o not at d }      s at device d
    down(s,d) = Cd_d * max{ r(s,o) : o at d }          s not at d
    core      = w_e * max{ r(s,o) : o on the other side of link e from s }

with sum in the place of max for streams whose share is "sum".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

Placement = dict[str, str]


@dataclass
class Problem:
    sources: dict[str, str]
    inputs: dict[str, list[tuple[str, Number]]]
    choices: dict[str, list[str]]
    load: dict[str, Number]
    prices: dict[str, tuple[Number, Number]]
    capacity: dict[str, Number]
    sums: set[str]
    located: bool
    pins: dict[str, str]
    links: list[tuple[str, str, Number]] = field(default_factory=list)
    attach: dict[str, str] = field(default_factory=dict)

    @cached_property
    def readers(self) -> dict[str, list[tuple[str, Number]]]:
        found: dict[str, list[tuple[str, Number]]] = {}
        for op, inputs in self.inputs.items():
            for stream, rate in inputs:
                found.setdefault(stream, []).append((op, rate))
        return found

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(node for link in self.links for node in link[:2])) or ["cloud"]


Number = int | Fraction


def exact(number: Any) -> Number:
    read = Fraction(str(number)) if isinstance(number, float) else Fraction(number)
    return read.numerator if read.denominator == 1 else read


def view_ids(pairs: list[list[Any]]) -> list[str]:
    seen: dict[str, int] = {}
    ids = []
    for pair in pairs:
        if len(pair) > 4 and pair[4] is not None:
            ids.append(pair[4])
            continue
        name = f"{pair[0]}|{pair[1]}"
        seen[name] = seen.get(name, 0) + 1
        ids.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return ids


def problem(document: dict[str, Any]) -> Problem:
    made = _single(document) if document["kind"] == "single" else _dag(document)
    devices = {home for home in made.sources.values() if home != "cloud"}
    for device in devices:
        entry = document.get("devices", {}).get(device, {})
        made.prices[device] = (
            exact(entry.get("cu", document.get("cu", 1))),
            exact(entry.get("cd", document.get("cd", 1))),
        )
        if entry.get("capacity") is not None:
            made.capacity[device] = exact(entry["capacity"])
    core = document.get("core")
    if core:
        made.links = [(one, other, exact(weight)) for one, other, weight in core["links"]]
        made.attach = core["attach"]
        made.choices = {op: [c for c in chosen if c != "cloud"] for op, chosen in made.choices.items()}
        made.choices = {
            op: chosen + ([] if op in made.pins and made.pins[op] != "cloud" else made.nodes)
            for op, chosen in made.choices.items()
        }
    return made


def _single(document: dict[str, Any]) -> Problem:
    in_cloud = set(document.get("cloud_sources", ()))
    made = Problem({}, {}, {}, {}, {}, {}, set(), False, {})
    for name, pair in zip(view_ids(document["pairs"]), document["pairs"], strict=True):
        i, j, rate_i, rate_j = pair[:4]
        for device in (i, j):
            made.sources[device] = "cloud" if device in in_cloud else device
        made.inputs[name] = [(i, exact(rate_i)), (j, exact(rate_j))]
        made.choices[name] = ["cloud", *(d for d in (i, j) if d not in in_cloud)]
        made.load[name] = exact(pair[5]) if len(pair) > 5 else 1
    return made


def _dag(document: dict[str, Any]) -> Problem:
    sums = {stream for stream, how in document.get("share", {}).items() if how == "sum"}
    mode = document.get("mode", "derive")
    made = Problem(dict(document["sources"]), {}, {}, {}, {}, {}, sums, mode == "located", {})
    devices = sorted({home for home in made.sources.values() if home != "cloud"})
    inputs = {op["id"]: [name for name, _ in op["inputs"]] for op in document["ops"]}

    def derives(stream: str) -> set[str]:
        if stream in made.sources:
            return {made.sources[stream]} - {"cloud"}
        return set().union(*(derives(name) for name in inputs[stream]))

    for op in document["ops"]:
        made.inputs[op["id"]] = [(name, exact(rate)) for name, rate in op["inputs"]]
        made.load[op["id"]] = exact(op.get("load", 1))
        allowed = devices if mode == "any" else sorted(derives(op["id"]))
        made.choices[op["id"]] = ["cloud", *(op["allowed"] if op.get("allowed") is not None else allowed)]
        if op.get("pin") is not None:
            made.pins[op["id"]] = op["pin"]
            made.choices[op["id"]] = [op["pin"]]
    return made


def cost(given: Problem, placement: Placement) -> Number:
    """The price of one placement, by the definition."""
    where = {**given.sources, **placement}
    paid: Number = 0
    for stream, demands in given.readers.items():
        share = sum if stream in given.sums else max
        home = where[stream]
        if home in given.prices:
            paid += given.prices[home][0] * share([rate for op, rate in demands if where[op] != home] or [0])
        for device in {where[op] for op, _ in demands} - {home}:
            if device in given.prices:
                paid += given.prices[device][1] * share([rate for op, rate in demands if where[op] == device])
        for link in given.links:
            paid += link[2] * share([rate for op, rate in demands if _crosses(given, link, stream, where, op)] or [0])
    return paid


def _crosses(given: Problem, link: tuple[str, str, Number], stream: str, where: Placement, op: str) -> bool:
    start = given.attach.get(where[stream], where[stream])
    if start == "cloud":
        start = given.attach.get(stream, "")
    if not start:
        return False
    below = _side(given, link)
    return (start in below) != (given.attach.get(where[op], where[op]) in below)


def _side(given: Problem, link: tuple[str, str, Number]) -> set[str]:
    """The nodes that stay connected to the link's second end without it."""
    reached, todo = {link[1]}, [link[1]]
    while todo:
        node = todo.pop()
        for other in given.links:
            if other is not link and node in other[:2]:
                far = other[0] if other[1] == node else other[1]
                if far not in reached:
                    reached.add(far)
                    todo.append(far)
    return reached


def feasible(given: Problem, placement: Placement) -> bool:
    loads: dict[str, Number] = {}
    where = {**given.sources, **placement}
    for op, place in placement.items():
        if place not in given.choices[op]:
            return False
        if place in given.prices:
            loads[place] = loads.get(place, 0) + given.load[op]
            if given.located and not any(where[stream] == place for stream, _ in given.inputs[op]):
                return False
    return all(loads.get(device, 0) <= limit for device, limit in given.capacity.items())


def placements(given: Problem) -> Iterator[Placement]:
    for chosen in itertools.product(*given.choices.values()):
        placement = dict(zip(given.choices, chosen, strict=True))
        if feasible(given, placement):
            yield placement


def best_cost(given: Problem) -> Number | None:
    """The least cost of any feasible placement; None when there is none."""
    return min((cost(given, placement) for placement in placements(given)), default=None)
