"""One plan for all contracts of a project: one after the other, each on top of what the earlier ones made.

Small views first: what they make is what larger ones are made of. A contract that cannot be kept is refused with a
counter-offer, and the others are planned as if it were not there.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.model.block import Block
from headrace.model.catalogue import Catalogue, Contract, Refusal
from headrace.model.plan import USUAL_WISHES, Plan, PlannedBlock, PlanOptions, settle_wishes
from headrace.model.plan_modes import ContractOrder, Sharing, WideArea
from headrace.plan.cores import cores_of, make_planned_block
from headrace.plan.figures import plan_of, score
from headrace.plan.in_parts import Views, choose_in_parts, is_better_plan
from headrace.plan.refuse import refuse_unsupported
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.carry import carry_undeclared
from headrace.plan.share.merge import merge
from headrace.plan.share.on_running import arrange_on_running
from headrace.plan.share.order import Cores, small_first
from headrace.plan.share.place import place
from headrace.plan.share.plumb import climb
from headrace.plan.share.proof import proven_best
from headrace.plan.share.replan import replan
from headrace.plan.share.revalue import cores_of_kept
from headrace.plan.share.scarce import find_scarce, spare_scarce_links
from headrace.plan.share.ways import ROUNDING, fix_ways, keep_ways, leave_ways, place_either_way, ways_of
from headrace.plan.statistics import CoreStatistics
from headrace.plan.views import views_of


def make_plan(catalogue: Catalogue, options: PlanOptions = PlanOptions()) -> Plan:  # noqa: B008 - options are frozen
    """The plan of a project's files, feeds and templates included."""
    if not catalogue.templates:
        return _make_plan_with_feeds(catalogue, options)
    from headrace.plan.place.family import with_templates

    return with_templates(_make_plan_with_feeds(expand_declared(catalogue), options))


def expand_declared(catalogue: Catalogue) -> Catalogue:
    """The catalogue with the relations behind its templates, which are planned like any other view."""
    if not catalogue.templates:
        return catalogue
    # Most projects have neither templates nor feeds, and would wait while they are imported.
    from headrace.plan.place.expansion import expand_templates

    return expand_templates(catalogue)


def _make_plan_with_feeds(catalogue: Catalogue, options: PlanOptions) -> Plan:
    if not any(feed.site for feed in catalogue.feeds.values()):
        return plan_declared(catalogue, options)
    from headrace.plan.feeds.family import plan_with_feeds

    return plan_with_feeds(catalogue, lambda found: plan_declared(found, options))


def plan_declared(catalogue: Catalogue, options: PlanOptions = PlanOptions()) -> Plan:  # noqa: B008 - they are frozen
    """The plan of the contracts of a catalogue alone."""
    views = views_of(catalogue)
    now = plan_views(catalogue, views, options)
    in_parts = _choose_in_parts(catalogue, views, options)
    if not in_parts:
        return now
    then = plan_views(catalogue, {**views, **in_parts}, options)
    return then if is_better_plan(then, now) else now


def _choose_in_parts(
    catalogue: Catalogue, views: Views, options: PlanOptions, running: Plan | None = None
) -> dict[str, tuple[Block, ...]]:
    """Views that are better aggregated in parts. Ways of planning that others have published know no such choice."""
    if settle_wishes(options, catalogue) != USUAL_WISHES:
        return {}
    return choose_in_parts(catalogue, views, lambda alone, forms: plan_views(alone, forms, options), running)


def plan_on_running(running: Plan, catalogue: Catalogue, held: Collection[str] = ()) -> Plan:
    """The plan of a project's files on top of what runs; from nothing, if what runs has no room any more.

    Contracts that are `held` go on, whether they fit or not.
    """
    views = views_of(catalogue)
    views = {**views, **_choose_in_parts(carry_undeclared(catalogue, running), views, running.options, running)}
    now = arrange_on_running(running, catalogue, views, held)
    if now is None:
        return plan_views(carry_undeclared(catalogue, running), views, running.options)
    placed = now.wishes.wide_area is not None
    return plan_of(now, () if placed else proven_best(now, cores_of_kept(now, now.catalogue)))


