"""What a vertex of a plan document means, whatever the document says about it.

Which aliases are joined, whose changes it carries and how often, which filters and equalities were applied, and of
which block it is the output, if of one. A single source goes by its own name until a join gives it an alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.plan.check.form import ColumnId, PlanForm
from headrace.plan.check.predicates import implies

Filter = tuple[str, str]
"""(alias, predicate)"""


@dataclass(frozen=True)
class Meaning:
    """`terms` counts, per alias, how often its changes are in; a relation has each once. `partial` aggregates are of no
    block yet: `block` is set when its whole output is there."""

    scope: frozenset[str]
    terms: Mapping[str, int]
    filters: frozenset[Filter] = frozenset()
    equalities: frozenset[frozenset[ColumnId]] = frozenset()
    block: str | None = None
    partial: str | None = None

    @property
    def is_single(self) -> bool:
        return len(self.scope) == 1

    def under(self, alias: str) -> Meaning:
        """A single source or block as an alias of a view."""
        if not self.is_single:
            return self
        return replace(
            self,
            scope=frozenset((alias,)),
            terms=dict.fromkeys((alias,), sum(self.terms.values())),
            filters=frozenset((alias, text) for _, text in self.filters),
        )

    def with_select(self, select: Mapping[str, str]) -> Meaning:
        return replace(self, filters=narrow_filters(self.filters, select))


def narrow_filters(filters: Iterable[Filter], select: Mapping[str, str]) -> frozenset[Filter]:
    """Filters after those of an edge. A predicate that implies an earlier one of the same alias stands for both: rows
    that pass it have passed the other.
    """
    kept = {(alias, text) for alias, text in filters if alias not in select or not implies(select[alias], text)}
    return frozenset(kept | set(select.items()))


def output_of(block: str) -> Meaning:
    return Meaning(frozenset((block,)), {block: 1}, block=block)


def same_dataset(first: Meaning, second: Meaning) -> bool:
    return (first.scope, first.block, first.equalities) == (second.scope, second.block, second.equalities)


def same_aggregate(declared: Mapping[str, object] | None, wanted: Mapping[str, object]) -> bool:
    return declared is not None and {k: v for k, v in declared.items() if k != "stage"} == dict(wanted)


def close_equalities(sets: Iterable[frozenset[ColumnId]]) -> frozenset[frozenset[ColumnId]]:
    """Equalities with all that follow from them: sets that overlap are one."""
    found: list[frozenset[ColumnId]] = []
    for one in sets:
        touching = [other for other in found if other & one]
        found = [other for other in found if not other & one]
        found.append(one.union(*touching))
    return frozenset(found)


def static_names(document: PlanForm) -> frozenset[str]:
    """Sources that never change, blocks over such sources, and their aliases."""
    static = {source.id for source in document.catalogue.sources if source.static}
    for _ in document.views:
        static |= {view.id for view in document.views if all(read.source in static for read in view.sources)}
    aliases = {read.alias for view in document.views for read in view.sources if read.source in static}
    moving = {read.alias for view in document.views for read in view.sources if read.source not in static}
    return frozenset((static | aliases) - moving)
