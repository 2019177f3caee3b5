"""The plan of a project on top of what runs: contracts that are asked for as before keep their vertices.

    gone or changed    taken out, with what served nobody else
    kept               as they are, valued at today's statistics; those that this makes late are planned again
    held               as they are, whether they fit or not: what the project asks for instead is refused
    new or changed     planned on top, small views first; how long pushes wait keeps nothing out that costs no more than
                       what it replaces
    forced             on top of all others, which are planned as if it were not there

When a site, a link, a source or a view has changed under a contract, the contract has changed. Rates that were measured
while it ran stand until the project declares others: what a service moved by itself is not moved back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf

from headrace.model.block import Block
from headrace.model.catalogue import Catalogue, Contract, Refusal, Source
from headrace.model.plan import Edge, Operator, Plan, PlannedBlock, Vertex
from headrace.plan.cores import cores_of, make_planned_block
from headrace.plan.live import ROUNDING
from headrace.plan.price import upstream_first
from headrace.plan.refuse import refuse_unsupported
from headrace.plan.share.arrangement import Arrangement, KeptContract, arrangement_of, both
from headrace.plan.share.carry import carry_measured
from headrace.plan.share.forms import blocks_in_form
from headrace.plan.share.inherited import blocks_used, find_declared_blocks, give_to_others, names_stand
from headrace.plan.share.keeps import has_room, late_contracts
from headrace.plan.share.order import small_first
from headrace.plan.share.revalue import cores_of_kept, revalue
from headrace.plan.share.ways import keep_ways, place_either_way, ways_of
from headrace.plan.statistics import CoreStatistics

Views = Mapping[str, tuple[Block, ...] | Refusal]


def arrange_on_running(
    running: Plan, catalogue: Catalogue, views: Views, held: Collection[str] = ()
) -> Arrangement | None:
    """Everything that the catalogue asks for, on what runs; None if what runs has no room any more, and nothing is
    held.
    """
    declared = find_declared_blocks(views)
    old = give_to_others(arrangement_of(running), declared)
    catalogue = keep_ways(carry_measured(catalogue, running.catalogue), running.catalogue)
    same = [kept for kept in old.kept if _is_same(kept, old, catalogue, views) and names_stand(kept, old, declared)]
    kept = _carry_over(old, same, catalogue, views)
    if not has_room(kept) and has_room(old) and not held:
        return None
    stay = {*late_contracts(old), *held}  # late as they run already: taking them out would help nobody
    for name in late_contracts(kept):
        kept = kept if name in stay else kept.without(name)
    there = {entry.contract.name for entry in kept.kept}
    wanted = [contract for name, contract in catalogue.contracts.items() if name not in there]
    # A mode that places operators looks at links, which carry what is forced as well.
    before = _drop_forced(kept) if kept.wishes.wide_area is None else kept
    unforced = _with_all(before, [one for one in wanted if not one.forced], views)
    unforced = _with_replaced(unforced, _value_running(old, catalogue), views)
    return _with_forced(_with_held(unforced, held, views), kept, views)


def _is_same(kept: KeptContract, old: Arrangement, catalogue: Catalogue, views: Views) -> bool:
    """Whether a contract asks for what it did, and everything that it is made of is still there."""
    wanted, blocks = catalogue.contracts.get(kept.contract.name), views.get(kept.contract.view)
    if wanted is None or blocks is None or isinstance(blocks, Refusal):
        return False
    terms = ("view", "site", "freshness_s", "penalty", "refresh", "forced")
    if any(getattr(wanted, term) != getattr(kept.contract, term) for term in terms):
        return False
    planned = next(entry.block for entry in old.blocks if entry.block.id == kept.contract.view)
    return _means_the_same(planned, blocks[-1]) and _stands(kept, old, catalogue)


def _means_the_same(planned: Block, declared: Block) -> bool:
    """Whether a view as it runs makes what is declared. Its columns may be called otherwise: that is no other view,
    unless it is read from another one, under that one's names.
    """
    if planned.fingerprint != declared.fingerprint:
        return False
    return planned.outputs == declared.outputs or (planned.inputs, planned.keep) == (declared.inputs, declared.keep)


def _stands(kept: KeptContract, old: Arrangement, catalogue: Catalogue) -> bool:
    """Whether sites, links and sources of all that a contract is made of are as they were, and rows may be there."""
    links, held = {(link.src, link.dst) for link in catalogue.links}, dict[str, frozenset[str]]()
    for name in upstream_first(old.graph, [kept.vertex]):
        vertex, edge = old.graph.vertices[name], old.graph.edges.get(name)
        if vertex.site not in catalogue.sites:
            return False
        is_copy = edge is not None and edge.op is Operator.COPY
        if edge is not None and is_copy and (old.graph.vertices[edge.inputs[0]].site, vertex.site) not in links:
            return False
        if vertex.base and _describe_source(old.catalogue, vertex.scope[0]) != _describe_source(
            catalogue, vertex.scope[0]
        ):
            return False
        held[name] = _bound_sources(vertex, edge, held, catalogue)
        # Where a source may be as before, the plan is right already, however little of its rows a vertex holds.
        changed = (
            source for source in held[name] if old.catalogue.sources[source].stays != catalogue.sources[source].stays
        )
        if any(vertex.site not in _sites_of(catalogue.sources[source]) for source in changed):
            return False
    return True


def _bound_sources(
    vertex: Vertex, edge: Edge | None, held: Mapping[str, frozenset[str]], catalogue: Catalogue
) -> frozenset[str]:
    """Sources whose rows a vertex may hold and that have to stay at some sites; aggregates may be free to leave."""
    own = frozenset(vertex.scope[:1] if vertex.base else ())
    below = frozenset(source for name in (() if edge is None else edge.inputs) for source in held[name])
    bound = {source: catalogue.sources[source].stays for source in own | below}
    is_aggregate = edge is not None and edge.op is Operator.AGGREGATE
    return frozenset(
        source for source, stays in bound.items() if stays and not (is_aggregate and stays.aggregates_anywhere)
    )


def _sites_of(source: Source) -> Collection[str]:
    """Where rows of a source that has to stay somewhere may be: also where they are at home."""
    return (source.site, *(() if source.stays is None else source.stays.sites))


def _describe_source(catalogue: Catalogue, source: str) -> object:
    """What a source is, whatever its statistics are, and wherever its rows may be."""
    found = catalogue.sources.get(source)
    if found is None:
        return None
    columns = tuple((column.name, column.type) for column in found.columns or ())
    return found.site, found.kind, found.key, columns, found.static


def _carry_over(old: Arrangement, same: Iterable[KeptContract], catalogue: Catalogue, views: Views) -> Arrangement:
    """What stays, under the new catalogue: terms, blocks and statistics are today's."""
    now = replace(old, catalogue=catalogue, rejected=(), goes_on=())
    now = replace(now, kept=tuple(_under_rule(now, entry) for entry in same)).with_graph(old.graph)
    now = replace(now, blocks=tuple(_blocks(now, views)))
    return revalue(now, catalogue, cores_of_kept(now, catalogue))


