"""What links carry and what gets through, by a plan: as declared, or as the sites that run it have measured.

bytes of a copy    rows/s of what is copied, times the bytes of one of its rows: by the declared widths of columns
                   and what compression leaves of them, or as measured on their way
on a wire          and headers: of segments, TLS, TCP, IP and Ethernet
new groups         have no earlier row to take back: so many rows fewer are sent of them while a query is young
a full link        is shared fairly by its copies, and nobody's is larger than it wants
a query            gets the share of the copy on its way that gets least
what nobody draws  is not sent: a push asks all its copies for changes up to one time, and the next push begins when the
                   last of them is there. So copies beside a full link carry no more than that one does
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bench.wide_area_links import Ends
from headrace.model.catalogue import Catalogue
from headrace.model.plan import Operator, Plan, PlanOptions, Vertex, VertexKind
from headrace.model.plan_modes import WideArea
from headrace.model.rate import Groups
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.price import upstream_first
from headrace.plan.share.adapt import plan_as_measured
from headrace.plan.share.revalue import Measured
from headrace.plan.wide_area.fluid import max_min_fair
from headrace.site.importing import HEAR_AT_LEAST_EVERY_S, HEAR_EVERY_S, HEAR_WITHIN

COUNTED = frozenset({Operator.AGGREGATE, Operator.DERIVE})
SENT_SHARE = 0.8
"""Bytes sent for each that a plan counts by declared widths."""
ON_THE_WIRE = 1.06
"""Bytes as the kernel counts them for each of a body: 66 of headers for each 1448, and what TLS adds."""
HEARD, ACKNOWLEDGED = 420.0, 0.035
"""Bytes each time that a site hears how far another one is, from which it has copies: of the answer, and on the link
back of the request. And acknowledgements there, for each byte that came.
"""


@dataclass(frozen=True, slots=True)
class Modelled:
    """Bytes/s that arrive by link, those that are wanted, and of each contract the share of its rows that gets
    through.
    """

    sent: Mapping[Ends, float]
    wanted: Mapping[Ends, float]
    shares: Mapping[str, float]


def predict_planned(plan: Plan, rates: Mapping[Ends, float]) -> Modelled:
    """By what is declared. `rates` are what links let through, in bytes/s."""
    return _predict(plan, rates, lambda _, vertex: vertex.width * SENT_SHARE, lambda name: _count_rows(plan, name, {}))


def predict_measured(plan: Plan, measured: Measured, rates: Mapping[Ends, float], age_s: float = math.inf) -> Modelled:
    """By what sites have measured: sizes of results, bytes of rows. Rates of sources are declared: whoever writes them
    keeps to that, and sites have to listen for minutes until they know them as well. `age_s` is for how long rows have
    come: of groups that are new there is no earlier row to send.
    """
    known = replace(measured, rates={}, load={}, capacity={}, slowness={}, down=frozenset())
    found, of_rows = plan_as_measured(plan, known), measured.row_bytes
    return _predict(
        found,
        rates,
        lambda name, vertex: of_rows.get(name, vertex.width) * ON_THE_WIRE,
        lambda name: _count_rows(found, name, measured.selectivities, age_s),
    )


def _count_rows(plan: Plan, name: str, selectivities: Mapping[str, float], age_s: float = math.inf) -> float:
    """Rows/s of a vertex. Groups and first rows are as many as came out for each row that went in, if that was seen."""
    edge, vertex = plan.graph.edges.get(name), plan.graph.vertices[name]
    if edge is not None and edge.op is Operator.COPY:
        made = plan.graph.edges.get(edge.inputs[0])
        if made is not None and made.op in COUNTED:
            return _count_rows(plan, edge.inputs[0], selectivities, age_s)
    if edge is not None and edge.op in COUNTED and name in selectivities:
        changes = (one for one in edge.inputs if plan.graph.vertices[one].kind is VertexKind.DELTA)
        return selectivities[name] * sum(_count_rows(plan, one, selectivities, age_s) for one in changes)
    batch_s = _find_batch(plan)
    new = sum(share * count_new(groups, batch_s, age_s) for share, groups in vertex.rate.grouped)
    return vertex.rate.at(batch_s) - new


def count_new(groups: Groups, batch_s: float, age_s: float) -> float:
    """Groups/s that come about, if rows have come for so long, each of any group with equal chance. A group that is
    touched changes by two rows, one of which a new one has not.
    """
    if math.isinf(age_s):
        return 0.0
    return groups.at(batch_s) / 2 * math.exp(-groups.input.at(batch_s) * age_s / groups.count)


def _find_batch(plan: Plan) -> float:
    """Seconds of changes that a push carries."""
    return min((one.freshness_s for one in plan.catalogue.contracts.values()), default=2.0) / 2


def _predict(
    plan: Plan,
    rates: Mapping[Ends, float],
    bytes_of_row: Callable[[str, Vertex], float],
    count_rows: Callable[[str], float],
) -> Modelled:
    graph, flows = plan.graph, dict[Ends, dict[tuple[str, ...], float]]()
    for name, edge in graph.edges.items():
        if edge.op is Operator.COPY:
            vertex = graph.vertices[name]
            ends = graph.vertices[edge.inputs[0]].site, vertex.site
            flows.setdefault(ends, {})[name,] = count_rows(name) * bytes_of_row(name, vertex)
    achieved = {ends: max_min_fair(wanted, rates[ends]) for ends, wanted in flows.items()}
    through = {
        name: achieved[ends][name,] / size if size > 0.0 else 1.0
        for ends, wanted in flows.items()
        for (name,), size in wanted.items()
    }
    needed = {one.contract: upstream_first(graph, [one.vertex]) for one in plan.contracts}
    shares = {
        contract: min((through.get(name, 1.0) for name in names), default=1.0) for contract, names in needed.items()
    }
    drawn = dict[str, float]()
    for contract, names in needed.items():
        drawn |= {name: max(drawn.get(name, 0.0), shares[contract]) for name in names}
    sent = {
        ends: max_min_fair({(name,): size * drawn.get(name, 0.0) for (name,), size in wanted.items()}, rates[ends])
        for ends, wanted in flows.items()
    }
    return Modelled(
        _add_overhead({ends: sum(found.values()) for ends, found in sent.items()}, rates, HEARD / _find_pause(plan)),
        {ends: sum(wanted.values()) for ends, wanted in flows.items()},
        shares,
    )


def _find_pause(plan: Plan) -> float:
    """Seconds after which a site listens to another one again."""
    return min(HEAR_AT_LEAST_EVERY_S, max(HEAR_EVERY_S, HEAR_WITHIN * 2 * _find_batch(plan)))


def _add_overhead(sent: Mapping[Ends, float], rates: Mapping[Ends, float], heard_bytes_s: float) -> dict[Ends, float]:
    """Bytes/s by link with those of requests and answers; none carries more than it can."""
    found = {ends: bytes_s + heard_bytes_s for ends, bytes_s in sent.items()}
    for (start, end), bytes_s in sent.items():
        found[end, start] = found.get((end, start), 0.0) + heard_bytes_s + ACKNOWLEDGED * bytes_s
    return {ends: min(bytes_s, rates[ends]) for ends, bytes_s in found.items()}


def plan_in_turn(catalogue: Catalogue, mode: WideArea | None) -> Plan:
    """The plan after contracts have come one by one; those that are refused are forced, as the real benchmark does."""
    plan, forced, there = None, set[str](), list[str]()
    for name in catalogue.contracts:
        there.append(name)
        then = _plan_these(catalogue, there, forced, plan, mode)
        refused = {one.contract for one in then.rejected}
        forced |= refused
        plan = _plan_these(catalogue, there, forced, plan, mode) if refused else then
    assert plan is not None, "there are contracts"
    return plan


def _plan_these(
    catalogue: Catalogue, there: list[str], forced: set[str], before: Plan | None, mode: WideArea | None
) -> Plan:
    contracts = {name: replace(catalogue.contracts[name], forced=name in forced) for name in there}
    wanted = replace(catalogue, contracts=contracts)
    return make_plan(wanted, PlanOptions(wide_area=mode)) if before is None else plan_on_running(before, wanted)
