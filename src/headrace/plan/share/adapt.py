"""When what is measured differs from what was planned: which contracts to move, and why.

    measured -> conditions that last -> contracts that they concern -> planned again without their old places
             -> moved, if a promise is kept again or the saving pays for the move within an hour
    the other way to refresh a view -> taken, if it has been much cheaper for an hour (`way_watch.py`)

A contract is left alone between moves, for longer each time it moves back, and returns to a link only when that has
been calm for a while: plans must not swing. A move is made before the old way is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.model.plan import Plan, VertexKind
from headrace.plan.figures import plan_of, score, weigh_contracts
from headrace.plan.price import BYTES_PER_GB, upstream_first
from headrace.plan.share.arrangement import Arrangement, arrangement_of
from headrace.plan.share.difference import difference
from headrace.plan.share.keeps import find_crowded, late_contracts
from headrace.plan.share.order import Cores
from headrace.plan.share.place import place
from headrace.plan.share.revalue import Measured, as_measured
from headrace.plan.share.watch import ConditionKind, ConditionWatch, WatchedCondition, conditions, find_concerned, watch
from headrace.plan.share.way_watch import WayWatch
from headrace.plan.share.ways import place_either_way, place_other_way

MOST_MOVES = 3
"""Contracts moved in one round."""

MOST_TRIED = 12
"""Contracts that are looked at in one round: each takes as long as planning it."""

LEAST_SAVING = 0.1
"""Share of the contracts' cost that a move must save, if no promise depends on it."""

PAYS_WITHIN_S = 3600.0

BACKOFF_S, LONGEST_BACKOFF_S = 300.0, 3600.0

CAME_OR_WENT = "other contracts came or went since it was planned"
LEFT_FOR = (ConditionKind.LINK_FULL, ConditionKind.SITE_DOWN)
"""Conditions after which contracts return to where they were, once these are over."""


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move that was made: what the contract was made of before and after, and what it was made for."""

    contract: str
    at_s: float
    before: frozenset[str]
    after: frozenset[str]
    because: tuple[WatchedCondition, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Contracts to move together; those that are `stranded` wait for a site. Money is $/s, but `migration` is $.
    `score` is that of everything after the move.

    `made` are vertices that come, `dropped` those that go.
    """

    contracts: tuple[str, ...]
    stranded: tuple[str, ...]
    because: tuple[WatchedCondition, ...]
    reasons: tuple[str, ...]
    restores: tuple[str, ...]
    saving: float
    score: float
    migration: float
    plan: Plan
    made: tuple[str, ...]
    dropped: tuple[str, ...]
    moves: tuple[MoveRecord, ...]


def look(before: ConditionWatch, plan: Plan, measured: Measured) -> ConditionWatch:
    """The watch after one more measurement."""
    return watch(before, plan, _as_measured(plan, measured)[0], measured)


def adapt(
    plan: Plan, measured: Measured, watched: ConditionWatch, history: tuple[MoveRecord, ...] = ()
) -> Proposal | None:
    """What to move now; None if nothing lasts, nobody may move, or no move is worth it."""
    due = watched.due(measured.clock_s)
    now, cores = _as_measured(plan, measured)
    names = _candidates(plan, due, history, measured.clock_s)
    is_down = any(condition.trouble is ConditionKind.SITE_DOWN for condition in due)
    movable = _find_movable(now, cores, names, measured) if is_down else names
    for chosen in [movable] if is_down else _choices(names):
        proposal = _proposal(plan, now, cores, chosen, due, measured)
        if proposal is not None and not _returns_too_soon(proposal, history, watched, measured.clock_s):
            return replace(proposal, stranded=tuple(name for name in names if name not in movable))
    return None


def _find_movable(now: Arrangement, cores: Cores, names: tuple[str, ...], measured: Measured) -> tuple[str, ...]:
    """Contracts that can do without the sites that are down. All others stay as they are: they go on when these are
    back.
    """
    found = list[str]()
    for name in names:
        then = _place_again(now, cores, (name,))
        if any(kept.contract.name == name for kept in then.kept) and name not in broken_contracts(then, measured):
            found.append(name)
    return tuple(found)


def improve(
    plan: Plan,
    contract: str,
    measured: Measured,
    watched: ConditionWatch,
    history: tuple[MoveRecord, ...] = (),
    because: str = CAME_OR_WENT,
) -> Proposal | None:
    """A better place for a contract although nothing is wrong, such as when others came or went since it was planned.

    At the statistics of the plan: what is measured wavers, and what differs for long is `adapt`'s. Links carry what
    they were found to carry, and no site is used that is down.
    """
    known = Measured(measured.clock_s, capacity=measured.capacity, down=measured.down)
    now, cores = _as_measured(plan, known)
    if not may_move(contract, history, known.clock_s):
        return None
    found = _proposal(plan, now, cores, (contract,), (), known)
    if found is None or _returns_too_soon(found, history, watched, known.clock_s):
        return None
    return replace(found, reasons=(because,))