def _under_rule(now: Arrangement, kept: KeptContract) -> KeptContract:
    """A contract under the rule and the terms of today's catalogue."""
    question = now.question(now.catalogue.contracts[kept.contract.name], ())
    return replace(kept, contract=question.contract, rule=question.rule, batch_s=question.batch_s)


def _value_running(old: Arrangement, catalogue: Catalogue) -> Arrangement | None:
    """All that runs, at today's statistics; None where it has no place under today's catalogue."""
    if not all(_stands(kept, old, catalogue) for kept in old.kept):
        return None
    now = replace(old, catalogue=catalogue)
    return revalue(now, catalogue, cores_of_kept(now, catalogue))


def _with_replaced(now: Arrangement, before: Arrangement | None, views: Views) -> Arrangement:
    """Also with contracts that are refused because pushes wait for each other, if they run already in another version
    and cost no more than that. What was measured in an overload must not keep anybody from lowering it.
    """
    ran = set() if before is None else {entry.contract.name for entry in before.kept if not entry.contract.forced}
    for refusal in [one for one in now.rejected if one.contract in ran and one.reason == "freshness"]:
        assert before is not None
        headroom = replace(now.catalogue.headroom, blocking_s=0.0)
        at_once = replace(now.without(refusal.contract), catalogue=replace(now.catalogue, headroom=headroom))
        then = _with_all(at_once, [now.catalogue.contracts[refusal.contract]], views)
        if _cost_of(then, refusal.contract) <= _cost_of(before, refusal.contract) * (1 + ROUNDING):
            now = replace(then, catalogue=replace(then.catalogue, headroom=now.catalogue.headroom))
    return now


def _cost_of(now: Arrangement, contract: str) -> float:
    """$/s of all that would go with a contract; infinite for one that is not kept."""
    if all(entry.contract.name != contract for entry in now.kept):
        return inf
    return now.live.bill.rescost - now.without(contract).live.bill.rescost


