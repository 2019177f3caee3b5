"""Decides which steps lead from the plan that runs to another one. Dry runs show them, `perform.py` performs them.

What two plans do not tell is an argument: what exists (`Existing`). What exists and neither plan accounts for is left
over from a plan that was given up, and goes first: nobody has kept it up since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.coordinate.existing import Existing
from headrace.coordinate.step_words import name_of, name_result, say_terms
from headrace.model.copy_places import name_place
from headrace.model.difference import Difference
from headrace.model.names import name_of_view
from headrace.model.notes import DeliveredCopy
from headrace.model.plan import Plan
from headrace.model.source_clock import clock_of
from headrace.model.source_shape import shape_of
from headrace.model.steps import (
    BuildIndex,
    ChangeContract,
    ForgetVertices,
    GiveBackSlot,
    KeepContract,
    LoadVertices,
    MoveVertex,
    ReadAgain,
    ReadSources,
    RemoveCopy,
    RewireVertex,
    StartCapture,
    Step,
    Steps,
    StopCapture,
    StopContract,
    SwitchPlan,
    TakeOver,
    WriteCopy,
    join_names,
)
from headrace.model.words import name_dataset, name_vertex
from headrace.plan.share.difference import difference
from headrace.plan.share.difference import find_made_from as graph_made_from
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.load.transition import find_made_from
from headrace.run.program import Ingest, Program

LEFT_OVER = "what an earlier plan left behind"


class Compiled(Protocol):
    """A plan with its program, and what forced contracts are promised, in seconds: `Running` for example."""

    @property
    def plan(self) -> Plan: ...

    @property
    def program(self) -> Program: ...

    @property
    def forced(self) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """A plan of which nobody knows yet whether it will run."""

    plan: Plan
    program: Program
    forced: Mapping[str, float]


def compile_with(plan: Plan, forced: Mapping[str, float]) -> CompiledPlan:
    """A plan and its program, with what forced contracts are promised, in seconds."""
    return CompiledPlan(plan, compile_plan(plan), forced)


def steps_between(
    running: Compiled | None, wanted: Compiled, existing: Existing, reread: Collection[str] = ()
) -> Steps:
    """`running` is what runs, or ran last. `reread` are sources to read again although they are as they were."""
    return tuple(_Between(running, wanted, existing, frozenset(reread)).steps())


@dataclass
class _Between:
    running: Compiled | None
    wanted: Compiled
    existing: Existing
    asked: frozenset[str]

    def __post_init__(self) -> None:
        running, wanted, existing = self.running, self.wanted, self.existing
        self.change: Difference | None = None if running is None else difference(running.plan, wanted.plan)
        self.sources = sources_read(wanted.plan)
        self.before = frozenset[str]() if running is None else sources_read(running.plan)
        self.again = self._find_changed() | (self.asked & self.sources)
        self.unread = self._find_unread()
        known = find_ingested(wanted.program, existing) if running is None else frozenset(running.program.logs)
        known |= wanted.program.exports.keys()  # what other sites have of this one: they say themselves how far
        known |= wanted.program.kept  # other sites still read it
        logs = (name for name in self.existing.logs if not name.startswith(SPOOL))
        self.stale = frozenset(name for name in logs if name not in known)
        spools = [SPOOL + source for source in (*self.again, *self.unread)]
        self.there = self.existing.logs - self.stale - find_made_from(wanted.program, spools)

    def _find_changed(self) -> frozenset[str]:
        """Sources that are wanted in another shape than their spools have, or than the plan before asked for."""
        earlier = {} if self.running is None else shapes_of(self.running.plan)
        noted = {**earlier, **self.existing.shapes}
        return frozenset(name for name, shape in shapes_of(self.wanted.plan).items() if noted.get(name, shape) != shape)

    def _find_unread(self) -> frozenset[str]:
        """Sources that are wanted and have spools which nothing reads: no capture has kept these up."""
        if self.running is None:
            return frozenset()
        return frozenset(name for name in self.sources - self.before - self.again if SPOOL + name in self.existing.logs)

    def steps(self) -> Iterator[Step]:
        making = [*self._find_left_over(), *self._rereads(), *self._captures(), *self._reads(), *self._indexes()]
        making += [*self._loads(), *self._moves()]
        at_switch = list(self._changes())
        is_forced_otherwise = self.running is not None and dict(self.running.forced) != dict(self.wanted.forced)
        yield from making
        yield from at_switch
        if making or at_switch or is_forced_otherwise or self.change is None or not self.change.is_nothing:
            yield SwitchPlan()
        yield from (*self._stops(), *self._capture_ends(), *self._copies(), *self._withdrawals())

    # Before the switch

    def _find_left_over(self) -> Iterator[Step]:
        if self.stale or self.unread:
            vertices = tuple(sorted(name for name in self.stale if "#" not in name))
            yield ForgetVertices(LEFT_OVER, vertices, tuple(sorted(self.stale)), tuple(sorted(self.unread)))

    def _rereads(self) -> Iterator[Step]:
        for source in sorted(self.again):
            made, logs = graph_made_from(self.wanted.plan.graph, (source,)), self.existing.logs
            yield ReadAgain(source, tuple(sorted(name for name in made if name in logs and name not in self.stale)))

    def _captures(self) -> Iterator[Step]:
        before = frozenset() if self.running is None else find_captured(self.running.plan)
        for database, sources in _by_database(find_captured(self.wanted.plan) - before):
            yield StartCapture(database, sources)

    def _reads(self) -> Iterator[Step]:
        read = self.existing.loaded - self.again - self.unread
        missing = tuple(sorted(self.sources - read))
        if missing:
            yield ReadSources(missing)

    def _indexes(self) -> Iterator[Step]:
        for name, spec in self.wanted.program.logs.items():
            if name in self.there:
                known = self.existing.keys.get(name, frozenset())
                for columns in dict.fromkeys(key.columns for key in spec.keys):
                    if columns not in known:
                        yield BuildIndex(name_of(name, self.wanted.plan), name, columns)

    def _missing(self) -> list[str]:
        program = self.wanted.program
        return [name for name in program.tasks if name not in self.there and name not in program.kept]

    def _pairs(self) -> dict[str, str]:
        """Pairs of vertices that move and are not there yet: where each comes from."""
        pairs = () if self.change is None else self.change.moved
        missing = set(self._missing())
        return {target: start for start, target in pairs if target in missing}

    def _loads(self) -> Iterator[Step]:
        """What is new is told with the contract that it is for, one that comes before one that is there already."""
        plan, moved, found = self.wanted.plan, self._pairs(), dict[str, list[str]]()
        change = self.change
        first = [] if change is None else [*change.contracts_added, *change.contracts_changed]
        order = first or [entry.contract for entry in plan.contracts]
        for name in self._missing():
            if vertex_of(name, plan) not in moved:
                serves = _find_served(name, self.wanted)
                found.setdefault(next((one for one in order if one in serves), serves[0]), []).append(name)
        # What a site makes may be for contracts at others.
        results = {entry.contract: name_result(entry) for entry in (*plan.contracts, *plan.elsewhere)}
        for contract, names in found.items():
            vertices = tuple(name for name in names if name in plan.graph.vertices)
            yield LoadVertices(contract, results[contract], vertices, tuple(names))

    def _moves(self) -> Iterator[Step]:
        for target, start in self._pairs().items():
            assert self.running is not None
            old, new = self.running.plan.graph.vertices[start], self.wanted.plan.graph.vertices[target]
            logs = tuple(name for name in self._missing() if vertex_of(name, self.wanted.plan) == target)
            yield MoveVertex(name_dataset(new), old.site, new.site, (start, target), logs)

    # With the switch

    def _changes(self) -> Iterator[Step]:
        change, plan = self.change, self.wanted.plan
        if change is None or self.running is None:
            return
        yield from (TakeOver(one.what, one.field, one.before, one.after) for one in change.values)
        yield from (RewireVertex(name_vertex(plan.graph.vertices[name]), name) for name in change.rewired)
        earlier = {entry.contract: entry for entry in self.running.plan.contracts}
        for entry in plan.contracts:
            if entry.contract in change.contracts_changed and entry.contract in earlier:
                yield ChangeContract(entry.contract, say_terms(earlier[entry.contract], entry))
        yield from (KeepContract(one.contract, one.because.detail) for one in plan.goes_on)

    # After the switch

    def _stops(self) -> Iterator[Step]:
        """Contracts that go, each with what served nobody else; then what contracts that stay have no use for."""
        if self.running is None or self.change is None:
            return
        removed, ends = frozenset(self.change.removed), frozenset(self.change.contracts_removed)
        ended, found = dict[str, list[str]](), dict[tuple[str, ...], list[str]]()
        for name in self.running.program.logs:
            if name not in self.wanted.program.logs and name not in self.running.program.kept:
                serves = _find_served(name, self.running)
                staying = tuple(one for one in serves if one not in ends)
                into = ended.setdefault(serves[0], []) if serves[0] in ends else found.setdefault(staying, [])
                into.append(name)
        for entry in self.running.plan.contracts:
            if entry.contract in ends:
                names = tuple(ended.get(entry.contract, ()))
                vertices = tuple(name for name in names if name in removed)
                yield StopContract(entry.contract, name_result(entry), vertices, names)
        for contracts, logs in found.items():
            need = "needs" if len(contracts) == 1 else "need"
            vertices = tuple(name for name in logs if name in removed)
            yield ForgetVertices(f"what {join_names(contracts)} no longer {need}", vertices, tuple(logs))

    def _capture_ends(self) -> Iterator[Step]:
        before = frozenset() if self.running is None else find_captured(self.running.plan)
        for database, sources in _by_database(before - find_captured(self.wanted.plan)):
            yield StopCapture(database, sources)

    def _copies(self) -> Iterator[Step]:
        """Copies that nobody has written yet: a copy of a contract that was refused until now is noted all the same."""
        noted = {copy.key for copy in self.existing.copies}
        written = noted if self.running is None else noted & {copy.key for copy in copies_kept(self.running.plan)}
        for copy in copies_kept(self.wanted.plan):
            if copy.key not in written:
                yield WriteCopy(copy.contract, name_place(copy.place))

    def _withdrawals(self) -> Iterator[Step]:
        copies = {copy.key for copy in copies_asked(self.wanted.plan)}
        for copy in sorted(self.existing.copies, key=lambda one: one.key):
            if copy.key not in copies:
                yield RemoveCopy(copy.name, copy.contract, name_place(copy.place))
        slots = slots_asked(self.wanted.plan, self.existing.directory)
        for slot in sorted(self.existing.slots, key=lambda one: one.key):
            if (slot.project, slot.database) not in slots:
                yield GiveBackSlot(slot.name, slot.database)


# What a plan asks for


def find_ingested(program: Program, existing: Existing) -> frozenset[str]:
    """The logs that hold the rows of sources which were read completely.

    They are what a project without a known plan goes on with. They must not be made from their spools again: what they
    had read was trimmed from these.
    """
    read = existing.logs & {SPOOL + source for source in existing.loaded}
    steps = {name: task.step for name, task in program.tasks.items()}
    return frozenset(name for name, step in steps.items() if isinstance(step, Ingest) and step.spool in read)


def sources_read(plan: Plan) -> frozenset[str]:
    """Those of all sites, or of the one whose part the plan is."""
    here = (vertex for vertex in plan.graph.vertices.values() if plan.site in (None, vertex.site))
    return frozenset(vertex.scope[0] for vertex in here if vertex.base)


def shapes_of(plan: Plan) -> dict[str, str]:
    """The shapes in which a plan reads its sources."""
    return {name: shape_of(plan.catalogue.sources[name]) for name in sources_read(plan)}


def find_captured(plan: Plan) -> frozenset[tuple[str | None, str]]:
    """Databases with the sources that are captured there; sources with clocks of their own are in none.

    A project that was only planned may not say where a source is.
    """
    found = set[tuple[str | None, str]]()
    for name in sources_read(plan):
        source = plan.catalogue.sources[name]
        if source.origin is not None:
            found.add((None if source.origin.address is None else clock_of(source), name))
    return frozenset(found)


def copies_asked(plan: Plan) -> Iterator[DeliveredCopy]:
    """The copies that a plan's contracts ask for, those that are refused included."""
    for contract in plan.catalogue.contracts.values():
        if contract.deliver is not None:
            yield DeliveredCopy(plan.catalogue.project, contract.name, name_of_view(contract.view), contract.deliver)


