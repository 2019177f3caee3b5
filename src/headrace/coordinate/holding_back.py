"""Has a site that runs apart go over to a plan contract by contract: those that cannot be made in the new way yet,
because another site does not answer, go on in the way that runs. They go over when the other site is there again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from headrace.coordinate.compile_part import compile_part
from headrace.coordinate.steps import vertex_of
from headrace.model.words import put_in_words
from headrace.plan.share.hold_back import hold_back, is_compatible, may_be_held
from headrace.run.program import Program
from headrace.run.push.engine import Engine
from headrace.site.loading import say_silent
from headrace.site.running import Running, make_running
from headrace.site.site_folders import EarlierPart
from headrace.site.troubles import HELD, Troubles
from headrace.site.unloaded import find_left_out

NOT_THERE = "other sites have not sent what it is made from now"
GOES_OVER = "it goes over to the newest plan by itself, as soon as what it lacks comes"
TRIES = 4


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What runs instead of what is wanted, and why contracts are not made in the new way, by contract."""

    running: Running
    why: Mapping[str, str]


def find_that_may_be_held(before: Running | None, wanted: Running, lost: Collection[str]) -> frozenset[str]:
    """Contracts that may go on as they are made now; not those that have `lost` something which they are made of."""
    if before is None:
        return frozenset()
    without_rows = set(find_left_out(before.plan, before.program, lost))
    names = (one.contract for one in before.plan.contracts if one.contract not in without_rows)
    return frozenset(name for name in names if may_be_held(before.plan, wanted.plan, name))


def report_held(troubles: Troubles, why: Mapping[str, str]) -> None:
    """All contracts that are held back, and why."""
    said = {name: f'contract "{name}" goes on as it was made before: {put_in_words(why[name])}' for name in sorted(why)}
    troubles.report_exactly(HELD, {HELD + name: (what, GOES_OVER) for name, what in said.items()})


@dataclass(frozen=True, slots=True)
class ContractHolding:
    """`before` is what runs, `wanted` what the site was told. What others still run of `earlier` plans is kept for them
    beside it. The engine of a program is asked, and pushes nothing. Sites that are `silent` do not answer now.
    """

    before: Running
    wanted: Running
    earlier: Collection[EarlierPart]
    make_engine: Callable[[Program], Engine]
    silent: frozenset[str]

    def hold(self, unloaded: Mapping[str, str]) -> HeldBack | None:
        """What can run now. None if that is all that is wanted. `unloaded` says why contracts are not loaded."""
        running, held, vertices = self.wanted, dict[str, str](), set[str]()
        why, cut_off = self._find_not_there(running, unloaded)
        if not why and not cut_off:
            return None
        lost = self.make_engine(self.before.program).find_lost()
        may = find_that_may_be_held(self.before, self.wanted, lost)
        for _ in range(TRIES):  # what goes on may be read by what was to go over
            more = {name: reason for name, reason in why.items() if name in may and name not in held}
            others = {name for name in cut_off if self._may_go_on(name, lost)} - vertices
            if not more and not others:
                break
            held, vertices = {**held, **more}, vertices | others
            running = self._mix(held, vertices)
            why, cut_off = self._find_not_there(running, unloaded)
        if not held and not vertices:
            return None
        return HeldBack(running, {**self._find_readers(vertices), **held})

    def _find_readers(self, vertices: Collection[str]) -> dict[str, str]:
        """Contracts at other sites that read what goes on here as it was made before."""
        figures = self.before.plan.vertex_figures
        return {name: NOT_THERE for vertex in sorted(vertices) for name in figures[vertex].serves}

    def _mix(self, held: Collection[str], vertices: Collection[str]) -> Running:
        plan = hold_back(self.before.plan, self.wanted.plan, held, vertices)
        forced = {name: s for name, s in self.wanted.forced.items() if name not in held}
        forced |= {name: s for name, s in self.before.forced.items() if name in held}
        compiled = compile_part(plan, forced, self.earlier)
        return make_running(compiled.plan, compiled.forced, compiled.program)

    def _find_not_there(self, running: Running, unloaded: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
        """Contracts that would have no rows, and why; and vertices that could not go on from where they are."""
        program = running.program
        engine = self.make_engine(program)
        lost = engine.find_cut_off()
        gone = find_left_out(running.plan, program, [*engine.missing(), *lost])
        why = {name: unloaded.get(name) or self._say_why(name) for name in gone}
        return why, {vertex_of(name, running.plan) for name in lost}

    def _say_why(self, contract: str) -> str:
        links = (one.links for one in self.wanted.watched if one.contract == contract)
        silent = self.silent.intersection(origin for found in links for origin, _ in found)
        return say_silent(silent) if silent else NOT_THERE

    def _may_go_on(self, vertex: str, lost: Collection[str]) -> bool:
        """What other sites have of this one goes on as well, if it did until now."""
        plan, program = self.before.plan, self.before.program
        if vertex not in program.logs or vertex not in plan.graph.vertices:
            return False
        is_whole = set(program.upstream([vertex])).isdisjoint(lost)
        return is_whole and is_compatible(plan, self.wanted.plan, (vertex,))
