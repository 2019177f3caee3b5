"""A contract comes or goes while the plan runs.

A new contract is planned on top of what runs: no vertex gets another producer, so that the critical paths of all others
stay as they are (but for what is forced), and every capacity is checked with it. Of a contract that goes, only what
served nobody else goes with it. What everyone pays is computed again.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.model.block import Block
from headrace.model.catalogue import Catalogue, Contract, Refusal
from headrace.model.errors import UsageError
from headrace.model.plan import Plan, PlannedBlock
from headrace.plan.cores import cores_of, make_planned_block
from headrace.plan.figures import plan_of
from headrace.plan.refuse import refuse_unsupported
from headrace.plan.share.arrangement import Arrangement, arrangement_of
from headrace.plan.share.forms import is_borrowed
from headrace.plan.share.place import place
from headrace.plan.statistics import CoreStatistics
from headrace.plan.views import blocks_of_view


def add_contract(plan: Plan, contract: Contract) -> Plan:
    """The arrangement with one more contract on a view of the catalogue, kept or refused."""
    if contract.name in plan.catalogue.contracts:
        raise UsageError(f'contract "{contract.name}" exists already', "remove it first, or give the new one a name")
    contracts = {**plan.catalogue.contracts, contract.name: contract}
    now = replace(arrangement_of(plan), catalogue=replace(plan.catalogue, contracts=contracts))
    cores = cores_for(now.blocks, now.catalogue, contract.view)
    if isinstance(cores, Refusal):
        return plan_of(now.refusing(refuse_unsupported(contract.name, cores)))
    return plan_of(place(_knowing(now, cores), contract, cores))


def remove_contract(plan: Plan, name: str) -> Plan:
    """The arrangement without a contract, whether it is kept or refused."""
    if name not in plan.catalogue.contracts:
        raise UsageError(f'contract "{name}" does not exist', "contracts are listed by `headrace plan`")
    contracts = {key: contract for key, contract in plan.catalogue.contracts.items() if key != name}
    return plan_of(replace(arrangement_of(plan).without(name), catalogue=replace(plan.catalogue, contracts=contracts)))


def cores_for(
    blocks: tuple[PlannedBlock, ...], catalogue: Catalogue, view: str
) -> tuple[CoreStatistics, ...] | Refusal:
    """The blocks of a view with their statistics, under the names that they have in the plan. Where a view has been
    read from another one, it is taken as it is declared.
    """
    names = {planned.block.fingerprint: planned.name for planned in blocks}
    known = tuple(planned.block for planned in blocks if _is_of(planned.block, view))
    found = blocks_of_view(catalogue, view) if not known or is_borrowed(known[-1]) else known
    return found if isinstance(found, Refusal) else cores_of(found, catalogue, names)


def _is_of(block: Block, view: str) -> bool:
    return block.id == view or block.id.startswith(f"{view}/")


def _knowing(now: Arrangement, cores: tuple[CoreStatistics, ...]) -> Arrangement:
    """Adds the blocks of a view that was not planned before."""
    known = {planned.block.id for planned in now.blocks}
    new = (make_planned_block(core, core is not cores[-1]) for core in cores if core.block.id not in known)
    return replace(now, blocks=(*now.blocks, *new))
