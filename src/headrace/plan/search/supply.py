"""Where a sub-join can be had, how soon and for how much: its delta at every site, and its relation there.

    deltas      the complete delta, where it is made (or lives already)
    reach       the same delta at any site: it stays, or is copied
    states      relation and delta at a site: what a join needs of the side whose relation it reads
    sides       a state at one site and the delta at another: all that a join needs of one side

A delta that was united away from the joins that made it is `tied`: its relation is wanted at the very same site.
Deltas of whole inputs are `raw`: filter and projection sit on the edge that leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.plan.search.labels import find_undominated_by_group
from headrace.plan.search.terrain import Floats, OperatorAtSites

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Labels:
    """Partial plans, one per row: what they use, the sum of arrivals of their vertices, their busiest operator (share
    of the batch).

    `owned` marks vertices that another alias of the same source would share (bits of the search's register).
    """

    use: Floats
    total: Floats
    peak: Floats
    owned: Ints

    def __len__(self) -> int:
        return len(self.total)

    def take(self, rows: Any) -> Labels:
        return Labels(self.use[rows], self.total[rows], self.peak[rows], self.owned[rows])


def stack_labels(tables: Sequence[Labels]) -> Labels:
    return Labels(
        np.concatenate([table.use for table in tables]),
        np.concatenate([table.total for table in tables]),
        np.concatenate([table.peak for table in tables]),
        np.concatenate([table.owned for table in tables]),
    )


@dataclass(frozen=True, slots=True)
class Deltas:
    """Complete deltas. `recipes` say how each is made, for those who build the graph."""

    site: Ints
    time: Floats
    tied: Flags
    raw: Flags
    labels: Labels
    recipes: tuple[object, ...]

    def __len__(self) -> int:
        return len(self.time)

    def take(self, rows: Ints) -> Deltas:
        recipes = tuple(self.recipes[row] for row in rows)
        return Deltas(
            self.site[rows], self.time[rows], self.tied[rows], self.raw[rows], self.labels.take(rows), recipes
        )


@dataclass(frozen=True, slots=True)
class Moves:
    """How the delta of a sub-join is copied and applied; separately for raw deltas, which are filtered on the way.

    `home` is where the relation is for free (a whole source), -1 if nowhere. A join that reads a raw delta takes
    `lag` longer, and uses `lag_use` more. Bits are set for an input that has several aliases.
    """

    copy: OperatorAtSites
    copy_raw: OperatorAtSites
    apply: OperatorAtSites
    apply_raw: OperatorAtSites
    home: int
    lag: Floats
    lag_use: Floats
    copy_bits: Ints | None = None
    apply_bits: Ints | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """Row d, site m: the delta d at site m. Impossible ones arrive never. `copied` says that a copy is made for it."""

    time: Floats
    copied: Flags
    labels: Labels
    """Of shape (deltas, sites) instead of rows."""


def reach(deltas: Deltas, moves: Moves, batch_s: float) -> Reach:
    here, there = deltas.site[:, None], np.arange(moves.apply.time.shape[0])[None, :]
    raw = deltas.raw[:, None]
    step = np.where(raw, moves.copy_raw.time[here, there], moves.copy.time[here, there])
    use = np.where(raw[:, :, None], moves.copy_raw.use[here, there], moves.copy.use[here, there])
    time = deltas.time[:, None] + step
    stays = here == there
    stands = ~np.isnan(moves.copy.standing)[None, :] & ~stays
    if stands.any():
        time = np.where(stands, moves.copy.standing[None, :], time)
        use = np.where(stands[:, :, None], moves.copy.revival[None, :, :], use)
        step = np.where(stands, 0.0, step)
    copied = ~stays & ~stands
    labels = deltas.labels
    owned = np.broadcast_to(labels.owned[:, None], time.shape)
    if moves.copy_bits is not None:
        owned = np.where(copied, owned | moves.copy_bits[here, there], owned)
    return Reach(
        time,
        copied,
        Labels(
            labels.use[:, None, :] + use,
            labels.total[:, None] + np.where(copied, time, 0.0),
            np.maximum(labels.peak[:, None], step / batch_s),
            owned,
        ),
    )


@dataclass(frozen=True, slots=True)
class States:
    """Relation and delta of a sub-join at `site`: delta number `delta`, there at `arrives`, applied at `ready`."""

    delta: Ints
    site: Ints
    arrives: Floats
    ready: Floats
    labels: Labels

    def __len__(self) -> int:
        return len(self.ready)

    def take(self, rows: Any) -> States:
        return States(self.delta[rows], self.site[rows], self.arrives[rows], self.ready[rows], self.labels.take(rows))


def states(deltas: Deltas, moves: Moves, batch_s: float) -> States:
    """All states: every delta brought to every site where its relation may be."""
    at = reach(deltas, moves, batch_s)
    size = at.time.shape[1]
    stays = deltas.site[:, None] == np.arange(size)[None, :]
    raw_here = stays & deltas.raw[:, None]
    step = np.where(raw_here, moves.apply_raw.time, moves.apply.time)
    use = np.where(raw_here[:, :, None], moves.apply_raw.use, moves.apply.use)
    ready = at.time + step
    stands = np.broadcast_to(~np.isnan(moves.apply.standing), ready.shape).copy()
    standing, revival = moves.apply.standing, moves.apply.revival
    if moves.home >= 0:
        standing, revival = standing.copy(), revival.copy()
        stands[:, moves.home], standing[moves.home], revival[moves.home] = True, 0.0, 0.0
    ready = np.where(stands, standing, ready)
    step = np.where(stands, 0.0, step)
    use = np.where(stands[:, :, None], revival, use)
    owned = at.labels.owned
    if moves.apply_bits is not None:
        owned = np.where(stands, owned, owned | moves.apply_bits)
    labels = Labels(
        at.labels.use + use,
        at.labels.total + np.where(stands, 0.0, ready),
        np.maximum(at.labels.peak, step / batch_s),
        owned,
    )
    possible = np.isfinite(ready) & np.isfinite(at.time) & (stays | ~deltas.tied[:, None])
    delta, site = np.nonzero(possible)
    return States(delta, site, at.time[possible], ready[possible], labels.take(possible))


@dataclass(frozen=True, slots=True)
class JoinSides:
    """One side of a join: relation at `state`, ready at `ready`; delta at `site`, there at `arrives`, from `source`.

    A join that reads the delta takes `lag` longer because it is raw. Rows of equal (state, site) are together, in that
    order: group g = state * sites + site is at rows starts[g] to starts[g + 1].
    """

    delta: Ints
    state: Ints
    site: Ints
    source: Ints
    ready: Floats
    arrives: Floats
    lag: Floats
    labels: Labels
    starts: Ints

    def __len__(self) -> int:
        return len(self.ready)

    def take(self, rows: Any, starts: Ints) -> JoinSides:
        return JoinSides(
            self.delta[rows],
            self.state[rows],
            self.site[rows],
            self.source[rows],
            self.ready[rows],
            self.arrives[rows],
            self.lag[rows],
            self.labels.take(rows),
            starts,
        )


NOT_GROUPED = np.zeros(0, dtype=np.int64)


def sides(deltas: Deltas, at: States, moves: Moves, batch_s: float) -> JoinSides:
    """All ways to have the relation at one site and the delta at another, copied from any site that has it."""
    size = moves.apply.time.shape[0]
    origins = _origins(deltas, at, moves)
    found = _all_of(
        [_deliver_deltas(deltas, at, moves, batch_s, site, origin) for site in range(size) for origin in origins]
    )
    labels = found.labels
    kept = find_undominated_by_group(
        (labels.owned, found.state * size + found.site),
        labels.use[:, 0],
        np.column_stack((found.ready, found.arrives, found.lag, labels.peak, labels.use[:, 1:])),
        labels.total,
    )
    group = (found.state * size + found.site)[kept]
    return found.take(kept, np.searchsorted(group, np.arange(size * size + 1)))


def _all_of(tables: Sequence[JoinSides]) -> JoinSides:
    return JoinSides(
        np.concatenate([table.delta for table in tables]),
        np.concatenate([table.state for table in tables]),
        np.concatenate([table.site for table in tables]),
        np.concatenate([table.source for table in tables]),
        np.concatenate([table.ready for table in tables]),
        np.concatenate([table.arrives for table in tables]),
        np.concatenate([table.lag for table in tables]),
        stack_labels([table.labels for table in tables]),
        NOT_GROUPED,
    )


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where the delta of each state can be copied from: sites, since when it is there, and what using it there adds.

    `main` stands also for the case that nothing is copied; the others count only where they differ from it.
    """

    site: Ints
    since: Floats
    revival: Floats
    usable: Flags
    main: bool = False


def _origins(deltas: Deltas, at: States, moves: Moves) -> list[_Origin]:
    """Where it is made, where the state is, and where it lives already."""
    made, nothing = deltas.site[at.delta], np.zeros(moves.copy.use.shape[2])
    found = [
        _Origin(made, deltas.time[at.delta], nothing, made == made, main=True),
        _Origin(at.site, at.arrives, nothing, at.site != made),
    ]
    for holder in np.flatnonzero(~np.isnan(moves.copy.standing)):
        site, since = np.full(len(at), holder), np.full(len(at), moves.copy.standing[holder])
        found.append(_Origin(site, since, moves.copy.revival[holder], (site != made) & (site != at.site)))
    return found


def _deliver_deltas(
    deltas: Deltas, at: States, moves: Moves, batch_s: float, target: int, origin: _Origin
) -> JoinSides:
    """The delta of each state at a target site: it is there, lives there, or is copied from an origin."""
    made = deltas.site[at.delta]
    held = (target == at.site) | (target == made)
    stands = ~held & np.full(len(at), not np.isnan(moves.copy.standing[target]))
    copied = ~held & ~stands
    raw = deltas.raw[at.delta] & (origin.site == made)
    step = np.where(raw, moves.copy_raw.time[origin.site, target], moves.copy.time[origin.site, target])
    use = np.where(raw[:, None], moves.copy_raw.use[origin.site, target], moves.copy.use[origin.site, target])
    arrives = np.where(target == at.site, at.arrives, origin.since + step)
    arrives = np.where(stands, moves.copy.standing[target], arrives)
    use = np.where(copied[:, None], use + origin.revival, 0.0)
    use = np.where(stands[:, None], moves.copy.revival[target], use)
    reads_raw = deltas.raw[at.delta] & (target == made)
    use = np.where(reads_raw[:, None], use + moves.lag_use[target], use)
    owned = at.labels.owned
    if moves.copy_bits is not None:
        owned = np.where(copied, owned | moves.copy_bits[origin.site, target], owned)
    labels = Labels(
        at.labels.use + use,
        at.labels.total + np.where(copied, arrives, 0.0),
        np.maximum(at.labels.peak, np.where(copied, step, 0.0) / batch_s),
        owned,
    )
    table = JoinSides(
        delta=at.delta,
        state=at.site,
        site=np.full(len(at), target),
        source=np.where(copied, origin.site, target),
        ready=at.ready,
        arrives=arrives,
        lag=np.where(reads_raw, moves.lag[target], 0.0),
        labels=labels,
        starts=NOT_GROUPED,
    )
    wanted = np.isfinite(arrives) & (origin.usable if origin.main else origin.usable & copied)
    return table.take(wanted, NOT_GROUPED)