def find_returning(history: tuple[MoveRecord, ...], watched: ConditionWatch, clock_s: float) -> tuple[str, ...]:
    """Contracts that left a link because it was full, or a site that was down, and may return: it has been calm, or
    there, for a while, and they have not moved since.
    """
    latest = {move.contract: move for move in history}
    return tuple(
        name
        for name, move in latest.items()
        if (left := [one for one in move.because if one.trouble in LEFT_FOR])
        and all(one not in watched.since for one in left)
        and all(watched.is_calm(one.where, clock_s) for one in left if one.trouble is ConditionKind.LINK_FULL)
        and may_move(name, history, clock_s)
    )


def plan_as_measured(plan: Plan, measured: Measured) -> Plan:
    """The plan with the figures that follow from what was measured."""
    return plan_of(_as_measured(plan, measured)[0])


def arrange_as_measured(plan: Plan, measured: Measured) -> Arrangement:
    """The plan's arrangement with the figures that follow from what was measured."""
    return _as_measured(plan, measured)[0]


def _as_measured(plan: Plan, measured: Measured) -> tuple[Arrangement, Cores]:
    return as_measured(arrangement_of(plan), measured)


def _candidates(
    plan: Plan, due: Iterable[WatchedCondition], history: tuple[MoveRecord, ...], clock_s: float
) -> tuple[str, ...]:
    """Contracts that are concerned and may move, the most expensive first."""
    names = frozenset[str]().union(*(find_concerned(plan, condition) for condition in due))
    cost = {entry.contract: entry.cost for entry in plan.contracts}
    movable = (name for name in names if name in cost and may_move(name, history, clock_s))
    return tuple(sorted(movable, key=lambda name: (-cost[name], name)))


