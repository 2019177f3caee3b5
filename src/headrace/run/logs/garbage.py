"""Decides which files may be deleted: those that no log names, and those that logs need not keep.

Changes are kept until every reader has read them, and at least for `keep`, within a budget of bytes at each site. Over
budget, the oldest changes that no reader needs are deleted first; then the slowest readers are cut off, and have to be
loaded again. Changes after its base are part of a log's content, and are never deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.log import NEVER, Edit, Log, Piece, PieceKind

GRACE_SECONDS = 3600.0
"""Longer than any attempt takes from writing a file to committing it, and than any reader takes to open one."""

KEEP_MICROSECONDS = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Sweep:
    """Files to delete, and since when others were seen without a name (seconds), for the next sweep."""

    delete: tuple[tuple[str, str], ...]
    unnamed_since: Mapping[str, float]


def sweep(
    listed: Iterable[tuple[str, str, float]],
    named: frozenset[str],
    unnamed_since: Mapping[str, float],
    now: float,
    grace: float = GRACE_SECONDS,
) -> Sweep:
    """Delete what was without a name in every sweep for the whole grace period, and is that old.

    List the store first and ask the ledger then: what is committed between is named. The age of a file alone would
    not do: an old file that a merge has just replaced may be about to be opened by a reader of the older version.
    """
    found = [(site, file, age) for site, file, age in listed if f"{site}/{file}" not in named]
    since = {f"{site}/{file}": unnamed_since.get(f"{site}/{file}", now) for site, file, _ in found}
    old = [(site, file) for site, file, age in found if min(age, now - since[f"{site}/{file}"]) >= grace]
    gone = {f"{site}/{file}" for site, file in old}
    return Sweep(tuple(sorted(old)), {name: at for name, at in since.items() if name not in gone})


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Who reads changes: of each log, those after the time in `read`."""

    name: str
    read: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Trim:
    """The changes up to `start` leave the log."""

    log: str
    start: int
    files: tuple[str, ...]

    def edit(self, log: Log) -> Edit:
        return Edit(log.name, log.t, log.t, drop=self.files, start=self.start)


@dataclass(frozen=True, slots=True)
class Retention:
    """`cut_off` names readers that must load again. `over` says by how many bytes sites remain over their budgets."""

    trims: tuple[Trim, ...]
    cut_off: tuple[str, ...]
    over: Mapping[str, int]


def retain(
    logs: Iterable[Log],
    readers: Iterable[ChangeReader],
    now: int,
    budgets: Mapping[str, int],
    keep: int = KEEP_MICROSECONDS,
) -> Retention:
    """What to drop at time `now`. `budgets` are bytes of changes by site; a site without one has no limit.

    A reader that still wants changes that are gone is cut off already, and named again.
    """
    held = sorted(logs, key=lambda log: log.name)
    starts = {log.name: log.start for log in held}
    known = sorted(readers, key=lambda reader: reader.name)
    cut = [r.name for r in known if any(t < starts.get(log, t) for log, t in r.read.items())]
    staying = [reader for reader in known if reader.name not in cut]
    for site in sorted({log.site for log in held}):
        own = tuple(log for log in held if log.site == site)
        if site in budgets:
            cut += _cut_off(own, staying, now - keep, budgets[site])
            staying = [reader for reader in staying if reader.name not in cut]
    return _all_trims(held, staying, cut, now - keep, budgets)


def count_needed(logs: Iterable[Log], readers: Iterable[ChangeReader]) -> int:
    """Bytes of changes that stay if all go that nobody needs: what `retain` compares with the budget of a site."""
    held = tuple(logs)
    return _drop(held, _floors(held, readers), NEVER, 0)[1]


def _all_trims(
    logs: list[Log], readers: list[ChangeReader], cut: list[str], keep_after: int, budgets: Mapping[str, int]
) -> Retention:
    trims: list[Trim] = []
    over: dict[str, int] = {}
    for site in sorted({log.site for log in logs}):
        own = tuple(log for log in logs if log.site == site)
        dropped, left = _drop(own, _floors(own, readers), keep_after, budgets.get(site))
        trims += (_trim(log, dropped) for log in own if any(name == log.name for name, _ in dropped))
        if left > budgets.get(site, left):
            over[site] = left - budgets[site]
    return Retention(tuple(trims), tuple(sorted(cut)), over)


def _trim(log: Log, dropped: frozenset[tuple[str, str]]) -> Trim:
    gone = [piece for piece in log.of_kind(PieceKind.CHANGE) if (log.name, piece.file) in dropped]
    start = max(log.start, *(piece.upto for piece in gone))
    return Trim(log.name, start, tuple(sorted(piece.file for piece in gone)))


def _floors(logs: tuple[Log, ...], readers: Iterable[ChangeReader]) -> dict[str, int]:
    """Up to when the changes of each log are needed by nobody."""
    floors = {log.name: _own_floor(log) for log in logs}
    for reader in readers:
        for log, t in reader.read.items():
            if log in floors:
                floors[log] = min(floors[log], t)
    return floors


def _own_floor(log: Log) -> int:
    """Contents are base and the changes after it; indexes without a base are copies of nothing but the changes."""
    if log.base_t is not None:
        return log.base_t
    return NEVER if log.of_kind(PieceKind.INDEX) else log.t


def _drop(
    logs: tuple[Log, ...], floors: Mapping[str, int], keep_after: int, budget: int | None
) -> tuple[frozenset[tuple[str, str]], int]:
    """Log and file of what goes, oldest first so that what stays of a log has no gaps; and the bytes that stay.

    Changes of a log that end at the same time go together: a log begins at a time. A file is freed with its last name.
    """
    names = [(log, piece) for log in logs for piece in log.of_kind(PieceKind.CHANGE)]
    sizes = {piece.file: piece.bytes for _, piece in names}
    uses = Counter(piece.file for log in logs for piece in log.pieces)
    left, dropped = sum(sizes.values()), set[tuple[str, str]]()
    for upto, name, pieces in _droppable(names, floors):
        if upto > keep_after and (budget is None or left <= budget):
            break
        for piece in pieces:
            dropped.add((name, piece.file))
            uses[piece.file] -= 1
            left -= 0 if uses[piece.file] else sizes[piece.file]
    return frozenset(dropped), left


def _droppable(names: list[tuple[Log, Piece]], floors: Mapping[str, int]) -> list[tuple[int, str, list[Piece]]]:
    together: dict[tuple[int, str], list[Piece]] = {}
    for log, piece in names:
        if piece.upto <= floors[log.name]:
            together.setdefault((piece.upto, log.name), []).append(piece)
    return [(upto, name, pieces) for (upto, name), pieces in sorted(together.items(), key=lambda item: item[0])]


def _cut_off(logs: tuple[Log, ...], readers: list[ChangeReader], keep_after: int, budget: int) -> list[str]:
    """The slowest readers without whom the site is within its budget, or as near to it as it can come."""

    def left(without: list[ChangeReader]) -> int:
        staying = [reader for reader in readers if reader not in without]
        return _drop(logs, _floors(logs, staying), keep_after, budget)[1]

    own = {log.name for log in logs}
    here = [reader for reader in readers if own & reader.read.keys()]
    slowest = sorted(here, key=lambda reader: (min(t for log, t in reader.read.items() if log in own), reader.name))
    cut: list[ChangeReader] = []
    while slowest and left(cut) > budget:
        cut.append(slowest.pop(0))
    enough = max(budget, left(cut))
    for reader in reversed(cut):
        spared = [other for other in cut if other is not reader]
        if left(spared) <= enough:
            cut = spared
    return [reader.name for reader in cut]
