"""Contracts planned once more, when the others are there: what came first could not know what came later.

    alone      a contract is taken out and planned on top of all others
    together   contracts that share a sub-join which is nobody's view: none of them can leave it alone
    widened    contracts that make the same sub-join with different columns: all with the columns of all

Every move is kept only if everything together costs less and every contract is still kept. Of ten random orders of
arrival the dearest plan was 11 % above the best one, and is 2 % above it after one pass (bench/sharing.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headrace.model.block import ColumnId
from headrace.model.plan import Operator
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.order import Cores, small_first
from headrace.plan.share.place import place
from headrace.plan.share.subject import Offers, Subject, Subjects
from headrace.plan.share.widen import wide_variants

NEGLIGIBLE = 1e-6
"""Share of all costs below which a saving is none."""


def replan(now: Arrangement, cores: Cores) -> Arrangement:
    """One pass of all moves. Contracts that are refused stay so."""
    for contract in small_first(now, [kept.contract for kept in now.kept], cores):
        if _has_more_than_needed(now, contract.name):
            now = _cheaper(now, _moved(now, (contract.name,), cores))
    for names, columns in list(_same_at_different_widths(now)):
        now = _cheaper(now, _moved(now, names, cores, columns))
    for names in list(_together(now)):
        now = _cheaper(now, _moved(now, names, cores))
    return now


def _moved(now: Arrangement, names: Collection[str], cores: Cores, wide: Offers | None = None) -> Arrangement:
    """Some contracts taken out and planned anew, small ones first; with some sub-joins at a given width."""
    contracts = [kept.contract for kept in now.kept if kept.contract.name in names]
    for contract in contracts:
        now = now.without(contract.name)
    for contract in small_first(now, contracts, cores):
        mine = cores[contract.view]
        now = place(now, contract, next(wide_variants(mine, wide), mine) if wide else mine)
    return now


def _cheaper(now: Arrangement, then: Arrangement) -> Arrangement:
    least = now.live.bill.rescost * (1 - NEGLIGIBLE)
    return then if len(then.kept) == len(now.kept) and then.live.bill.rescost < least else now


def _has_more_than_needed(now: Arrangement, contract: str) -> bool:
    """Whether something besides the view and the changes that arrive for it serves one contract alone."""
    alone = {name for name, promises in now.live.served.items() if {p.contract for p in promises} == {contract}}
    view = next(kept.vertex for kept in now.kept if kept.contract.name == contract)
    last = now.graph.edges.get(view)
    return not alone <= {view, *(() if last is None else last.inputs)}


def _together(now: Arrangement) -> Iterator[frozenset[str]]:
    """Groups of contracts that share a sub-join which none of them asked for; small groups first."""
    graph = now.graph
    views = {graph.vertices[kept.vertex].fingerprint for kept in now.kept}
    groups = {
        frozenset(promise.contract for promise in now.live.served[name])
        for name, edge in graph.edges.items()
        if edge.op is Operator.UNION and graph.vertices[name].fingerprint not in views
    }
    yield from sorted((group for group in groups if len(group) > 1), key=lambda group: (len(group), sorted(group)))


def _same_at_different_widths(now: Arrangement) -> Iterator[tuple[frozenset[str], Offers]]:
    """Contracts that make one sub-join with different columns, and all these columns."""
    subjects, made = Subjects(now.graph, now.blocks), dict[Subject, dict[str, frozenset[ColumnId]]]()
    for name, edge in now.graph.edges.items():
        vertex = now.graph.vertices[name]
        subject = subjects.of(vertex) if edge.op is Operator.JOIN else None
        if subject is not None:
            made.setdefault(subject, {})[name] = frozenset(vertex.columns)
    for subject, columns_of in made.items():
        if len(set(columns_of.values())) > 1:
            names = frozenset(promise.contract for name in columns_of for promise in now.live.served[name])
            yield names, {subject: (frozenset().union(*columns_of.values()),)}
