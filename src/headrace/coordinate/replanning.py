"""Switches to a better plan when measurements differ from the plan, and says why.

    every few seconds       look at rates, filters, links and times   plan/share/watch.py
    if a difference lasts   ask whether a move is worth it            plan/share/adapt.py
    some time after an      ask the same for each contract, once:
    apply                   others may have come or gone
    every minute            compare the ways to refresh a view, where    plan/share/way_watch.py
                            a contract leaves the choice
    if a move is worth it   switch as `apply` does; if that fails, the running plan stays

The ledger records moves, so a restart forgets neither them nor how long contracts back off between them. A failed move
counts as a move back: it is not tried again before its contracts may move again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter

from headrace.model.log import Commit, Lease, Log
from headrace.model.notes import PlanMoves, read_document, read_note
from headrace.model.plan import Operator, Plan
from headrace.model.plan_events import ContractsMoved, MoveFailed
from headrace.model.words import name_ids, put_in_words
from headrace.observe.rates import find_row_bytes
from headrace.observe.sizes import measure_sizes
from headrace.plan.share.adapt import MoveRecord, Proposal, adapt, compare_ways, find_returning, improve, look, switch
from headrace.plan.share.revalue import Measured
from headrace.plan.share.watch import ConditionWatch, WatchedCondition
from headrace.plan.share.way_watch import WayWatch
from headrace.run.ports import Ledger
from headrace.run.schedule.next_push import longest_item_s, paths_of
from headrace.site.journal import log_event
from headrace.site.learning import Learning

LOOK_EVERY_S = 5.0

ASK_AGAIN_S = 300.0
"""How often a move is looked for while the same lasts: contracts may move again by then, and rates may have changed."""

IMPROVE_AFTER_S = 600.0
"""After somebody applied a plan: more may follow."""

RETURN_EVERY_S = 60.0
"""How often a contract that has left a link is looked at again: what the link carries may be known by then."""

IS_WELL = "what it had left for is over"

REMEMBERED = 100
"""Moves that are kept; the longest backoff is an hour, and a contract moves at most every five minutes."""


GoOver = Callable[[Plan], str | None]
"""Goes over to a plan; why that did not work, None if it did."""

Measure = Callable[[Learning, Mapping[str, Log], float], Measured]
"""What was measured until now, which is in seconds since 1970; with the logs of the results that are held."""


@dataclass(frozen=True, slots=True)
class ContractMove:
    """What was moved, when (seconds since 1970) and why. `saving` is $/s, `migration` $; `error` says why it failed.

    `made` and `dropped` are the vertices that came and went.
    """

    at_s: float
    contracts: tuple[str, ...]
    reasons: tuple[str, ...]
    restores: tuple[str, ...]
    saving: float
    migration: float
    made: tuple[str, ...]
    dropped: tuple[str, ...]
    parts: tuple[MoveRecord, ...]
    error: str | None = None

    @property
    def history(self) -> Iterator[MoveRecord]:
        """Moves as the decision about the next one reads them."""
        return (part if self.error is None else replace(part, after=part.before) for part in self.parts)


_MOVES: TypeAdapter[tuple[ContractMove, ...]] = TypeAdapter(tuple[ContractMove, ...])


def read_moves(text: str) -> tuple[ContractMove, ...]:
    """Reads moves as they are noted. Those of version 0.1.0 have steps, some of which load or drain a vertex.

    Raises KeyError, TypeError or ValueError for a text of another kind.
    """
    found = json.loads(text)
    for move in found:
        if "steps" in move:
            steps = [(step["action"], step["what"]) for step in move.pop("steps")]
            move["made"] = [vertex for action, vertex in steps if action == "load"]
            move["dropped"] = [vertex for action, vertex in steps if action == "drain"]
    return _MOVES.validate_python(found)


@dataclass(slots=True)
class Replanning:
    """Call `resume` before the first step."""

    ledger: Ledger
    lease: Lease
    moves: tuple[ContractMove, ...] = ()
    watched: ConditionWatch = field(default_factory=ConditionWatch)
    ways: WayWatch = field(default_factory=WayWatch)
    _asked_about: frozenset[WatchedCondition] = frozenset()
    _asked_at_s: float = float("-inf")
    _plan: Plan | None = None
    _changed_at_s: float = 0.0
    _to_improve: tuple[str, ...] = ()
    _returned_s: Mapping[str, float] = field(default_factory=dict)
    """When somebody looked last whether a contract may return."""

    def resume(self) -> None:
        """Moves of earlier runs."""
        note = read_note(self.ledger, PlanMoves)
        self.moves = (None if note is None else read_document(note, read_moves)) or ()

    def step(self, plan: Plan, measured: Measured, go_over: GoOver) -> ContractMove | None:
        """Looks at a plan that runs; the move that was made or tried, None if there was none."""
        self._note_plan(plan, measured.clock_s)
        self.watched = look(self.watched, plan, measured)
        history = tuple(part for move in self.moves for part in move.history)
        if self._is_time_to_ask(measured.clock_s):
            proposal = adapt(plan, measured, self.watched, history)
        else:
            proposal = self._return(plan, measured, history) or self._improvement(plan, measured, history)
        proposal = proposal or self._switch(plan, measured, history)
        if proposal is None:
            return None
        error = go_over(proposal.plan)
        if error is None:
            self._plan = proposal.plan
            self._asked_about = frozenset()  # what still lasts may be worth another move
        self._note(move := replace(_move(proposal, measured.clock_s), error=error))
        return move

    def _note_plan(self, plan: Plan, clock_s: float) -> None:
        if plan is not self._plan:
            self._plan, self._changed_at_s = plan, clock_s
            self._to_improve = tuple(entry.contract for entry in sorted(plan.contracts, key=lambda one: -one.cost))

    def _improvement(self, plan: Plan, measured: Measured, history: tuple[MoveRecord, ...]) -> Proposal | None:
        """Looks for an improvement of one contract at a time: planning takes long where there are many."""
        if not self._to_improve or measured.clock_s - self._changed_at_s < IMPROVE_AFTER_S:
            return None
        contract, *rest = self._to_improve
        self._to_improve = tuple(rest)
        return improve(plan, contract, measured, self.watched, history)

    def _return(self, plan: Plan, measured: Measured, history: tuple[MoveRecord, ...]) -> Proposal | None:
        """Looks whether a contract that left a link or a site is better off there again, now that it is well."""
        known = {entry.contract for entry in plan.contracts}
        waiting = [name for name in find_returning(history, self.watched, measured.clock_s) if name in known]
        for name in waiting:
            if measured.clock_s - self._returned_s.get(name, float("-inf")) >= RETURN_EVERY_S:
                self._returned_s = {**self._returned_s, name: measured.clock_s}
                return improve(plan, name, measured, self.watched, history, IS_WELL)
        return None

    def _switch(self, plan: Plan, measured: Measured, history: tuple[MoveRecord, ...]) -> Proposal | None:
        """Looks at the other way of some contracts; a switch to it, if it has been cheaper for long."""
        for contract in self.ways.choose_next(plan, measured.clock_s):
            saving = compare_ways(plan, measured, contract)
            self.ways = self.ways.note_saving(plan, contract, saving, measured.clock_s)
            proposal = switch(plan, measured, contract, self.ways, history)
            if proposal is not None:
                return proposal
        return None

    def _is_time_to_ask(self, clock_s: float) -> bool:
        """When something new lasts, and again after a while."""
        due = frozenset(self.watched.due(clock_s))
        is_new = not due <= self._asked_about
        if not due or not (is_new or clock_s - self._asked_at_s >= ASK_AGAIN_S):
            self._asked_about &= due
            return False
        self._asked_about, self._asked_at_s = due, clock_s
        return True

    def _note(self, move: ContractMove) -> None:
        """Notes a move with the event that tells of it, in one commit: each move is told once."""
        self.moves = (*self.moves, move)[-REMEMBERED:]
        event = move_event(move)
        notes = (PlanMoves(_MOVES.dump_json(self.moves).decode()),)
        self.ledger.commit(self.lease, Commit(notes=notes, events=(event,)))
        log_event(event)


def take_measured(learning: Learning, logs: Mapping[str, Log], clock_s: float) -> Measured:
    """What a running plan taught. Sites that are down are known by their silence (`joined_measured.py`)."""
    plan, found = learning.plan, learning.statistics()
    claiming = [entry for entry in plan.contracts if not plan.catalogue.contracts[entry.contract].forced]
    # What other sites push, or send, keeps nobody waiting here.
    elsewhere = () if plan.site is None else _find_elsewhere(plan, plan.site)
    return Measured(
        clock_s,
        found.sources,
        dict(learning.times.slowness),
        found.load,
        selectivities=found.selectivities,
        blocking_s=longest_item_s(paths_of(plan.graph, claiming), learning.seconds(), elsewhere),
        sizes=measure_sizes(plan, dict(learning.flows), found.sources, logs),
        recomputing=learning.recomputing(),
        times=learning.operator_times(),
        row_bytes=find_row_bytes(plan.graph, dict(learning.flows)),
    )


def _find_elsewhere(plan: Plan, site: str) -> frozenset[str]:
    """Vertices that are made at other sites, or brought from them."""
    edges = plan.graph.edges
    return frozenset(
        name
        for name, vertex in plan.graph.vertices.items()
        if vertex.site != site or (name in edges and edges[name].op is Operator.COPY)
    )


def _move(proposal: Proposal, clock_s: float) -> ContractMove:
    return ContractMove(
        at_s=clock_s,
        contracts=proposal.contracts,
        reasons=proposal.reasons,
        restores=proposal.restores,
        saving=proposal.saving,
        migration=proposal.migration,
        made=proposal.made,
        dropped=proposal.dropped,
        parts=proposal.moves,
    )


def move_event(move: ContractMove) -> ContractsMoved | MoveFailed:
    at, reasons = round(move.at_s * 1e6), "; ".join(move.reasons)
    if move.error is not None:
        return MoveFailed(
            at, move.contracts, reason=put_in_words(f"{move.error.splitlines()[0]} (moved because {reasons})")
        )
    made, dropped = tuple(name_ids(move.made)), tuple(name_ids(move.dropped))
    saving_h = move.saving * 3600.0
    return ContractsMoved(
        at, move.contracts, saving_h, move.migration, move.restores, made, dropped, reason=put_in_words(reasons)
    )
