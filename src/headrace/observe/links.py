"""What a link can carry and how much is asked of it, from what was sent over it anyway.

A report says, about once per second, what was sent, what still waits and how long an answer took. While something
waits, the link is the bottleneck: the most that it carried then, within a minute, is its capacity. Utilisation cannot
exceed 1, so what is watched is demand: bytes sent plus bytes that have piled up, over capacity. A link that nobody has
used for five minutes is probed, and a probe takes at most a fiftieth of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CAPACITY_WINDOW_S = 60.0
HALF_LIFE_S = 10.0
IDLE_BEFORE_PROBE_S = 300.0
PROBE_S = 1.0
LARGEST_PROBE = 0.02
"""Share of the capacity that a probe may take while it runs."""

SiteLink = tuple[str, str]
"""(from, to)"""


@dataclass(frozen=True, slots=True)
class LinkReport:
    """Bytes sent since the report before, bytes that still wait, and seconds of a round trip; at a clock in seconds."""

    clock_s: float
    sent: float
    backlog: float
    round_trip_s: float | None = None


@dataclass(frozen=True, slots=True)
class LinkState:
    """What is known of a link.

    `peaks` are (clock, bytes/s) at which it was the bottleneck, within the last minute. `demand` is bytes/s asked of
    it and `round_trip_s` the time of an answer, both averaged with a half-life of ten seconds. `capacity` is bytes/s:
    measured, or else the last that was known, or else what was declared; None if nothing is known.
    """

    capacity: float | None
    last: LinkReport | None = None
    used_at_s: float | None = None
    demand: float | None = None
    round_trip_s: float | None = None
    peaks: tuple[tuple[float, float], ...] = ()

    @property
    def load(self) -> float | None:
        """Demand over capacity; more than 1 if what waits grows."""
        if self.demand is None or self.capacity is None or self.capacity <= 0:
            return None
        return self.demand / self.capacity

    def planned_load(self, planned: float) -> float | None:
        """Bytes/s that the plan wants to send, over capacity."""
        return planned / self.capacity if self.capacity else None

    def seen(self, report: LinkReport) -> LinkState:
        """After one more report. Reports that are not later than the last one say nothing."""
        if self.last is None:
            return LinkState(self.capacity, report, report.clock_s, None, report.round_trip_s, self.peaks)
        passed_s = report.clock_s - self.last.clock_s
        if passed_s <= 0:
            return self
        goodput = report.sent / passed_s
        demand = max(0.0, goodput + (report.backlog - self.last.backlog) / passed_s)
        was_full = report.backlog > 0 and self.last.backlog > 0
        peaks = self._peaks(report.clock_s, goodput if was_full else None)
        return LinkState(
            capacity=max((rate for _, rate in peaks), default=self.capacity),
            last=report,
            used_at_s=report.clock_s if report.sent > 0 or report.backlog > 0 else self.used_at_s,
            demand=_averaged(self.demand, demand, passed_s),
            round_trip_s=_averaged(self.round_trip_s, report.round_trip_s, passed_s),
            peaks=peaks,
        )

    def _peaks(self, clock_s: float, goodput: float | None) -> tuple[tuple[float, float], ...]:
        """Those of the last minute that no later one exceeds: the first is the most."""
        recent = [peak for peak in self.peaks if clock_s - peak[0] < CAPACITY_WINDOW_S]
        if goodput is None:
            return tuple(recent)
        return (*(peak for peak in recent if peak[1] > goodput), (clock_s, goodput))

    def probe(self, clock_s: float) -> Probe | None:
        """What to send to learn the capacity; None while the link is used, or nothing is known to stay below."""
        idle = self.used_at_s is None or clock_s - self.used_at_s >= IDLE_BEFORE_PROBE_S
        if not idle or not self.capacity:
            return None
        return Probe(PROBE_S, LARGEST_PROBE * self.capacity * PROBE_S)


@dataclass(frozen=True, slots=True)
class Probe:
    """Bytes to send within some seconds."""

    seconds: float
    size: float


def _averaged(before: float | None, now: float | None, passed_s: float) -> float | None:
    """What was seen longer ago counts less: half after each half-life."""
    if before is None or now is None:
        return before if now is None else now
    kept: float = 0.5 ** (passed_s / HALF_LIFE_S)
    return kept * before + (1 - kept) * now


@dataclass(frozen=True, slots=True)
class Links:
    """All links, by their ends."""

    states: Mapping[SiteLink, LinkState] = field(default_factory=dict)

    def seen(self, link: SiteLink, report: LinkReport) -> Links:
        state = self.states.get(link, LinkState(None)).seen(report)
        return Links({**self.states, link: state})

    @property
    def load(self) -> dict[SiteLink, float]:
        """Demand over capacity, where both are known."""
        return {link: load for link, state in self.states.items() if (load := state.load) is not None}

    def probes(self, clock_s: float) -> dict[SiteLink, Probe]:
        found = {link: state.probe(clock_s) for link, state in sorted(self.states.items())}
        return {link: probe for link, probe in found.items() if probe is not None}


def links_of(bandwidth: Mapping[SiteLink, float | None]) -> Links:
    """Before anything was seen: declared bytes/s, None where nothing is declared."""
    return Links({link: LinkState(capacity) for link, capacity in bandwidth.items()})
