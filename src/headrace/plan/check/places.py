"""Whether rows are only where their sources allow: no vertex elsewhere carries a column of a source that stays."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.plan.check.form import SourceForm, ViewForm
from headrace.plan.check.meaning import Meaning
from headrace.plan.check.rates import Rates
from headrace.plan.check.structure import Problem

Bound = tuple[str, tuple[str, ...]]
"""A source, and the sites where its rows may be."""


def check_places(rates: Rates) -> Iterator[Problem]:
    for name, vertex in rates.vertices.items():
        for source, sites in _bound(rates, rates.meanings.of[name], name):
            if vertex.site not in sites and vertex.site != rates.sources[source].site:
                yield f"vertices/{name}", f'carries columns of "{source}", which stays at {", ".join(sites)}'


def _bound(rates: Rates, meaning: Meaning, name: str) -> Iterator[Bound]:
    """The sources whose columns a vertex carries and that stay somewhere."""
    made_of = meaning.block or meaning.partial
    if made_of is not None:
        view = rates.meanings.views.get(made_of)
        yield from () if view is None else _bound_output(rates, view)
        return
    for alias in sorted(meaning.scope):
        source = rates.source(alias)
        if len(meaning.scope) > 1 and not _carries(rates, meaning, alias, name):
            continue
        if isinstance(source, ViewForm):
            yield from _bound_output(rates, source)
        elif source is not None and source.stays is not None:
            yield source.id, source.stays.sites


def _bound_output(rates: Rates, view: ViewForm) -> Iterator[Bound]:
    """Bounds where a view's output may be; aggregates of some sources may leave, however deep these are read."""
    for read in view.sources:
        source = rates.source(read.source)
        if view.keep and not view.keep.get(read.alias):
            continue
        if isinstance(source, ViewForm):
            yield from (bound for bound in _bound_output(rates, source) if not _may_leave(rates, view, bound[0]))
        elif isinstance(source, SourceForm) and source.stays is not None and not _may_leave(rates, view, source.id):
            yield source.id, source.stays.sites


def _may_leave(rates: Rates, view: ViewForm, source: str) -> bool:
    stays = rates.sources[source].stays
    return view.aggregate is not None and stays is not None and stays.aggregates == "anywhere"


def _carries(rates: Rates, meaning: Meaning, alias: str, name: str) -> bool:
    for view in rates.views_for(name):
        if meaning.scope <= {read.alias for read in view.sources}:
            return alias in _carriers(view, meaning.scope)
    return True


def _carriers(view: ViewForm, scope: frozenset[str]) -> set[str]:
    """The aliases whose columns a sub-join of a view holds."""
    if not view.keep:
        return set(scope)
    columns = {(alias, column) for alias in scope for column in view.keep.get(alias, ())}
    for class_ in view.classes:
        inside = {member for member in class_ if member[0] in scope}
        if inside and len(inside) < len(class_) and not inside & columns:
            columns.add(min(inside, key=".".join))
    waiting = {a for aliases, _, _ in view.residual if not set(aliases) <= scope for a in aliases if a in scope}
    return {alias for alias, _ in columns} | waiting