def plan_views(catalogue: Catalogue, views: Views, options: PlanOptions) -> Plan:
    """The plan for the contracts of a catalogue whose views are given as blocks."""
    cores = _all_cores(catalogue, views)
    now = _arrange_sparing(catalogue, views, cores, options)
    # Each contract takes the way that is better when its turn comes. All of them in one way may be better for all.
    for fixed in fix_ways(catalogue):
        if keep_ways(now.catalogue, fixed) != now.catalogue:
            then = leave_ways(_arrange(fixed, views, cores, options), catalogue)
            now = then if _is_better(then, now) else now
    return plan_of(now, () if now.wishes.wide_area is not None else proven_best(now, cores))


def _is_better(then: Arrangement, now: Arrangement) -> bool:
    if len(then.rejected) != len(now.rejected):
        return len(then.rejected) < len(now.rejected)
    return score(then) < score(now) * (1 - ROUNDING)


def _arrange(catalogue: Catalogue, views: Views, cores: Cores, options: PlanOptions) -> Arrangement:
    now = Arrangement(catalogue, options, _make_planned_blocks(cores))
    if now.wishes.wide_area is not None:
        return _across_a_wide_area(now, views, cores, now.wishes.wide_area)
    alone = now.wishes.sharing in (Sharing.MERGE, Sharing.PLUMB)
    for contract in _in_order(now, cores):
        refusal = views[contract.view]
        if isinstance(refusal, Refusal) and not ways_of(contract, cores):
            now = now.refusing(refuse_unsupported(contract.name, refusal))
        else:
            now = place_either_way(now, contract, cores, merge if alone else place)
    return _finish_plan(now, cores)


def _arrange_sparing(catalogue: Catalogue, views: Views, cores: Cores, options: PlanOptions) -> Arrangement:
    """The usual arrangement; if that refuses somebody for a link, one that leaves the link to those who need it."""
    now = _arrange(catalogue, views, cores, options)
    if now.wishes.wide_area is not None or now.wishes.sharing is not Sharing.MARGINAL or not find_scarce(now):
        return now
    return spare_scarce_links(now, lambda dearer: _arrange(dearer, views, cores, options))


def _in_order(now: Arrangement, cores: Cores) -> list[Contract]:
    declared = list(now.catalogue.contracts.values())
    return declared if now.options.order is ContractOrder.DECLARED else small_first(now, declared, cores)


def _across_a_wide_area(now: Arrangement, views: Views, cores: Cores, mode: WideArea) -> Arrangement:
    # Few ask for it, and all others would wait while it is imported.
    from headrace.plan.wide_area.plan import add_contracts

    return add_contracts(now, _in_order(now, cores), views, cores, mode)


def _finish_plan(now: Arrangement, cores: Cores) -> Arrangement:
    """Finishes an arrangement after all contracts have come."""
    match now.wishes.sharing:
        case Sharing.PLUMB:
            return climb(now)[0]
        case Sharing.NONE | Sharing.MERGE:
            return now
        case _:
            return climb(replan(now, cores))[0]


def _all_cores(catalogue: Catalogue, views: Views) -> dict[str, tuple[CoreStatistics, ...]]:
    """Blocks of equal fingerprints go by one name, a view's if there is one: what one view makes, another finds."""
    known = {name: blocks for name, blocks in views.items() if not isinstance(blocks, Refusal)}
    names: dict[str, str] = {}
    views_first = (*(blocks[-1] for blocks in known.values()), *(b for blocks in known.values() for b in blocks[:-1]))
    for block in views_first:
        names.setdefault(block.fingerprint, block.id)
    return {name: cores_of(blocks, catalogue, names) for name, blocks in known.items()}


def _make_planned_blocks(cores: Cores) -> tuple[PlannedBlock, ...]:
    return tuple(make_planned_block(core, core is not view[-1]) for view in cores.values() for core in view)
