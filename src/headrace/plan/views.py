"""The blocks of declared views, or why a view is neither maintained nor recomputed."""

from __future__ import annotations

from headrace.model.block import Block
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import Problem, UnsupportedSql
from headrace.model.template_names import read_side
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.recompute import make_recomputed_block

TEMPLATE = "template"
"""The operator by which a contract for a part of a template is refused."""


def views_of(catalogue: Catalogue) -> dict[str, tuple[Block, ...] | Refusal]:
    return {name: blocks_of_view(catalogue, name) for name in catalogue.views}


def blocks_of_view(catalogue: Catalogue, name: str) -> tuple[Block, ...] | Refusal:
    query, recomputed = catalogue.views[name].query, catalogue.views[name].recomputed
    if isinstance(recomputed, Refusal):
        return recomputed
    if _reads_devices(catalogue, name):
        return _refuse_device_view(catalogue, name)
    if recomputed is not None:
        return (make_recomputed_block(name, recomputed, catalogue),)
    if isinstance(query, Refusal):
        return query
    try:
        return blocks_of(name, query)
    except UnsupportedSql as error:
        return Refusal(error.operator, error.problems)


def _reads_devices(catalogue: Catalogue, view: str) -> bool:
    """Whether a view, or one that it reads, reads `SIDE.STREAM`: it means something for a pair only.

    A view that is read may run in an earlier version, which goes by another name here: its name alone says nothing.
    """
    found = catalogue.views.get(view)
    return found is not None and any(
        read_side(read) is not None or _reads_devices(catalogue, read) for read in found.reads
    )


def _refuse_device_view(catalogue: Catalogue, name: str) -> Refusal:
    message = f'view "{name}" reads streams of devices, so there is one for each pair'
    hint = "write a template for it, or a contract for the view of the template that reads it"
    return Refusal(TEMPLATE, (Problem(message, catalogue.views[name].declared_at, hint),))
