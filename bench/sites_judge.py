"""Judges promises while links and processes fail: what excuses a late contract, and for how long nothing did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.kills_watch import Episode
from headrace.model.plan import Plan

LINK_KINDS = ("cut", "one way", "down", "slow")
PROCESS_KINDS = ("agent", "capture", "coordinator", "upgrade", "clock")
RECOVERED_WITHIN_S = 60.0
"""How long after a fault a promise may still be broken because of it."""


@dataclass
class Trouble:
    """What fails from when to when; `sites` are those it concerns: two of a link, one of a process."""

    kind: str
    sites: frozenset[str]
    began: float
    until: float
    heal: Callable[[], None] = lambda: None

    def line(self, started: float) -> str:
        lasts = f" for {self.until - self.began:.0f} s" if self.until > self.began else ""
        return f"{self.began - started:7.1f} s  {self.kind:12} {' - '.join(sorted(self.sites))}{lasts}"


@dataclass(frozen=True, slots=True)
class ContractPath:
    """What a contract's rows come from and over."""

    sites: frozenset[str]
    links: frozenset[frozenset[str]]

    def is_hit(self, trouble: Trouble) -> bool:
        if trouble.kind in LINK_KINDS:
            return trouble.sites in self.links
        return not trouble.sites.isdisjoint(self.sites)


def find_paths(plan: Plan) -> dict[str, ContractPath]:
    vertices, edges = plan.graph.vertices, plan.graph.edges
    found: dict[str, ContractPath] = {}
    for contract in plan.contracts:
        seen: set[str] = set()
        waiting = [contract.vertex]
        links: set[frozenset[str]] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            for read in edges[name].inputs if name in edges else ():
                ends = frozenset((vertices[read].site, vertices[name].site))
                links |= {ends} if len(ends) == 2 else set()
                waiting.append(read)
        found[contract.contract] = ContractPath(frozenset(vertices[name].site for name in seen), frozenset(links))
    return found


def without_reason(
    late: Sequence[Episode], paths: Mapping[str, ContractPath], troubles: Sequence[Trouble]
) -> list[Episode]:
    """Episodes of contracts whose path was whole for long enough before."""
    return [
        one
        for one in late
        if not any(
            trouble.began <= one.at <= trouble.until + RECOVERED_WITHIN_S and paths[one.contract].is_hit(trouble)
            for trouble in troubles
        )
    ]


def count_judged_s(path: ContractPath, troubles: Sequence[Trouble], began: float, ended: float) -> float:
    """For how many seconds between two times nothing excuses a contract that is late."""
    judged, at = 0.0, began
    for trouble in sorted(troubles, key=lambda one: one.began):
        if path.is_hit(trouble):
            judged += max(0.0, min(trouble.began, ended) - at)
            at = max(at, trouble.until + RECOVERED_WITHIN_S)
    return judged + max(0.0, ended - at)
