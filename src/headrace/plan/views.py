"""The blocks of declared views, or why a view is neither maintained nor recomputed."""

from __future__ import annotations

from headrace.model.block import Block
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import UnsupportedSql
from headrace.model.left_out import refuse_template_view
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.recompute import make_recomputed_block


def views_of(catalogue: Catalogue) -> dict[str, tuple[Block, ...] | Refusal]:
    return {name: blocks_of_view(catalogue, name) for name in catalogue.views}


def blocks_of_view(catalogue: Catalogue, name: str) -> tuple[Block, ...] | Refusal:
    query, recomputed = catalogue.views[name].query, catalogue.views[name].recomputed
    if isinstance(recomputed, Refusal):
        return recomputed
    template = refuse_template_view(catalogue, name)
    if template is not None:
        return template
    if recomputed is not None:
        return (make_recomputed_block(name, recomputed, catalogue),)
    if isinstance(query, Refusal):
        return query
    try:
        return blocks_of(name, query)
    except UnsupportedSql as error:
        return Refusal(error.operator, error.problems)
