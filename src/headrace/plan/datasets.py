"""Datasets: what a vertex holds, wherever it is. A dataset at a site is a vertex, as a relation or as a delta.

Ids read like `r:orders@us` and `d:customers,orders|orders@eu~3f2a9c`: relation or delta, what is joined, whose
changes, where. The end is the beginning of the fingerprint, left out for whole sources, so that an id means the same
in every plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.model.block import Block, ColumnId
from headrace.model.catalogue import Stays
from headrace.model.plan import Vertex, VertexKind
from headrace.model.rate import Rate
from headrace.plan.statistics import DELTA_EXTRA_WIDTH, CoreStatistics, Facts


@dataclass(frozen=True, slots=True)
class Dataset:
    """`changed` names whose changes its delta carries, `rate` how many.

    `width` is that of the relation's rows, `home` the site of a whole source. Changes of one that is `recomputed` are
    the difference between all its rows, which their vertex therefore counts.
    """

    scope: tuple[str, ...]
    changed: tuple[str, ...]
    fingerprint: str
    columns: tuple[ColumnId, ...]
    width: float
    rows: float
    rate: Rate
    stays: Mapping[str, Stays]
    whole: bool = False
    home: str | None = None
    stands_for: str | None = None
    recomputed: bool = False

    @property
    def delta_width(self) -> float:
        return self.width + DELTA_EXTRA_WIDTH

    def may_be_at(self, site: str) -> bool:
        return site == self.home or all(site in stays.sites for stays in self.stays.values())

    def relation_at(self, site: str, salt: str = "") -> Vertex:
        return Vertex(
            id=f"r:{self._name(site)}{salt}",
            kind=VertexKind.RELATION,
            site=site,
            scope=self.scope,
            delta_of=None,
            base=self.whole and site == self.home,
            fingerprint=self.fingerprint + salt,
            columns=self.columns,
            width=self.width,
            rows=self.rows,
            rate=Rate(),
            stands_for=self.stands_for,
        )

    def delta_at(self, site: str, salt: str = "") -> Vertex:
        return Vertex(
            id=f"d:{self._name(site, self.changed)}{salt}",
            kind=VertexKind.DELTA,
            site=site,
            scope=self.scope,
            delta_of=self.changed,
            base=self.whole and site == self.home,
            fingerprint=self.fingerprint + salt,
            columns=self.columns,
            width=self.delta_width,
            rows=self.rows if self.recomputed else None,
            rate=self.rate,
            stands_for=self.stands_for,
        )

    def _name(self, site: str, changed: tuple[str, ...] = ()) -> str:
        of = "|" + ",".join(changed) if changed else ""
        end = "" if self.whole else f"~{self.fingerprint[:6]}"
        return f"{','.join(self.scope)}{of}@{site}{end}"


def whole_dataset(facts: Facts) -> Dataset:
    """A source as it is captured, or an earlier block as it is made: not filtered, all columns."""
    return Dataset(
        scope=(facts.name,),
        changed=(facts.name,),
        fingerprint=facts.fingerprint,
        columns=tuple((facts.name, column) for column in facts.stored_as(facts.widths)),
        width=facts.width,
        rows=facts.rows,
        rate=facts.rate,
        stays=facts.stays,
        whole=facts.home is not None,
        home=facts.home,
        stands_for=facts.name if facts.home is None else None,
    )


def sub_join(core: CoreStatistics, subset: int, changed: int) -> Dataset:
    """Several inputs joined, after filters and projection, with the changes that come from some of them."""
    return Dataset(
        scope=core.names(subset),
        changed=core.aliases_of(changed),
        fingerprint=core.fingerprint(subset),
        columns=core.columns(subset),
        width=core.width(subset),
        rows=core.card(subset),
        rate=core.rate(subset, changed),
        stays=core.stays(subset),
    )


def single_input(core: CoreStatistics, bit: int, whole: Dataset) -> Dataset:
    """One input after its filter and projection, named after its source: every alias with the same filter and columns
    shares it.
    """
    input_, facts = core.input_of(bit), core.input_of(bit).facts
    if core.is_whole(bit):
        return whole
    return replace(
        whole,
        fingerprint=core.fingerprint(bit),
        columns=tuple((facts.name, column) for column in facts.stored_as(name for _, name in core.columns(bit))),
        width=core.width(bit),
        rows=input_.rows,
        rate=input_.rate,
        stays=core.stays(bit),
        whole=False,
        stands_for=None,
    )


def as_output(dataset: Dataset, block: Block) -> Dataset:
    """The dataset, known to be the whole output of a block."""
    return replace(dataset, stands_for=block.id)