def copies_kept(plan: Plan) -> Iterator[DeliveredCopy]:
    """The copies that are written while a plan runs."""
    kept = {entry.contract for entry in plan.contracts}
    return (copy for copy in copies_asked(plan) if copy.contract in kept)


def slots_asked(plan: Plan, directory: str) -> frozenset[tuple[str, str]]:
    """Project and database of the slots that a plan's captures ask for."""
    project = f"{plan.catalogue.project}:{directory}"
    return frozenset((project, database) for database, _ in find_captured(plan) if database is not None)


def _by_database(captured: Iterable[tuple[str | None, str]]) -> Iterator[tuple[str | None, tuple[str, ...]]]:
    found: dict[str | None, list[str]] = {}
    for database, source in sorted(captured, key=lambda one: (one[0] or "", one[1])):
        found.setdefault(database, []).append(source)
    return ((database, tuple(sources)) for database, sources in found.items())


def vertex_of(log: str, plan: Plan) -> str:
    """The vertex of a plan that a log belongs to: helpers, states and answers are called VERTEX#something."""
    while log not in plan.graph.vertices and "#" in log:
        log = log.rpartition("#")[0]
    return log


def _find_served(log: str, made: Compiled) -> tuple[str, ...]:
    """The contracts that a log is for."""
    answered = tuple(contract for contract, name in made.program.answers.items() if name == log)
    return answered or made.plan.vertex_figures[vertex_of(log, made.plan)].serves
