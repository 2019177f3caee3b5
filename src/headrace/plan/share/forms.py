"""Other forms of a view: groups from finer groups that live, first rows from wider ones, as a block that reads another
block.

Counts per minute can be added up from counts per half minute, groups above a threshold are a filter of all groups, and
the newest posts without their texts are those with their texts. The rows may also be what the view joins. A view in
such a form is a view over a view, and is planned, written, checked and run like any other. Its contracts have
one form at a time: it is chosen with the first of them, and only if nobody else needs what the view makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from headrace.model.block import Aggregation, Block, BlockInput, Derivation, DerivationKind, Window
from headrace.model.expr import Column, Expr, columns_of, rename_columns
from headrace.model.plan import PlannedBlock
from headrace.model.relation import Output
from headrace.plan.canonical.assemble import collect_kept, filters_of
from headrace.plan.canonical.block_aliases import with_aliases
from headrace.plan.canonical.subsume import Remainder, subsumes
from headrace.plan.cores import cores_of, make_planned_block
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.statistics import CoreStatistics

Blocks = Mapping[str, PlannedBlock]
"""By id."""


def coarser_forms(
    now: Arrangement, view: str, cores: tuple[CoreStatistics, ...]
) -> Iterator[tuple[CoreStatistics, ...]]:
    """Ways to read a view that groups, or takes first rows, from what lives."""
    own, inner = cores[-1].block, {core.block.id: core.block for core in cores[:-1]}
    parts = [inner[one.source] for one in own.inputs if one.source in inner and _is_top_k(inner[one.source])]
    is_read = isinstance(own.top, Aggregation) or _is_top_k(own)
    if not (is_read or parts) or not _may_change(now, view, own):
        return
    made = {vertex.stands_for for vertex in now.graph.vertices.values()}
    known = _by_id(now)
    for finer in sorted(made & known.keys() - {view, None}, key=str):
        wide = known[str(finer)].block
        if view in _find_reads(known, wide):
            continue
        remainder = subsumes(wide, own) if is_read else None
        forms: list[Block | None] = [] if remainder is None else [read_from(own, wide, remainder)]
        forms += (join_from(own, part, wide) for part in parts if part.fingerprint != wide.fingerprint)
        for form in forms:
            if form is not None:
                others = {one.id: one for one in (*_with_inner(known, wide), *inner.values()) if one.id != view}
                yield cores_of((*others.values(), form), now.catalogue, _name_blocks(now))


def _is_top_k(block: Block) -> bool:
    return isinstance(block.top, Derivation) and block.top.kind is DerivationKind.TOPK


def present_form(now: Arrangement, view: str, cores: tuple[CoreStatistics, ...]) -> tuple[CoreStatistics, ...] | None:
    """The form that the contracts of a view have; None if there are none."""
    if all(entry.contract.view != view for entry in now.kept):
        return None
    known = _by_id(now)
    return cores if known[view].block == cores[-1].block else form_of(now, view)


def form_of(now: Arrangement, view: str) -> tuple[CoreStatistics, ...]:
    """The blocks of a view as they are planned, with their statistics."""
    return cores_of(tuple(blocks_in_form(now, view)), now.catalogue, _name_blocks(now))


def blocks_in_form(now: Arrangement, view: str) -> Iterator[Block]:
    """The blocks of a view as they are planned, after those that they read."""
    known = _by_id(now)
    return _with_inner(known, known[view].block)


def in_form(now: Arrangement, view: str, cores: tuple[CoreStatistics, ...]) -> Arrangement:
    """The arrangement with the view's last block as it is in the given cores."""
    blocks = tuple(
        make_planned_block(cores[-1], inner=False)
        if entry.block.id == view and entry.block != cores[-1].block
        else entry
        for entry in now.blocks
    )
    return replace(now, blocks=blocks)


def is_borrowed(block: Block) -> bool:
    """Whether a block reads what another view makes."""
    return any(one.fingerprint is not None and not one.source.startswith(f"{block.id}/") for one in block.inputs)


