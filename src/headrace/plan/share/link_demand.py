"""What a plan asks of links, in the bytes that rows really take there: plans count rows by the widths of their columns,
and what is sent is compressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.model.catalogue import SLOWEST_LINK
from headrace.model.plan import Operator
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.revalue import SLOWEST, Measured

Ends = tuple[str, str]
"""(from, to)"""

TELLING = 0.1
"""Share of a link from which on rows that pass tell how large they are there."""


def find_sent_shares(now: Arrangement, row_bytes: Mapping[str, float]) -> dict[Ends | None, float]:
    """Bytes that are sent for each byte that is planned, by link; under None that of all links together, for those
    over which nothing was sent yet. `row_bytes` are those of a row of each vertex that was copied.
    """
    planned, sent = dict[Ends | None, float](), dict[Ends | None, float]()
    for name, edge in now.graph.edges.items():
        if edge.op is not Operator.COPY or not row_bytes.get(name):
            continue
        vertex = now.graph.vertices[name]
        rows_s = vertex.rate.at(1.0)
        for key in ((now.graph.vertices[edge.inputs[0]].site, vertex.site), None):
            planned[key] = planned.get(key, 0.0) + rows_s * vertex.width
            sent[key] = sent.get(key, 0.0) + rows_s * row_bytes[name]
    return {key: sent[key] / size for key, size in planned.items() if size > 0.0 and sent[key] > 0.0}


def remember_shares(
    before: Mapping[Ends, float], now: Arrangement, row_bytes: Mapping[str, float], carried: Mapping[Ends, float]
) -> dict[Ends, float]:
    """Bytes that are sent for each byte that is planned, by link, as far as rows tell that take some of the link.

    What is left of a link that contracts have left says nothing about the rows that they would bring back.
    """
    shares, traffic = find_sent_shares(now, row_bytes), now.live.bill.link
    found = dict(before)
    for ends, bytes_s in carried.items():
        sent = traffic.get(ends, 0.0) * shares.get(ends, 0.0)
        if ends in shares and (sent >= TELLING * bytes_s or ends not in before):
            found[ends] = shares[ends]
    return found


def value_links(
    now: Arrangement, measured: Measured, carried: Mapping[Ends, float], remembered: Mapping[Ends, float]
) -> Measured:
    """Measurements with what links carry and how full the plan makes them. `carried` is in bytes/s as they are sent,
    `remembered` what was sent for each byte that was planned.

    Demand is what the plan sends at the rates that were measured, not what arrives: of a link that is full, no more
    arrives than it carries.
    """
    shares = find_sent_shares(now, measured.row_bytes)
    usual, traffic = shares.get(None, 1.0), now.live.bill.link
    limits = {(link.src, link.dst): link.limit for link in now.catalogue.links if link.limit is not None}
    capacity, load = dict[Ends, float](), dict(measured.load)
    for ends, bytes_s in carried.items():
        # Over one that is cut nothing comes at all. A limit is one of bytes that are sent, as `bytes_s` is.
        carries = max(SLOWEST_LINK, min(bytes_s, limits.get(ends, bytes_s)))
        capacity[ends] = max(SLOWEST_LINK, carries / remembered.get(ends, shares.get(ends, usual)))
        load[ends] = min(SLOWEST, traffic.get(ends, 0.0) * shares.get(ends, usual) / carries)
    return replace(measured, capacity=capacity, load=load)
