"""Which sources the service follows to place pairs: each becomes a view of all its rows, at its home.

    the devices' table       who there is, and what each can hold
    the table of pairs       which pairs there are
    TEMPLATE/placement       where they run
    tables of the program    what devices read beside streams

Such a view is the source's own relation (a plan calls it identity): it costs nothing beyond having the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.model.catalogue import Catalogue, Contract, Refresh, Refusal, Source, View
from headrace.model.expr import Column
from headrace.model.relation import Output, Projection, Scan, fields_of
from headrace.model.template_names import name_placement, name_rows

FOLLOW_WITHIN_S = 5.0
"""How late rows may be seen: until then nobody runs a pair that is new, or everybody still runs one that is gone."""


def follow_rows(expanded: Catalogue) -> Catalogue:
    """The catalogue with a view and a contract for each source that is followed, of templates that can be kept."""
    views, contracts = dict(expanded.views), dict(expanded.contracts)
    for name in dict.fromkeys(find_followed(expanded)):
        source = expanded.sources[name]
        if name_rows(name) not in views and source.columns is not None:
            views[name_rows(name)] = _make_view(source)
            contracts[name_rows(name)] = _make_contract(source)
    return replace(expanded, views=views, contracts=contracts)


def find_followed(expanded: Catalogue) -> Iterator[str]:
    for template in expanded.templates.values():
        if template.program is not None and not isinstance(template.program, Refusal):
            yield expanded.devices[template.devices].table
            yield template.table
            yield name_placement(template.name)
            yield from template.tables
            for made in expanded.devices[template.devices].derived.values():
                yield from made.tables


def _make_view(source: Source) -> View:
    columns = source.columns or ()
    rows = Scan(source.name, source.name, tuple(one.name for one in columns), tuple(one.type for one in columns))
    outputs = (Output(one.name.rpartition(".")[2], Column(one.name, one.type)) for one in fields_of(rows))
    return View(name_rows(source.name), "", Projection(rows, tuple(outputs)), (source.name,), (), source.declared_at)


def _make_contract(source: Source) -> Contract:
    return Contract(
        name=name_rows(source.name),
        view=name_rows(source.name),
        site=source.site,
        freshness_s=FOLLOW_WITHIN_S,
        penalty=0.0,
        owner=None,
        deliver=None,
        refresh=Refresh.INCREMENTAL,
        declared_at=source.declared_at,
    )