def _with_held(now: Arrangement, held: Collection[str], views: Views) -> Arrangement:
    """Also with contracts that are held and refused all the same, because what they were made of is gone: in another
    way, whatever that exhausts.
    """
    for refusal in [one for one in now.rejected if one.contract in held]:
        contract = now.catalogue.contracts[refusal.contract]
        then = _with_all(now.without(contract.name), [replace(contract, forced=True)], views)
        if any(entry.contract.name == contract.name for entry in then.kept):
            kept = (replace(one, contract=then.catalogue.contracts[one.contract.name]) for one in then.kept)
            now = replace(then, kept=tuple(kept))
    return now


def _blocks(now: Arrangement, views: Views) -> Iterator[PlannedBlock]:
    """The blocks of views that are kept as they are planned, of all others as they are declared, and those that are not
    declared any more but still run. Blocks that ran before keep their names.
    """
    views_kept = {entry.contract.view for entry in now.kept}
    used = {*views_kept, *blocks_used(now, *(entry.vertex for entry in now.kept))}
    blocks = {block.id for view in used for block in blocks_in_form(now, view)}
    names = _name_blocks(now, blocks, views)
    forms = {
        view: tuple(_as_declared(blocks_in_form(now, view), declared[-1])) if view in views_kept else declared
        for view, declared in views.items()
        if not isinstance(declared, Refusal)
    }
    retired = {name: tuple(blocks_in_form(now, name)) for name in sorted(used)}
    done: set[str] = set()
    for form in (*forms.values(), *retired.values()):
        for core in cores_of(form, now.catalogue, names):
            if core.block.id not in done:
                done.add(core.block.id)
                yield make_planned_block(core, core.block.id not in views)


def _name_blocks(now: Arrangement, running: Collection[str], views: Views) -> dict[str, str]:
    """The name of every block by its fingerprint: the one it runs under, unless a view of that name means something
    else now.
    """
    declared = find_declared_blocks(views)
    names = {
        entry.block.fingerprint: entry.name
        for entry in now.blocks
        if entry.block.id in running and declared.get(entry.name, entry.block.fingerprint) == entry.block.fingerprint
    }
    for id_, fingerprint in declared.items():
        names.setdefault(fingerprint, id_)
    return names


def _as_declared(form: Iterable[Block], declared: Block) -> Iterator[Block]:
    """The blocks of a view that is kept, with its columns as they are called now."""
    for block in form:
        yield replace(block, outputs=declared.outputs) if block.id == declared.id else block


def _drop_forced(now: Arrangement) -> Arrangement:
    for kept in now.kept:
        now = now.without(kept.contract.name) if kept.contract.forced else now
    return now


def _with_forced(now: Arrangement, before: Arrangement, views: Views) -> Arrangement:
    """Adds all contracts that are forced: as they were, if the others have left their views in the form they had."""
    there = {kept.contract.name for kept in now.kept}
    forced = {name: one for name, one in now.catalogue.contracts.items() if one.forced and name not in there}
    for kept in before.kept:
        name, view = kept.contract.name, kept.contract.view
        if name in forced and tuple(blocks_in_form(now, view)) == tuple(blocks_in_form(before, view)):
            then = replace(now, kept=(*now.kept, kept)).with_graph(both(now.graph, before.graph))
            if not _joins_unlogged(then, kept):
                del forced[name]
                now = then
    return _with_all(now, list(forced.values()), views)


def _joins_unlogged(now: Arrangement, kept: KeptContract) -> bool:
    """Whether a contract joins what others have left without changes of its own."""
    edges = (now.graph.edges.get(name) for name in upstream_first(now.graph, [kept.vertex]))
    joined = {name for edge in edges if edge is not None and edge.op is Operator.JOIN for name in edge.inputs}
    return not joined.isdisjoint(now.live.unlogged)


def _with_all(now: Arrangement, wanted: list[Contract], views: Views) -> Arrangement:
    names = {entry.block.fingerprint: entry.name for entry in now.blocks}
    cores: dict[str, tuple[CoreStatistics, ...]] = {}
    for view, blocks in views.items():
        if not isinstance(blocks, Refusal):
            cores[view] = cores_of(blocks, now.catalogue, names)
    ordered = small_first(now, wanted, cores)
    if now.wishes.wide_area is not None:
        # Few ask for it, and all others would wait while it is imported.
        from headrace.plan.wide_area.plan import add_contracts

        return add_contracts(now, ordered, views, cores, now.wishes.wide_area)
    for contract in ordered:
        refusal = views[contract.view]
        if isinstance(refusal, Refusal) and not ways_of(contract, cores):
            now = now.refusing(refuse_unsupported(contract.name, refusal))
        else:
            now = place_either_way(now, contract, cores)
    return now
