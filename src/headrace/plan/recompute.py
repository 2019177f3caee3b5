"""The one block of a view that is recomputed: all rows of its sources in, all rows of the view out.

It is never the same dataset as the maintained view: a contract that asks for recomputing gets it.
"""

from __future__ import annotations

from headrace.model.block import Block, BlockInput, Derivation, DerivationKind
from headrace.model.catalogue import Catalogue
from headrace.model.expr import Column
from headrace.model.full_query import FullQuery
from headrace.model.relation import Output
from headrace.plan.statistics import fingerprint_of


def make_recomputed_block(name: str, recomputed: FullQuery, catalogue: Catalogue) -> Block:
    """Every source once and whole, however often the query names it: what it reads of them is not looked at."""
    columns = {source: catalogue.sources[source].columns or () for source in recomputed.reads}
    return Block(
        id=name,
        inputs=tuple(BlockInput(source, source) for source in recomputed.reads),
        classes=(),
        filters=(),
        residuals=(),
        keep={source: tuple(sorted(column.name for column in found)) for source, found in columns.items()},
        outputs=tuple(Output(field.name, Column(field.name, field.type)) for field in recomputed.fields),
        top=Derivation(DerivationKind.RECOMPUTE, recomputed=recomputed),
        fingerprint=fingerprint_of({"recompute": recomputed.sql, "reads": recomputed.reads}),
    )
