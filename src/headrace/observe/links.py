"""How fast a link is, by what arrives over it.

    rate       bytes that arrived within the last seconds
    capacity   the middle of what arrived each second while more was on its way, of the last such seconds, none older
               than a minute

While rows are on their way, only the link holds them up, so that whatever arrives then is what it carries. The middle
of several seconds is no burst of a queue that empties, and follows a link that becomes slower within three of them. The
most of a minute, as Sana takes it, would hide a link that has become slower for as long.

A link on which nothing waits tells nothing about its capacity. What was known of it last is believed for an hour. If it
is believed to be slower than declared, it is probed: only so does anybody learn that it is well again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.model.link_counts import PROBE_FOR_S, LinkCount, LinkProbe

RATE_WITHIN_S = 3.0
KNOWN_FOR_S = 60.0
SECONDS, FEW_SECONDS, RECENT_S = 5, 3, 8.0
"""How many busy seconds count: fewer if they are far apart, so that a change is seen soon."""
BUSY_SHARE = 0.9
LEAST_S = 0.5
"""Counts that are closer together say little."""
ENOUGH_BYTES, ENOUGH_BUSY_S, ROUND_TRIPS = 64 * 1024, 0.25, 10.0
"""A second that was busy for a part counts if much arrived: TCP needs some round trips to become as fast as the link,
and a process that has to wait for a processor must not pass for a slow link.
"""
SURE = 2
"""Seconds in which little arrived count if there are so many."""

PROBE_AFTER_S, PROBE_SHARE = 300.0, 0.02
"""How long nobody has known a capacity before it is probed, and how much of what the link carries in between is used
for it at most.
"""
WELL = 0.9
"""Share of what is declared from which on a link is not worth a probe."""
LEAST_PROBE = 1024
"""Bytes of a probe of a link that carried nothing."""
MUCH_MORE = 2.0
"""How many times as much as was believed a probe finds, if a larger one may find even more."""
FORGET_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class LinkRates:
    """`capacity_bytes_s` is None where nothing waited within a minute."""

    bytes_s: float
    capacity_bytes_s: float | None


def measure_rates(counts: Sequence[LinkCount], round_trip_s: float | None = None) -> LinkRates:
    """Rates as of the last of some counts, oldest first."""
    if len(counts) < 2:
        return LinkRates(0.0, None)
    return LinkRates(_find_rate(counts), _find_capacity(counts, round_trip_s or 0.0))


def _find_rate(counts: Sequence[LinkCount]) -> float:
    last = counts[-1]
    earlier = [one for one in counts if one.at_s <= last.at_s - RATE_WITHIN_S]
    first = earlier[-1] if earlier else counts[0]
    passed_s = last.at_s - first.at_s
    return (last.arrived - first.arrived) / passed_s if passed_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _BusySecond:
    at_s: float
    bytes: int
    bytes_s: float


def _find_capacity(counts: Sequence[LinkCount], round_trip_s: float) -> float | None:
    busy = list(_find_busy(counts, round_trip_s))
    last_s = counts[-1].at_s
    recent = [one for one in busy if one.at_s >= last_s - RECENT_S]
    latest = busy[-SECONDS:] if len(recent) >= SECONDS else busy[-FEW_SECONDS:]
    if len(latest) < SURE and not any(one.bytes >= ENOUGH_BYTES for one in latest):
        return None
    rates = sorted(one.bytes_s for one in latest)
    return rates[len(rates) // 2]


def _find_busy(counts: Sequence[LinkCount], round_trip_s: float) -> Iterator[_BusySecond]:
    known_since, enough_s = counts[-1].at_s - KNOWN_FOR_S, max(ENOUGH_BUSY_S, ROUND_TRIPS * round_trip_s)
    for before, after in pairwise(counts):
        passed_s, busy_s = after.at_s - before.at_s, after.busy_s - before.busy_s
        arrived = after.arrived - before.arrived
        if before.at_s < known_since or passed_s < LEAST_S:
            continue
        if busy_s >= BUSY_SHARE * passed_s:
            yield _BusySecond(after.at_s, arrived, arrived / passed_s)
        elif busy_s >= enough_s and arrived >= ENOUGH_BYTES:
            yield _BusySecond(after.at_s, arrived, arrived / busy_s)


@dataclass(frozen=True, slots=True)
class LinkBelief:
    """What a link is believed to carry, bytes/s, and when that was measured last: seconds on any one clock."""

    bytes_s: float
    at_s: float


def believe(before: LinkBelief | None, capacity_bytes_s: float | None, now_s: float) -> LinkBelief | None:
    """What to believe after one more look. What nobody has measured for an hour is forgotten."""
    if capacity_bytes_s is not None:
        return LinkBelief(capacity_bytes_s, now_s)
    is_old = before is not None and now_s - before.at_s > FORGET_AFTER_S
    return None if is_old else before


def choose_probe_bytes(
    belief: LinkBelief | None, declared_bytes_s: float | None, silent_s: float, limit_bytes_s: float | None = None
) -> int | None:
    """Bytes to ask for, so as to learn what a link carries; None if it should be left alone.

    `silent_s` is since when nothing was measured, the last probe included. The reader stops after a second, however
    many bytes are missing then.
    """
    if silent_s < PROBE_AFTER_S or declared_bytes_s is None:
        return None
    if belief is not None and belief.bytes_s >= WELL * min(declared_bytes_s, limit_bytes_s or declared_bytes_s):
        return None
    known = declared_bytes_s if belief is None else belief.bytes_s
    return int(min(declared_bytes_s * PROBE_FOR_S, max(LEAST_PROBE, known * silent_s * PROBE_SHARE)))


def believe_probe(before: LinkBelief | None, probe: LinkProbe, now_s: float) -> LinkBelief:
    """What to believe after a probe: if it came whole, that the link carries no less than it did."""
    least = before.bytes_s if before is not None and probe.is_whole else 0.0
    return LinkBelief(max(least, probe.bytes_s), now_s)


def is_worth_another(before: LinkBelief | None, probe: LinkProbe) -> bool:
    """Whether a larger probe may find that a link carries even more than this one found."""
    return before is not None and probe.is_whole and probe.bytes_s >= MUCH_MORE * before.bytes_s