def _choices(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The dearest together, then fewer of them, then some of the others alone."""
    yield from (names[:count] for count in range(min(MOST_MOVES, len(names)), 0, -1))
    yield from ((name,) for name in names[MOST_MOVES:MOST_TRIED])


def may_move(contract: str, history: Iterable[MoveRecord], clock_s: float) -> bool:
    """Whether a contract may move again: after five minutes, twice as long for every time it moved back."""
    mine = [move for move in history if move.contract == contract]
    if not mine:
        return True
    back = sum(move.after in {earlier.before for earlier in mine[:number]} for number, move in enumerate(mine))
    backoff_s: float = min(BACKOFF_S * 2**back, LONGEST_BACKOFF_S)
    return clock_s - mine[-1].at_s >= backoff_s


def _proposal(
    plan: Plan,
    now: Arrangement,
    cores: Cores,
    names: tuple[str, ...],
    due: tuple[WatchedCondition, ...],
    measured: Measured,
) -> Proposal | None:
    found = _make_proposal(plan, now, _place_again(now, cores, names), names, due, measured)
    if found is None or found.restores:
        return found
    pays = found.saving > LEAST_SAVING * _cost_of(now, names) and found.saving * PAYS_WITHIN_S > found.migration
    is_better = pays and found.contracts == names and found.score < score(now)
    return found if is_better and not _find_switched(now, found.plan) else None


def _make_proposal(
    plan: Plan,
    now: Arrangement,
    then: Arrangement,
    names: tuple[str, ...],
    due: tuple[WatchedCondition, ...],
    measured: Measured,
) -> Proposal | None:
    """What it would be to go over to another arrangement; None if that breaks a promise, or is what runs already."""
    moved = tuple(name for name in names if any(kept.contract.name == name for kept in then.kept))
    broken, still_broken = broken_contracts(now, measured), broken_contracts(then, measured)
    if (len(moved) < len(names) and not measured.down) or still_broken & set(moved) or still_broken - broken:
        return None
    learnt = then.catalogue
    learnt = replace(
        plan.catalogue,
        contracts=learnt.contracts,
        sources=learnt.sources,
        selectivity=learnt.selectivity,
        sizes=learnt.sizes,
    )
    new = plan_of(replace(then, catalogue=learnt))
    found = difference(plan, new)
    if not (found.added or found.moved or found.rewired or found.removed):
        return None
    made = (*found.added, *(target for _, target in found.moved))
    said = conditions(plan, now, measured)
    before, clock_s = arrangement_of(plan), measured.clock_s
    return Proposal(
        contracts=moved,
        stranded=tuple(name for name in names if name not in moved),
        because=due,
        reasons=tuple(said[condition] for condition in due if condition in said),
        restores=tuple(sorted(broken & set(moved))),
        saving=now.live.bill.rescost - then.live.bill.rescost,
        score=score(then),
        migration=migration_cost(then, made),
        plan=new,
        made=made,
        dropped=(*found.removed, *(start for start, _ in found.moved)),
        moves=tuple(
            MoveRecord(name, clock_s, _find_parts(before, name), _find_parts(then, name), due) for name in moved
        ),
    )


def _find_switched(now: Arrangement, then: Plan) -> frozenset[str]:
    """Contracts that are refreshed in another way: to save something they need more time (`switch`)."""
    after = {entry.contract: entry.view for entry in then.contracts}
    before = {kept.contract.name: kept.contract.view for kept in now.kept}
    return frozenset(name for name, view in after.items() if before.get(name, view) != view)


# The other way to refresh a view


def compare_ways(plan: Plan, measured: Measured, contract: str) -> float | None:
    """What a contract would save by the other way to refresh its view, as a share of its part of the score; None if it
    has no other way, or is not kept in it.
    """
    now, cores = _as_measured(plan, measured)
    then = place_other_way(now, contract, cores)
    cost = weigh_contracts(now)[contract].cost
    if then is None or broken_contracts(then, measured) - broken_contracts(now, measured) or cost <= 0.0:
        return None
    return (score(now) - score(then)) / cost


def switch(
    plan: Plan, measured: Measured, contract: str, ways: WayWatch, history: tuple[MoveRecord, ...] = ()
) -> Proposal | None:
    """Goes over to the other way, if that has been cheaper for long enough and the contract may move."""
    saving = ways.find_due(plan, contract, measured.clock_s)
    if saving is None or not may_move(contract, history, measured.clock_s):
        return None
    now, cores = _as_measured(plan, measured)
    then = place_other_way(now, contract, cores)
    found = None if then is None else _make_proposal(plan, now, then, (contract,), (), measured)
    return None if found is None else replace(found, reasons=(_say_cheaper(found.plan, contract, saving),))


def _say_cheaper(then: Plan, contract: str, saving: float) -> str:
    ways = "recomputing it in full", "maintaining it from changes"
    cheaper, dearer = ways if then.catalogue.is_in_full(contract) else ways[::-1]
    return f"{cheaper} has been at least {saving:.0%} cheaper than {dearer} for an hour"


def _place_again(now: Arrangement, cores: Cores, names: tuple[str, ...]) -> Arrangement:
    """Plans contracts again without their old places, as far as they have others."""
    contracts = [kept.contract for name in names for kept in now.kept if kept.contract.name == name]
    for name in names:
        now = now.without(name)
    for contract in contracts:
        placed = place(now, contract, cores[contract.view])
        if len(placed.kept) == len(now.kept) and contract.ways:
            placed = place_either_way(now, contract, cores)
        now = placed if len(placed.kept) > len(now.kept) else now
    return now


def _cost_of(now: Arrangement, names: Iterable[str]) -> float:
    """$/s of contracts: their shares of everything that serves them."""
    served, cost = now.live.served, now.live.bill.cost_of
    serving = {vertex: [promise.contract for promise in promises] for vertex, promises in served.items()}
    return sum(
        cost[vertex] * contracts.count(name) / len(contracts) for vertex, contracts in serving.items() for name in names
    )


def broken_contracts(now: Arrangement, measured: Measured) -> frozenset[str]:
    """Contracts whose promises are not kept as things are: late, made at a site that is down, or with something that
    has no room for all who use it. To be late is no reason for one that is forced.
    """
    served = now.live.served
    stuck = {p.contract for name, ps in served.items() if now.graph.vertices[name].site in measured.down for p in ps}
    forced = {kept.contract.name for kept in now.kept if kept.contract.forced}
    late = (name for name in late_contracts(now) if name not in forced)
    return frozenset((*stuck, *late, *find_crowded(now)))


def _find_parts(now: Arrangement, contract: str) -> frozenset[str]:
    vertex = next(kept.vertex for kept in now.kept if kept.contract.name == contract)
    return frozenset(upstream_first(now.graph, [vertex]))


def migration_cost(then: Arrangement, new: Iterable[str]) -> float:
    """$ of bringing the state of new vertices over the dearest link, and of running both ways until they caught up."""
    total = 0.0
    for name in new:
        vertex = then.graph.vertices[name]
        dearest = max((link.price_gb for link in then.catalogue.links if link.dst == vertex.site), default=0.0)
        if vertex.kind is VertexKind.RELATION:
            total += (vertex.rows or 0.0) * vertex.width * dearest / BYTES_PER_GB
        longest_s = max(promise.freshness_s for promise in then.live.served[name])
        total += then.live.bill.cost_of[name] * longest_s
    return total


def _returns_too_soon(
    proposal: Proposal, history: Iterable[MoveRecord], watched: ConditionWatch, clock_s: float
) -> bool:
    """Whether a contract would return to a place that it left for a link which is not calm yet."""
    for move in proposal.moves:
        for earlier in history:
            if earlier.contract == move.contract and earlier.before == move.after:
                links = [c.where for c in earlier.because if c.trouble is ConditionKind.LINK_FULL]
                if not all(watched.is_calm(link, clock_s) for link in links):
                    return True
    return False
