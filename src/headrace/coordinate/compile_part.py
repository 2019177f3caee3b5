"""Compiles what a site is to run: its part of the plan, beside what other sites still read of earlier plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.coordinate.steps import CompiledPlan, compile_with, shapes_of
from headrace.model.plan import Plan
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.compile.keep_for_others import find_needed_copies, keep_for_others
from headrace.run.compile.site_program import take_part
from headrace.run.load.transition import find_made_from
from headrace.site.running import find_sources
from headrace.site.site_folders import EarlierPart


def compile_part(plan: Plan, forced: Mapping[str, float], earlier: Iterable[EarlierPart]) -> CompiledPlan:
    """A site's part of a plan; the plan knows the sources of what is kept for other sites."""
    compiled = compile_with(plan, forced)
    for one in earlier:
        compiled = _keep_earlier(compiled, one)
    return compiled


def _keep_earlier(compiled: CompiledPlan, earlier: EarlierPart) -> CompiledPlan:
    """Rows of a source that has another shape by now cannot be kept as they were: what is made of them starts anew."""
    plan, before = compiled.plan, earlier.plan
    assert before.site is not None, "an earlier plan is not the part of a site"
    contracts = (*before.contracts, *before.elsewhere)
    whole = compile_plan(replace(before, site=None, contracts=contracts, elsewhere=()))
    now = shapes_of(plan)
    changed = [SPOOL + name for name, shape in shapes_of(before).items() if now.get(name, shape) != shape]
    copies = find_needed_copies(whole, earlier.sites) - find_made_from(whole, changed)
    program = keep_for_others(compiled.program, take_part(whole, before.site), copies)
    known, read = plan.catalogue.sources, before.catalogue.sources
    sources = {name: read[name] for name in sorted(find_sources(program)) if name not in known}
    if sources:
        plan = replace(plan, catalogue=replace(plan.catalogue, sources={**known, **sources}))
    return replace(compiled, plan=plan, program=program)
