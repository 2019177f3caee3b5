"""A plan as the document `plan/1` that other programs read: seconds, bytes, dollars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headrace.model.block import Aggregation, Block, Derivation, Window
from headrace.model.catalogue import Catalogue, Refusal, Site, Source, SourceKind, Stays
from headrace.model.expr import Column, Expr
from headrace.model.feed_plan import FeedPlan
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan, Edge, Operator, Plan, PlannedBlock, Rejection, Vertex, VertexKind
from headrace.model.show import write_window_call
from headrace.model.statistics import distinct_of, rate_of, rows_of, width_of
from headrace.plan.canonical.expression_text import aggregate_text, predicate_text
from headrace.plan.template_document import write_template
from headrace.plan.views import TEMPLATE

FORMAT = "plan/1"
FULL = "full"
"""The kind of a derivation from all rows, which has the text of its query; that of a full outer join has none."""

Json = dict[str, Any]


def plan_document(plan: Plan) -> Json:
    """The whole plan. Numbers are as computed; nothing is rounded."""
    batch_s = min((contract.batch_s for contract in plan.contracts), default=1.0)
    untaken = _find_untaken(plan.catalogue)
    listed = [
        planned
        for planned in plan.blocks
        if planned.block.id not in untaken and not (planned.inner and planned.name != planned.block.id)
    ]
    return {
        "format": FORMAT,
        "catalogue": _catalogue(plan.catalogue),
        "views": [_write_view(planned, plan.catalogue, batch_s) for planned in listed] + _write_refused_views(plan),
        "contracts": [_write_contract(plan, contract) for contract in plan.contracts],
        "vertices": [_vertex(plan, vertex) for vertex in plan.graph.vertices.values()],
        "edges": [_edge(plan, number, edge) for number, edge in enumerate(plan.graph.edges.values())],
        "totals": {
            "rescost": plan.totals.rescost,
            "cpu": dict(plan.totals.cpu),
            "link": {">".join(ends): rate for ends, rate in plan.totals.link.items()},
            "disk": dict(plan.totals.disk),
        },
        "rejected": [_rejection(rejection) for rejection in plan.rejected],
        **({"feeds": [_write_feed(plan, feed) for feed in plan.feeds]} if plan.feeds else {}),
        **({"templates": [write_template(one) for one in plan.templates]} if plan.templates else {}),
    }


def _find_untaken(catalogue: Catalogue) -> frozenset[str]:
    """Views in full that contracts could have taken: nobody declared them by these names."""
    ways = {way for contract in catalogue.contracts.values() for way in contract.ways}
    taken = {contract.view for contract in catalogue.contracts.values()}
    return frozenset(way for way in ways - taken if catalogue.views[way].recomputed is not None)


# What was declared


def _catalogue(catalogue: Catalogue) -> Json:
    room = catalogue.headroom
    return {
        "sites": [_write_site(site) for site in catalogue.sites.values()],
        "hosts": [{"id": host.name, "cpu_cap": host.cores} for host in catalogue.hosts.values()],
        "links": [
            {
                "src": link.src,
                "dst": link.dst,
                "bandwidth": link.carries,
                "latency": link.latency_s,
                "price_gb": link.price_gb,
            }
            for link in catalogue.links
        ],
        "sources": [_source(source) for source in catalogue.sources.values()],
        "times": {
            op: {"fixed": time.fixed, "per_in": time.per_in, "per_out": time.per_out}
            for op, time in catalogue.operator_times.items()
        },
        "headroom": {"cpu": room.cpu, "link": room.link, "blocking": room.blocking_s or 0.0},
    }


def _write_site(site: Site) -> Json:
    return {
        "id": site.name,
        "cpu_price_h": site.cpu_price_h,
        "disk_price_gb_month": site.disk_price_gb_month,
        "cpu_cap": site.cores,
        "disk_cap": site.disk_capacity,
        "speed": site.speed,
        "host": site.host,
    }


def _source(source: Source) -> Json:
    columns = source.columns or ()
    return {
        "id": source.name,
        "kind": "stream" if source.kind is SourceKind.STREAM else "table",
        "site": source.site,
        "key": list(source.key),
        "rows": rows_of(source),
        "rate": rate_of(source),
        "cols": {column.name: width_of(column) for column in columns},
        "distinct": {column.name: distinct_of(source, column) for column in columns},
        "static": source.static,
        "fk_parent_first": source.parent_first,
        "stays": _stays(source.stays),
    }


def _stays(stays: Stays | None) -> list[str] | Json | None:
    if stays is None:
        return None
    if not stays.aggregates_anywhere:
        return list(stays.sites)
    return {"sites": list(stays.sites), "aggregates": "anywhere"}


def _write_view(planned: PlannedBlock, catalogue: Catalogue, batch_s: float) -> Json:
    """A block. One that others read says what comes out of it, at the smallest batch of the plan."""
    block = planned.block
    view: Json = {
        "id": block.id,
        "sources": [_input(alias, source) for alias, source in planned.reads.items()],
        "classes": [[list(member) for member in class_] for class_ in block.classes],
        "filters": [[entry.alias, entry.text, planned.selectivity[entry.alias]] for entry in block.filters],
        "keep": _keep(planned, catalogue),
    }
    if block.residuals:
        view["residual"] = [
            [list(residual.aliases), residual.text, share]
            for residual, share in zip(block.residuals, planned.residual_selectivity, strict=True)
        ]
    view |= _top(block)
    facts = planned.facts
    view |= {"rows": facts.rows, "rate": facts.rate.at(batch_s)}
    return view | {"cols": dict(facts.widths), "distinct": dict(facts.distinct)}


def _input(alias: str, source: str) -> str | Json:
    return alias if alias == source else {"alias": alias, "source": source}


def _keep(planned: PlannedBlock, catalogue: Catalogue) -> Json:
    """Columns that are needed of each alias; empty when these are all there are."""
    keep = {input_.alias: list(planned.keep.get(input_.alias, ())) for input_ in planned.block.inputs}
    whole = (
        input_.source in catalogue.sources
        and len(keep[input_.alias]) == len(catalogue.sources[input_.source].columns or ())
        for input_ in planned.block.inputs
    )
    return {} if all(whole) else keep


def _top(block: Block) -> Json:
    match block.top:
        case Aggregation() as top:
            return {"aggregate": _aggregate(top, block)}
        case Derivation() as top:
            return {"derive": _derive(top)}
        case _:
            return {}


def _aggregate(top: Aggregation, block: Block) -> Json:
    return {
        "group_by": [_group_key(key.expr, block) for key in top.keys],
        "functions": [aggregate_text(call) for call in top.calls],
        "window": None if top.window is None else _window(top.window),
        "having": None if top.having is None else _write_expression(top.having),
    }


def _group_key(expr: Expr, block: Block) -> list[str]:
    """[alias, column]; an expression stands in place of the column."""
    name = expr.name if isinstance(expr, Column) else _write_expression(expr)
    aliases = [input_.alias for input_ in block.inputs if name.startswith(f"{input_.alias}.")]
    if not isinstance(expr, Column) or not aliases:
        return ["", name]
    alias = max(aliases, key=len)
    return [alias, name.removeprefix(f"{alias}.")]


def _write_expression(expr: Expr) -> str:
    return predicate_text(expr, unqualified=False)


def _window(window: Window) -> Json:
    return {
        "type": "tumbling" if window.slide_ms == window.size_ms else "hopping",
        "size_s": window.size_ms / 1000,
        "slide_s": window.slide_ms / 1000,
        "offset_s": window.offset_ms / 1000,
        "column": _write_expression(window.time),
    }


def _derive(top: Derivation) -> Json:
    if top.recomputed is not None:
        return {"kind": FULL, "args": {"sql": top.recomputed.sql}}
    args: Json = {}
    if top.columns:
        args["columns"] = [[_write_expression(output.expr) for output in outputs] for outputs in top.columns]
    if top.unfold is not None:
        args["unfold"] = list(top.unfold.columns)
        args |= {"place": top.unfold.place, "outer": top.unfold.outer}
    if top.stamp is not None:
        args |= {"stamp": top.stamp.time, "from_beginning": top.stamp.from_beginning}
    if top.on is not None:
        args["on"] = _write_expression(top.on)
    if top.limit is not None:
        args |= {"limit": top.limit, "offset": top.offset, "ranking": top.ranking.value}
    if top.limit is not None or top.calls:
        args["partition"] = [_write_expression(expr) for expr in top.partition]
        args["order"] = [_write_expression(entry.expr) + (" DESC" if entry.descending else "") for entry in top.order]
    if top.session is not None:
        args["partition"] = [_write_expression(expr) for expr in top.partition]
        args |= {"time": _write_expression(top.session.time), "gap_s": top.session.gap_ms / 1000}
    if top.calls:
        args["calls"] = [write_window_call(call, _write_expression) for call in top.calls]
    return {"kind": top.kind.value, "args": args}


def _write_refused_views(plan: Plan) -> list[Json]:
    """Views that nobody can plan with: those that are recomputed have a block."""
    planned = {entry.block.id for entry in plan.blocks}
    return [
        {
            "id": view.name,
            "sources": list(view.reads),
            "classes": [],
            "filters": [],
            "keep": {},
            "unsupported": view.query.operator if isinstance(view.query, Refusal) else TEMPLATE,
        }
        for view in plan.catalogue.views.values()
        if view.name not in planned and view.name not in _find_untaken(plan.catalogue)
    ]


# What was decided


def _write_contract(plan: Plan, contract: ContractPlan) -> Json:
    found: Json = {
        "id": contract.contract,
        "view": name_of_view(contract.view),
        "site": contract.site,
        "staleness": contract.freshness_s,
        "penalty": contract.penalty,
        "rule": contract.rule.value,
        "vertex": contract.vertex,
        "batch_s": contract.batch_s,
        "critical_path_s": contract.critical_path_s,
        "critical_path": list(contract.critical_path),
        "lambda": contract.rate,
        "mu": contract.capacity,
        "p_late": contract.p_late,
        "cost": contract.cost,
        "exact": contract.exact,
    }
    if found["view"] != contract.view:
        found["block"] = contract.view  # another version of the view runs beside it
    return {**found, "forced": True} if plan.catalogue.contracts[contract.contract].forced else found


def _vertex(plan: Plan, vertex: Vertex) -> Json:
    figures = plan.vertex_figures[vertex.id]
    is_view = not vertex.base and any(contract.vertex == vertex.id for contract in plan.contracts)
    scope, delta_of = _scope(plan, vertex)
    found: Json = {
        "id": vertex.id,
        "kind": "view" if is_view else vertex.kind.value,
        "site": vertex.site,
        "scope": list(scope),
        "delta_of": None if delta_of is None else list(delta_of),
        "base": vertex.base,
        "fp": vertex.fingerprint,
        "rate": figures.rate if vertex.kind is VertexKind.DELTA else 0.0,
        "width": vertex.width,
        "rows": vertex.rows,
        "arrival_s": figures.arrival_s,
        "serves": list(figures.serves),
    }
    served = [contract for contract in plan.contracts if contract.contract in figures.serves]
    batches = {contract.contract: contract.batch_s for contract in served}
    if vertex.rate.grouped and len(set(batches.values())) > 1:
        found["rates"] = {name: vertex.rate.at(batch_s) for name, batch_s in batches.items()}
    return found


def _scope(plan: Plan, vertex: Vertex) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """What a vertex joins, and whose changes it has. The output of a block is a source where other blocks read it; else
    it is described by what the block reads."""
    read = {name for planned in plan.blocks for name in planned.reads.values()}
    if vertex.stands_for is None or vertex.stands_for in read or vertex.scope != (vertex.stands_for,):
        return vertex.scope, vertex.delta_of
    planned = next(planned for planned in plan.blocks if planned.block.id == vertex.stands_for)
    single = len(planned.reads) == 1
    scope = tuple(sorted(planned.reads.values() if single else planned.reads))
    return scope, None if vertex.delta_of is None else scope


def _edge(plan: Plan, number: int, edge: Edge) -> Json:
    figures = plan.edge_figures[edge.output]
    found: Json = {
        "id": f"e{number}",
        "op": edge.op.value,
        "in": list(edge.inputs),
        "out": edge.output,
        "select": _select(plan, edge),
        "project": [list(column) for column in edge.project],
        "tuples_per_s": figures.rows_per_s,
        "time_s": figures.time_s,
        "serves": list(figures.serves),
    }
    if edge.op is Operator.COPY:
        found["bytes_per_s"] = figures.bytes_per_s
    if edge.op is Operator.JOIN:
        found["on"] = [[list(end) for end in pair] for pair in edge.on]
    if edge.residual:
        found["residual"] = [[list(residual.aliases), residual.text] for residual in edge.residual]
    return found | _operator(plan, edge)


def _select(plan: Plan, edge: Edge) -> Mapping[str, str]:
    """Filters by alias; by source on edges that read one source only, because all its aliases share them."""
    scope = plan.graph.vertices[edge.output].scope
    if edge.op in (Operator.COPY, Operator.APPLY) and len(scope) == 1:
        return {scope[0]: " AND ".join(entry.text for entry in edge.select)} if edge.select else {}
    aliases = dict.fromkeys(entry.alias for entry in edge.select)
    return {alias: " AND ".join(e.text for e in edge.select if e.alias == alias) for alias in aliases}


def _operator(plan: Plan, edge: Edge) -> Json:
    blocks = {planned.block.id: planned.block for planned in plan.blocks}
    if edge.grouping is not None:
        assert edge.block is not None
        aggregate = _aggregate(edge.grouping.aggregation, blocks[edge.block])
        return {"aggregate": aggregate | {"stage": edge.grouping.stage.value}}
    if edge.derivation is not None:
        return {"derive": _derive(edge.derivation)}
    return {}


def _write_feed(plan: Plan, feed: FeedPlan) -> Json:
    """The family of a feed's pairs as one vertex. `totals` are those of its views; its store comes on top."""
    declared, now = plan.catalogue.feeds[feed.feed], feed.statistics
    return {
        "id": feed.feed,
        "vertex": feed.vertex,
        "site": feed.site,
        "staleness": declared.freshness_s,
        "kept": feed.reason is None,
        "reason": feed.reason,
        "detail": feed.detail or None,
        "contracts": list(feed.contracts),
        "pairs": now.pairs,
        "consumers": now.consumers,
        "producers": now.producers,
        "events_s": now.events_s,
        "reads_s": now.reads_s,
        "stored_ahead": feed.ahead * now.pairs,
        "entries_s": feed.entries_s,
        "pulls_per_read": feed.pulls,
        "page_s": feed.page_s,
        "latency": dict(declared.latency),
        "prices": asdict(feed.prices),
        "store": {
            "kind": declared.store,
            "ours": declared.address is None,
            "cpu": feed.store_cpu,
            "disk": feed.store_bytes,
        },
        "load": {
            "cpu": dict(feed.cpu),
            "link": {">".join(ends): rate for ends, rate in feed.link.items()},
            "disk": dict(feed.disk),
        },
    }


def _rejection(rejection: Rejection) -> Json:
    return {
        "contract": rejection.contract,
        "reason": rejection.reason,
        "detail": rejection.detail,
        "fastest_cp_s": rejection.fastest_cp_s,
        "smallest_staleness": rejection.smallest_staleness_s,
    }
