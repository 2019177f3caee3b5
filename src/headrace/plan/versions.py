"""Which version of each contract runs: the one that the project's files ask for, or the one that runs already.

    admitted    the files' version runs
    refused     what runs goes on: its query, its promise, its place; the plan notes what was asked for and why not
    forbidden   what runs may not go on either (`stays`, a source or a link that is gone): it stops

The first version of a view keeps its name, whatever runs beside it: its files bear that name. Another version that is
needed at the same time gets a name of its own (`model/names.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from headrace.model.catalogue import Catalogue, Contract, Refusal, Source, View
from headrace.model.names import name_of_view, version_name
from headrace.model.plan import GoesOn, Plan, PlanOptions, Rejection
from headrace.plan.forced import plan_with_forced
from headrace.plan.share.arrangement import arrangement_of
from headrace.plan.share.carry import carry_undeclared
from headrace.plan.share.inherited import blocks_used
from headrace.plan.share.keeps import has_room, late_contracts
from headrace.plan.views import blocks_of_view

TAKEN = ("link", "cpu", "disk")
"""Resources of which others may take less if they are planned anew, as reasons of refusals name them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a project asks for. `forced` contracts run: how fresh they are planned to be, in seconds. Those to `force`
    are kept although they are refused. `from_nothing` plans as if nothing ran, at what was measured where nothing is
    declared. `options` say how to plan.
    """

    declared: Catalogue
    forced: Mapping[str, float] = field(default_factory=dict)
    force: Collection[str] = ()
    from_nothing: bool = False
    options: PlanOptions = field(default_factory=PlanOptions)


def plan_versions(
    running: Plan | None, asked: Asked, promised: Mapping[str, float] | None = None
) -> tuple[Plan, dict[str, float]]:
    """The plan, and what forced contracts are promised, in seconds; `promised` is what they were until now.

    What is refused there stops or does not start; what goes on all the same is noted in the plan.
    """
    base, held = None if asked.from_nothing else running, dict[str, Rejection]()
    if asked.from_nothing and running is not None:
        asked = replace(asked, declared=carry_undeclared(asked.declared, running))
    while True:
        stopped = {} if running is None else _without_sources(running, asked.declared, held)
        stay = [name for name in held if name not in stopped]
        catalogue = _with_versions(running, asked.declared, stay, promised or {})
        wanted = {name: one for name, one in catalogue.contracts.items() if name not in stopped}
        plan, promises = plan_with_forced(
            base,
            replace(catalogue, contracts=wanted),
            _find_forced(running, asked, stay),
            asked.force,
            stay,
            asked.options,
        )
        lost = {one.contract: one for one in plan.rejected if running is not None and runs(running, one.contract)}
        if base is None and not lost.keys().isdisjoint(held):
            base = running  # not even what runs can be planned from nothing: it goes on as it is
        elif lost.keys() <= held.keys():
            rejected = (*(stopped[name] for name in sorted(stopped)), *plan.rejected)
            contracts = {**catalogue.contracts, **plan.catalogue.contracts}
            plan = replace(plan, catalogue=replace(plan.catalogue, contracts=contracts), rejected=rejected)
            return replace(plan, goes_on=_going_on(running, asked.declared, plan, held)), promises
        held |= {name: one for name, one in lost.items() if name not in held}


def say_what_replanning_would_keep(
    plan: Plan, running: Plan, asked: Asked, promised: Mapping[str, float] | None = None
) -> Plan:
    """The plan, in which those say so that are refused for a resource that others take, and for which there would be
    room if all contracts were planned anew. For a newcomer nobody moves; a person may ask for it.
    """
    crowded = {
        one.contract
        for one in plan.rejected
        if one.reason.partition(":")[0] in TAKEN and one.contract not in asked.force
    }
    if not crowded:
        return plan
    anew, _ = plan_versions(running, replace(asked, from_nothing=True, force=()), promised)
    kept = {one.contract for one in anew.contracts}
    if not kept.issuperset(one.contract for one in plan.contracts):
        return plan
    return replace(
        plan, rejected=tuple(_say_replan(one) if one.contract in crowded & kept else one for one in plan.rejected)
    )


def _say_replan(refused: Rejection) -> Rejection:
    return replace(refused, detail=f"{refused.detail}; `apply --replan` makes room for it, and may move others")


def runs(running: Plan, contract: str) -> bool:
    return any(one.contract == contract for one in running.contracts)


def _find_forced(running: Plan | None, asked: Asked, held: Collection[str]) -> dict[str, float]:
    """Contracts that are forced, also those whose other version is refused: how fresh they are planned to be."""
    terms = {} if running is None else running.catalogue.contracts
    again = {name: terms[name].freshness_s for name in held if terms[name].forced}
    return {**{name: kept_s for name, kept_s in asked.forced.items() if name not in asked.force}, **again}


# Versions of views


def _with_versions(
    running: Plan | None, declared: Catalogue, held: Collection[str], promised: Mapping[str, float]
) -> Catalogue:
    """What is planned: contracts that are held as they run, all others as they are declared."""
    if running is None:
        return declared
    before = running.catalogue
    stay = {name: _as_it_runs(before.contracts[name], promised) for name in held}
    earlier = {one.view: before.views[one.view] for one in stay.values()}
    names = _name_views(running, declared, held)
    views = {names[name]: replace(view, name=names[name]) for name, view in declared.views.items()}
    contracts = {name: _under_names(one, names) for name, one in declared.contracts.items()}
    return replace(declared, views={**earlier, **views}, contracts={**contracts, **stay})


def _under_names(contract: Contract, names: Mapping[str, str]) -> Contract:
    """A declared contract with the names that its view, or the views that it may be either of, go by."""
    return replace(contract, view=names[contract.view], ways=tuple(names[way] for way in contract.ways))


def _as_it_runs(contract: Contract, promised: Mapping[str, float]) -> Contract:
    """A forced contract is declared with what it is promised; it may be planned for more. It goes on in the way that it
    has: the other one may be a view that means something else now.
    """
    contract = replace(contract, ways=())
    if not contract.forced:
        return contract
    return replace(contract, forced=False, freshness_s=promised.get(contract.name, contract.freshness_s))


def _name_views(running: Plan, declared: Catalogue, held: Collection[str]) -> dict[str, str]:
    """Names by the names that people gave: what a declared view goes by. Views that run keep what they go by, and
    nothing else goes by a name that contracts which are held depend on.
    """
    there, now = _versions(running), arrangement_of(running)
    used = blocks_used(now, *(one.vertex for one in now.kept if one.contract.name in held))
    means = {entry.block.id: entry.block.fingerprint for entry in now.blocks if entry.block.id in used}
    found = {}
    for name in declared.views:
        version = _version(declared, name)
        is_taken = means.get(name, version) != version
        runs_as = there.get((name_of_view(name), version), name)
        # What goes over from `full` to `auto` ran under the plain name, which now is that of the maintained view.
        is_free = runs_as == name or runs_as not in declared.views
        found[name] = version_name(name, version) if runs_as == name and is_taken else runs_as if is_free else name
    return found


def _versions(running: Plan) -> dict[tuple[str, str], str]:
    """What each version that runs goes by."""
    views = dict.fromkeys(entry.view for entry in running.contracts)
    return {(name_of_view(view), _version(running.catalogue, view)): view for view in views}


def _version(catalogue: Catalogue, view: str) -> str:
    """Equal for views that make the same rows; their columns may be called otherwise."""
    blocks = blocks_of_view(replace(catalogue, views={view: _plainly_named(catalogue.views[view])}), view)
    if isinstance(blocks, Refusal):
        return _digest_view(catalogue.views[view])
    return blocks[-1].fingerprint


def _digest_view(view: View) -> str:
    """Differs where a text does, or is read otherwise than before."""
    return hashlib.sha256(f"{view.dialect.value}/{view.dialect_number}\n{view.sql}".encode()).hexdigest()


def _plainly_named(view: View) -> View:
    """What depends on the time of evaluation is fingerprinted with the view's name."""
    return replace(view, name=name_of_view(view.name))