def _by_id(now: Arrangement) -> dict[str, PlannedBlock]:
    return {entry.block.id: entry for entry in now.blocks}


def _name_blocks(now: Arrangement) -> dict[str, str]:
    return {entry.block.fingerprint: entry.name for entry in now.blocks}


def _may_change(now: Arrangement, view: str, own: Block) -> bool:
    """Whether nobody but this view makes or reads what it does."""
    others = [entry for entry in now.blocks if entry.block.id != view]
    return all(entry.block.fingerprint != own.fingerprint and view not in entry.reads.values() for entry in others)


def _with_inner(known: Blocks, block: Block) -> Iterator[Block]:
    """A block after those that it reads, each once."""
    found: dict[str, Block] = {}
    for one in block.inputs:
        if one.source in known:
            found |= {inner.id: inner for inner in _with_inner(known, known[one.source].block)}
    yield from (*found.values(), block)


def _find_reads(known: Blocks, block: Block) -> frozenset[str]:
    return frozenset(inner.id for inner in _with_inner(known, block))


# The block that reads another


def join_from(own: Block, part: Block, wide: Block) -> Block | None:
    """A block that joins the rows of a wider block in place of those of one of its parts; None if it cannot, since they
    are not the same rows, or it reads one of the two more than once.
    """
    remainder, read = subsumes(wide, part), [one.source for one in own.inputs]
    if remainder is None or remainder.conjuncts or read.count(part.id) != 1 or wide.id in read:
        return None
    before = next(one for one in own.inputs if one.source == part.id)
    found = {output.name: output.expr.name for output in remainder.outputs if isinstance(output.expr, Column)}
    if len(found) < len(remainder.outputs):
        return None
    aliases = {one.alias: wide.id if one is before else one.alias for one in own.inputs}
    columns = {(before.alias, name): column for name, column in found.items()}
    renamed = with_aliases(own, aliases, {}, columns)
    inputs = (BlockInput(wide.id, wide.id, wide.fingerprint) if one.alias == wide.id else one for one in renamed.inputs)
    return replace(renamed, inputs=tuple(inputs))


def read_from(own: Block, wide: Block, remainder: Remainder) -> Block:
    """A block that makes the same as its `own` form, reading the rows of a wider one."""
    top = None if remainder.aggregation is None else _over(wide.id, remainder.aggregation)
    outputs = remainder.outputs if top is not None else _outputs(wide.id, remainder.outputs)
    return Block(
        id=own.id,
        inputs=(BlockInput(wide.id, wide.id, wide.fingerprint),),
        classes=(),
        filters=filters_of((_under(wide.id, part) for part in remainder.conjuncts), wide.id),
        residuals=(),
        keep=collect_kept(_reading(top) if top is not None else (output.expr for output in outputs)),
        outputs=outputs,
        top=top,
        fingerprint=own.fingerprint,
    )


def _under(alias: str, expr: Expr) -> Expr:
    return rename_columns(expr, {name: f"{alias}.{name}" for name in columns_of(expr)})


def _outputs(alias: str, outputs: Iterable[Output]) -> tuple[Output, ...]:
    return tuple(Output(output.name, _under(alias, output.expr)) for output in outputs)


def _over(alias: str, top: Aggregation) -> Aggregation:
    """The aggregation over the columns of an alias; HAVING reads names of its own."""
    return replace(
        top,
        keys=_outputs(alias, top.keys),
        calls=tuple(call.over(partial(_under, alias)) for call in top.calls),
        window=None if top.window is None else _window(alias, top.window),
    )


def _window(alias: str, window: Window) -> Window:
    return replace(window, time=_under(alias, window.time))


def _reading(top: Aggregation) -> Iterator[Expr]:
    yield from (key.expr for key in top.keys)
    yield from (expr for call in top.calls for expr in call.inputs)
    if top.window is not None:
        yield top.window.time
