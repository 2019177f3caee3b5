"""The blocks of a view with all their statistics, inner ones first: what the search works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from headrace.model.block import Block, BlockInput, Derivation
from headrace.model.catalogue import Catalogue
from headrace.model.errors import UnsupportedSql
from headrace.model.plan import BlockFacts, PlannedBlock
from headrace.model.relation import Relation
from headrace.plan.canonical.block_aliases import with_aliases
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.outputs import block_facts, facts_of_block
from headrace.plan.selectivity import share_of, share_of_filter
from headrace.plan.sizes import size_now
from headrace.plan.statistics import CoreStatistics, Facts, facts_of_source


def cores_of(
    blocks: Sequence[Block], catalogue: Catalogue, names: Mapping[str, str] | None = None
) -> tuple[CoreStatistics, ...]:
    """One core per block; the last is the view. `names` gives blocks of equal fingerprints one name in all views."""
    facts = {name: facts_of_source(source) for name, source in catalogue.sources.items()}
    cores = []
    for declared in blocks:
        block = _under_shared_aliases(declared, facts)
        core = _core_of(block, facts, catalogue, (names or {}).get(block.fingerprint, block.id))
        facts[block.id] = facts_of_block(core)
        cores.append(core)
    return tuple(cores)


def _under_shared_aliases(block: Block, facts: Mapping[str, Facts]) -> Block:
    """The block with aliases that read other blocks by the names which these have in all views.

    Vertices name their columns by alias. Were an alias the id that a block has in one view, then equal blocks of two
    views would look for the same rows under different names.
    """
    aliases = {one.alias: _name_shared_alias(one, facts) for one in block.inputs}
    return block if all(alias == shared for alias, shared in aliases.items()) else with_aliases(block, aliases, {})


def _name_shared_alias(input_: BlockInput, facts: Mapping[str, Facts]) -> str:
    if input_.fingerprint is None:
        return input_.alias
    _, hash_, number = input_.alias.partition("#")
    return f"{facts[input_.source].name}{hash_}{number}"


def _core_of(block: Block, facts: Mapping[str, Facts], catalogue: Catalogue, name: str) -> CoreStatistics:
    source_of = {input_.alias: input_.source for input_ in block.inputs}
    distinct = {
        f"{alias}.{column}": count
        for alias, source in source_of.items()
        for column, count in facts[source].distinct.items()
    }
    shares = {
        filter_.alias: share_of_filter(filter_, source_of[filter_.alias], distinct, catalogue.selectivity)
        for filter_ in block.filters
    }
    residual_shares = tuple(share_of(residual.predicate, distinct) for residual in block.residuals)
    size, meant = size_now(catalogue, block.fingerprint), _estimate_meaning(block, catalogue)
    return CoreStatistics(block, facts, shares, residual_shares, name, size, meant)


def _estimate_meaning(block: Block, catalogue: Catalogue) -> BlockFacts | None:
    """What a view that is recomputed would hold and emit if it were maintained, where it could be; the same rows."""
    recomputed = block.top.recomputed if isinstance(block.top, Derivation) else None
    if recomputed is None or recomputed.query is None:
        return None
    try:
        return block_facts(cores_of(_find_blocks(block.id, recomputed.query), catalogue)[-1])
    except UnsupportedSql:
        return None


@lru_cache(maxsize=64)
def _find_blocks(name: str, query: Relation) -> tuple[Block, ...]:
    """Blocks are asked for with every change of statistics, and do not depend on them."""
    return blocks_of(name, query)


def make_planned_block(core: CoreStatistics, inner: bool) -> PlannedBlock:
    """A block with its estimates, as the plan keeps it."""
    shares = {input_.alias: input_.share for input_ in core.inputs if input_.filter is not None}
    keep = {input_.alias: core.kept(input_.alias) for input_ in core.inputs}
    reads = {input_.alias: input_.facts.name for input_ in core.inputs}
    return PlannedBlock(
        core.block,
        core.name,
        reads,
        keep,
        shares,
        core.residual_shares,
        block_facts(core),
        inner,
        facts_of_block(core).stored,
    )


def source_count(cores: Sequence[CoreStatistics]) -> int:
    """How many times the view reads a source."""
    return sum(input_.facts.home is not None for core in cores for input_ in core.inputs)


def is_counted_once(cores: Sequence[CoreStatistics]) -> bool:
    """Whether no two blocks of a view read the same source or block: the search adds up blocks as if they shared
    nothing.
    """
    readers = [{input_.facts.name for input_ in core.inputs} for core in cores]
    blocks = [input_.facts.name for core in cores for input_ in core.inputs if input_.facts.home is None]
    return len(set(blocks)) == len(blocks) and sum(map(len, readers)) == len(set().union(*readers))
