"""What all sites of a project have measured, as one measurement of the whole plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from headrace.model.catalogue import OperatorTime
from headrace.model.plan import Operator, Plan
from headrace.plan.share.adapt import arrange_as_measured
from headrace.plan.share.link_demand import Ends, remember_shares, value_links
from headrace.plan.share.revalue import Measured

WITHIN_S = 60.0
"""What a site has measured longer ago says nothing about now."""


@dataclass(frozen=True, slots=True)
class LinksSeen:
    """What links carry, bytes/s as they are sent, and what was sent for each byte that is planned."""

    carried: Mapping[Ends, float] = field(default_factory=dict)
    shares: Mapping[Ends, float] = field(default_factory=dict)


def join_measured(
    plan: Plan, parts: Mapping[str, Measured], seen: LinksSeen, down: frozenset[str], clock_s: float
) -> tuple[Measured, LinksSeen]:
    """`parts` are what each site measured, `down` the sites that do not answer. And what to know of links next time."""
    fresh = {site: part for site, part in parts.items() if clock_s - part.clock_s <= WITHIN_S and site not in down}
    found = Measured(
        clock_s,
        rates={
            name: rate for site, part in fresh.items() for name, rate in part.rates.items() if _is_at(plan, name, site)
        },
        slowness={
            name: one for part in fresh.values() for name, one in part.slowness.items() if not _is_copy(plan, name)
        },
        down=down,
        selectivities={name: share for part in fresh.values() for name, share in part.selectivities.items()},
        blocking_s=max((part.blocking_s for part in fresh.values()), default=0.0),
        sizes={name: size for part in fresh.values() for name, size in part.sizes.items()},
        times=_join_times(fresh.values()),
        row_bytes={name: size for part in fresh.values() for name, size in part.row_bytes.items()},
    )
    now = arrange_as_measured(plan, replace(found, down=frozenset()))
    shares = remember_shares(seen.shares, now, found.row_bytes, seen.carried)
    return value_links(now, found, seen.carried, shares), LinksSeen(seen.carried, shares)


def _is_at(plan: Plan, source: str, site: str) -> bool:
    """Whether a site is the one that knows a source."""
    return source in plan.catalogue.sources and plan.catalogue.sources[source].site == site


def _is_copy(plan: Plan, vertex: str) -> bool:
    """How long a copy takes is mostly how long the other site takes to make what is copied."""
    edge = plan.graph.edges.get(vertex)
    return edge is None or edge.op is Operator.COPY


def _join_times(parts: Iterable[Measured]) -> dict[str, OperatorTime]:
    """What operators take in the middle of all sites: work is counted as of one speed."""
    found: dict[str, list[OperatorTime]] = {}
    for part in parts:
        for op, time in part.times.items():
            found.setdefault(op, []).append(time)
    return {
        op: OperatorTime(*(median(getattr(time, part) for time in times) for part in ("fixed", "per_in", "per_out")))
        for op, times in found.items()
        if op != Operator.COPY
    }