# What may go on


def _without_sources(running: Plan, declared: Catalogue, held: Collection[str]) -> dict[str, Rejection]:
    """Contracts that are held and read a source, or columns of one, that is gone."""
    found = dict[str, Rejection]()
    for contract in held:
        for name in sorted(_sources_of(running, contract)):
            before, after = running.catalogue.sources[name], declared.sources.get(name)
            if after is None:
                detail = f'the earlier version cannot continue: source "{name}" is gone'
                found.setdefault(contract, Rejection(contract, f"source:{name}", detail, None, None))
            elif not _describe_columns(before) <= _describe_columns(after):
                detail = f'the earlier version cannot continue: source "{name}" has other columns now'
                found.setdefault(contract, Rejection(contract, f"source:{name}", detail, None, None))
    return found


def _sources_of(running: Plan, contract: str) -> frozenset[str]:
    """The sources that a contract reads as it runs."""
    serving = (name for name, figures in running.vertex_figures.items() if contract in figures.serves)
    vertices = (running.graph.vertices[name] for name in serving)
    return frozenset(vertex.scope[0] for vertex in vertices if vertex.base)


def _describe_columns(source: Source) -> frozenset[object]:
    return frozenset((column.name, column.type) for column in source.columns or ())


def _going_on(
    running: Plan | None, declared: Catalogue, plan: Plan, held: Mapping[str, Rejection]
) -> tuple[GoesOn, ...]:
    """All that runs although it is refused: since now, or since an earlier time if it still does not fit."""
    if running is None:
        return ()
    kept = {one.contract for one in plan.contracts}
    names = _name_views(running, declared, [name for name in held if name in kept])
    found = {
        name: GoesOn(_under_names(declared.contracts[name], names), why) for name, why in held.items() if name in kept
    }
    for one in running.goes_on:
        if one.contract in kept and one.contract not in found and misfits(plan, one):
            found[one.contract] = one
    return tuple(found[name] for name in plan.catalogue.contracts if name in found)


def misfits(plan: Plan, one: GoesOn) -> bool:
    """Whether a contract that asks for what it did still asks for more than there is."""
    now = arrangement_of(plan)
    is_same = one.asked.asks_as(plan.catalogue.contracts[one.contract])
    return is_same and (not has_room(now) or one.contract in late_contracts(now, [one.contract]))
