"""What `headrace plan` tells people: promises first, then what runs where, then what it takes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.doors.cli.feed_text import feed_lines, store_rows
from headrace.doors.cli.output import count, table, wrap
from headrace.doors.cli.template_text import template_lines
from headrace.model import amounts
from headrace.model.catalogue import Admission, Catalogue
from headrace.model.feed_names import feed_of
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan, Edge, Operator, Plan, Rejection, Stage, Vertex, VertexKind
from headrace.model.words import name_dataset

HOUR_S = 3600.0


def plan_text(plan: Plan) -> str:
    promises = (*_summary(plan), *_tell_kept(plan), *feed_lines(plan), *template_lines(plan), *_tell_refused(plan))
    return "\n".join((*promises, *_sites(plan), *_totals(plan))).rstrip()


def dollars_per_hour(dollars_per_second: float) -> str:
    return f"{amounts.format_number(dollars_per_second * HOUR_S)} $/h"


def step(plan: Plan, edge: Edge) -> str:
    """What an operator does, in words."""
    vertices = plan.graph.vertices
    output, inputs = vertices[edge.output], [vertices[name] for name in edge.inputs]
    where = " where " + " and ".join(filter_.text for filter_ in edge.select) if edge.select else ""
    match edge.op:
        case Operator.CAPTURE:
            return f"capture {name_dataset(output)}"
        case Operator.COPY:
            return f"copy {name_dataset(inputs[0])} from {inputs[0].site}{where}"
        case Operator.JOIN:
            change, state = _first(inputs, VertexKind.DELTA), _first(inputs, VertexKind.RELATION)
            return f"join {name_dataset(change)} with {name_dataset(state)}{where}"
        case Operator.UNION:
            return f"unite {name_dataset(output)}"
        case Operator.APPLY:
            view = next((entry.view for entry in plan.contracts if entry.vertex == output.id), None)
            wider = f" from {name_dataset(inputs[0])}{where}" if where else ""
            return f"keep {name_dataset(output) if view is None else name_of_view(view)}{wider}"
        case Operator.AGGREGATE:
            stage = edge.grouping.stage if edge.grouping is not None else Stage.FULL
            return {
                Stage.FULL: f"aggregate to {name_dataset(output)}",
                Stage.PARTIAL: f"aggregate in part to {name_dataset(output)}",
                Stage.MERGE: f"merge parts to {name_dataset(output)}",
            }[stage] + where
        case Operator.DERIVE if edge.is_recomputed:
            read = [name_dataset(vertex) for vertex in inputs if vertex.kind is VertexKind.RELATION]
            return f"recompute {name_of_view(output.stands_for or name_dataset(output))} in full from {', '.join(read)}"
        case Operator.DERIVE if edge.derivation is not None and edge.derivation.stamp is not None:
            return f"note when {name_dataset(inputs[0])} came"
        case Operator.DERIVE:
            kind = edge.derivation.kind if edge.derivation is not None else ""
            return f"derive ({kind}) {name_dataset(output)}{where}"


def _first(vertices: list[Vertex], kind: VertexKind) -> Vertex:
    return next(vertex for vertex in vertices if vertex.kind is kind)


def _summary(plan: Plan) -> Iterator[str]:
    contracts = [one for one in plan.contracts if _find_feed(plan, one.contract) is None]
    feeds = [feed for feed in plan.feeds if feed.reason is None]
    refused = sum(_find_feed(plan, one.contract) is None for one in plan.rejected) + len(plan.feeds) - len(feeds)
    parts = [count(len(contracts), "contract")] if contracts or not feeds else []
    parts += [count(len(feeds), "feed")] if feeds else []
    verdict = f"{' and '.join(parts)} kept" + (f", {refused} refused" if refused else "")
    yield f'project "{plan.catalogue.project}": {verdict}, {dollars_per_hour(plan.money)} planned'
    yield ""


def _find_feed(plan: Plan, contract: str) -> str | None:
    """The feed that a promise is part of."""
    return feed_of(contract, plan.catalogue.feeds)


def _tell_kept(plan: Plan) -> Iterator[str]:
    own = [contract for contract in plan.contracts if _find_feed(plan, contract.contract) is None]
    if not own:
        return
    head = ["kept", "view at site", "freshness", "a push takes", "planned cost"]
    rows = [
        [
            contract.contract,
            f"{name_of_view(contract.view)} at {contract.site}{how_kept(plan.catalogue, contract.contract)}",
            amounts.format_seconds(contract.freshness_s),
            _push(contract),
            dollars_per_hour(contract.money),
        ]
        for contract in own
    ]
    yield from table(rows, indent=0, head=head)
    yield ""
    yield from _tell_chosen(plan)


def _tell_chosen(plan: Plan) -> Iterator[str]:
    """Tells how views are refreshed whose contracts leave the choice."""
    terms = plan.catalogue.contracts
    ways = {one.contract: plan.catalogue.is_in_full(one.contract) for one in plan.contracts if terms[one.contract].ways}
    for is_in_full, how in ((False, "maintained from changes"), (True, "recomputed in full")):
        names = [name for name, found in ways.items() if found is is_in_full]
        if names:
            yield from wrap(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {how}", "refresh auto: ", "  ")
    if ways:
        yield ""


def how_kept(catalogue: Catalogue, contract: str) -> str:
    """What is to be said of a contract whose view is not maintained by its changes."""
    return ", recomputed in full" if catalogue.is_in_full(contract) else ""


def _push(contract: ContractPlan) -> str:
    """How long the changes of one batch are on their way, of how long they may be."""
    if contract.critical_path_s == 0:
        return "no push: read at its source"
    limit = contract.freshness_s if contract.rule is Admission.PAPER else contract.batch_s
    return f"{amounts.format_seconds(contract.critical_path_s)} of {amounts.format_seconds(limit)}"


def _tell_refused(plan: Plan) -> Iterator[str]:
    own = [rejection for rejection in plan.rejected if _find_feed(plan, rejection.contract) is None]
    if not own:
        return
    yield "refused"
    for rejection in own:
        yield from refusal_lines(rejection, plan.catalogue)
    yield ""


def refusal_lines(rejection: Rejection, catalogue: Catalogue) -> Iterator[str]:
    """The promise that cannot be kept, why, and what could be promised instead."""
    contract = catalogue.contracts[rejection.contract]
    promise = f"{name_of_view(contract.view)} at {contract.site} within {amounts.format_seconds(contract.freshness_s)}"
    promise += how_kept(catalogue, rejection.contract)
    yield from wrap(promise, f"  {rejection.contract}  ", "    ")
    yield from wrap(rejection.detail, "    because ", "      ")
    if rejection.smallest_staleness_s is not None:
        offer = amounts.format_seconds_up(rejection.smallest_staleness_s)
        yield from wrap(
            f"a freshness of {offer} or more could be kept, with everything else unchanged", "    instead ", "      "
        )


def _sites(plan: Plan) -> Iterator[str]:
    vertices = plan.graph.vertices
    for site in sorted({vertices[name].site for name in plan.graph.edges}):
        yield f"at {site}"
        rows = [
            [_size(plan, edge), f"{step(plan, edge)}{_tell_served(plan, edge)}"]
            for name, edge in plan.graph.edges.items()
            if vertices[name].site == site
        ]
        yield from table(rows)
        yield ""


def _size(plan: Plan, edge: Edge) -> str:
    figures, vertex = plan.edge_figures[edge.output], plan.graph.vertices[edge.output]
    if figures.bytes_per_s is not None:
        return amounts.format_bandwidth(figures.bytes_per_s)
    if vertex.rows is not None:
        return amounts.format_rows(vertex.rows)
    return amounts.format_rate(figures.rows_per_s)


def _tell_served(plan: Plan, edge: Edge) -> str:
    everybody = {_find_feed(plan, one.contract) or one.contract for one in plan.contracts}
    serves = dict.fromkeys(_find_feed(plan, name) or name for name in plan.edge_figures[edge.output].serves)
    if len(everybody) == 1:
        return ""
    return f" (for {next(iter(serves))})" if len(serves) == 1 else f" (for {len(serves)} contracts)"


def _totals(plan: Plan) -> Iterator[str]:
    totals, catalogue = plan.totals, plan.catalogue
    yield "total"
    rows = []
    for site in catalogue.sites.values():
        cpu, disk = totals.cpu.get(site.name, 0.0), totals.disk.get(site.name, 0.0)
        if cpu or disk:
            cores = f"of {amounts.format_number(site.cores)}" if site.cores is not None else ""
            rows.append([site.name, f"{amounts.format_number(cpu)} cores {cores}".rstrip(), amounts.format_bytes(disk)])
    for link in catalogue.links:
        load = totals.link.get((link.src, link.dst), 0.0)
        if load:
            limit = f"of {amounts.format_bandwidth(link.carries)}" if link.carries is not None else ""
            limit += " measured" if link.measured is not None else ""
            rows.append([f"{link.src} > {link.dst}", f"{amounts.format_bandwidth(load)} {limit}".rstrip(), ""])
    rows += store_rows(plan)
    yield from table(rows) if rows else ["  nothing runs"]
