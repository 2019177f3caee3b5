"""Decides when sources wait to be read: what other sites lack would soon take more room than there is for changes.

A site that does not answer holds nothing back: beyond the budget it is cut off, and loads anew when it is back
(`garbage.py`). One that answers but takes less than is captured, over a slow link say, would be cut off again and
again, and load anew over the same link. So what it reads is captured no faster than it takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headrace.model.log import Log, PieceKind
from headrace.run.capture.spool import SPOOL
from headrace.run.program import Program

HELD_AT, RELEASED_AT = 0.8, 0.6
"""At which share of the bytes that changes may take sources wait, and at which they go on."""
LEAST = 0.1
"""Share of the room that others lack at least, if sources wait for them: what takes the rest is kept all the same."""


@dataclass(frozen=True, slots=True)
class Untaken:
    """Bytes of changes, as they are kept here, that a site has not asked for yet: of some sources, after a time."""

    site: str
    bytes: int
    after: int
    sources: frozenset[str]


def find_untaken(program: Program, logs: Mapping[str, Log], answering: Collection[str]) -> tuple[Untaken, ...]:
    """What each site that answers lacks of each log that others read, and of what is captured for that: of readers of
    one log, the last. `logs` also has how far each copy was taken.
    """
    last = dict[str, tuple[int, str]]()
    for name, copy in program.exports.items():
        if copy.site in answering and name in logs:
            for read in copy.task.reads:
                last[read] = min(last.get(read, (logs[name].t, copy.site)), (logs[name].t, copy.site))
    found = list[Untaken]()
    counted = set[str]()
    for read, (after, site) in sorted(last.items(), key=lambda one: one[1]):
        upstream = program.upstream([read])
        spools = {name for task in upstream for name in program.tasks[task].reads if name.startswith(SPOOL)}
        if read in logs and spools:
            unread = {read: after, **dict.fromkeys(spools, logs[read].t)}
            size = sum(
                _count_after(logs[name], t) for name, t in unread.items() if name in logs and name not in counted
            )
            counted.update(unread)
            found.append(Untaken(site, size, after, frozenset(name.removeprefix(SPOOL) for name in spools)))
    return tuple(found)


def _count_after(log: Log, t: int) -> int:
    return sum(piece.bytes for piece in log.of_kind(PieceKind.CHANGE) if piece.upto > t)


def choose_held(before: Collection[str], untaken: Iterable[Untaken], kept: int, budget: int) -> frozenset[str]:
    """The sources that wait from now on: all of which much is kept for a site that is behind. `kept` are the bytes of
    all changes that somebody needs, of which `budget` is what there is room for.
    """
    there = [one for one in untaken if one.bytes]
    lacking = sum(one.bytes for one in there)
    full_at, least = (RELEASED_AT, LEAST / 2) if before else (HELD_AT, LEAST)
    if not there or lacking < least * budget or max(kept, lacking) < full_at * budget:
        return frozenset()
    # A source of which others lack little takes little room, and may go on.
    much = max(one.bytes for one in there) / 10
    chosen = frozenset(source for one in there if one.bytes >= much for source in one.sources)
    return chosen.union(before)
