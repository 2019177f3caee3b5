"""How a view is refreshed where its contract leaves the choice: maintained from changes, or computed in full.

Both are views of the catalogue that mean the same (`Contract.ways`), and each is planned like any other. The one with
which the score of everything is lower is taken, of those that keep the promise; the maintained one if both cost the
same. If neither does, the contract is refused with the smaller of the two counter-offers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf

from headrace.model.catalogue import Catalogue, Contract
from headrace.plan.figures import score
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.order import Cores
from headrace.plan.share.place import place
from headrace.plan.statistics import CoreStatistics

ROUNDING = 1e-9
"""Share of the score by which equal sums differ at most."""

Place = Callable[[Arrangement, Contract, tuple[CoreStatistics, ...]], Arrangement]


def ways_of(contract: Contract, cores: Cores) -> tuple[str, ...]:
    """The views that a contract can be planned with, the maintained one first."""
    return tuple(view for view in contract.ways or (contract.view,) if view in cores)


def take_way(catalogue: Catalogue, contract: str, view: str) -> Catalogue:
    """The catalogue in which a contract is refreshed in one of its ways."""
    terms = catalogue.contracts[contract]
    if terms.view == view:
        return catalogue
    return replace(catalogue, contracts={**catalogue.contracts, contract: replace(terms, view=view)})


def keep_ways(catalogue: Catalogue, running: Catalogue) -> Catalogue:
    """The catalogue with contracts in the ways that they have in another, where they may still have them."""
    for name, contract in catalogue.contracts.items():
        before = running.contracts.get(name)
        if before is not None and before.view in contract.ways:
            catalogue = take_way(catalogue, name, before.view)
    return catalogue


def fix_ways(catalogue: Catalogue) -> Iterator[Catalogue]:
    """The catalogue with all contracts that have a choice maintained, and with all of them in full."""
    ways = {name: contract.ways for name, contract in catalogue.contracts.items() if contract.ways}
    for number in (0, -1) if ways else ():
        fixed = {name: replace(catalogue.contracts[name], view=ways[name][number], ways=()) for name in ways}
        yield replace(catalogue, contracts={**catalogue.contracts, **fixed})


def leave_ways(now: Arrangement, catalogue: Catalogue) -> Arrangement:
    """The arrangement of contracts whose ways were fixed, with the choice that the catalogue leaves them."""
    ways = {name: contract.ways for name, contract in catalogue.contracts.items()}
    contracts = {name: replace(one, ways=ways[name]) for name, one in now.catalogue.contracts.items()}
    kept = tuple(replace(one, contract=replace(one.contract, ways=ways[one.contract.name])) for one in now.kept)
    return replace(now, catalogue=replace(now.catalogue, contracts=contracts), kept=kept)


def place_either_way(now: Arrangement, contract: Contract, cores: Cores, place_one: Place = place) -> Arrangement:
    """The arrangement with a contract in the better of its ways, kept or refused; it has at least one."""
    found: Arrangement | None = None
    for view in ways_of(contract, cores):
        there = replace(now, catalogue=take_way(now.catalogue, contract.name, view))
        then = place_one(there, replace(contract, view=view), cores[view])
        found = then if found is None or is_better(then, found, contract.name) else found
    assert found is not None, f'contract "{contract.name}" is refused as unsupported'
    return found


def place_other_way(now: Arrangement, contract: str, cores: Cores) -> Arrangement | None:
    """The arrangement with a contract that is kept in the way that it does not have; None if it cannot be."""
    terms = next(kept.contract for kept in now.kept if kept.contract.name == contract)
    others = {view: cores[view] for view in ways_of(terms, cores) if view != terms.view}
    then = place_either_way(now.without(contract), terms, others) if others and terms.ways else None
    return then if then is not None and len(then.kept) == len(now.kept) else None


def is_better(then: Arrangement, now: Arrangement, contract: str) -> bool:
    """Whether a contract is kept with a lower score, or only there, or could be promised more than here."""
    (is_refused, amount), (was_refused, before) = (_rank(one, contract) for one in (then, now))
    return amount < before * (1 - ROUNDING) if is_refused == was_refused else was_refused


def _rank(then: Arrangement, contract: str) -> tuple[bool, float]:
    """Whether a contract is refused, and the score; or else what could be promised instead."""
    refused = next((one for one in then.rejected if one.contract == contract), None)
    if refused is None:
        return False, score(then)
    return True, inf if refused.smallest_staleness_s is None else refused.smallest_staleness_s
