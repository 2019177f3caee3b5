"""Contracts planned once more, when the others are there: what came first could not know what came later.

    alone      a contract is taken out and planned on top of all others
    together   contracts that share a sub-join which is nobody's view: none of them can leave it alone
    widened    contracts that make the same sub-join with different columns: all with the columns of all
    nested     contracts that make one sub-join under filters that contain one another: the widest first, with the
               columns that the others filter by

Every move is kept only if the score of everything falls and every contract is still kept. Of ten random orders of
arrival the dearest plan was 11 % above the best one, and is 2 % above it after one pass (bench/sharing.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import permutations

from headrace.model.block import ColumnId
from headrace.model.catalogue import Contract
from headrace.model.plan import Operator
from headrace.plan.figures import score
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.forms import coarser_forms, present_form
from headrace.plan.share.order import Cores, small_first
from headrace.plan.share.subject import Offers, Subject, Subjects
from headrace.plan.share.subsume import all_filters, find_tested_columns, missing_filters
from headrace.plan.share.ways import place_either_way
from headrace.plan.share.widen import wide_variants

NEGLIGIBLE = 1e-6
"""Share of all costs below which a saving is none."""


def replan(now: Arrangement, cores: Cores) -> Arrangement:
    """One pass of all moves. Contracts that are refused stay so."""
    for contract in small_first(now, [kept.contract for kept in now.kept], cores):
        may_gain = _has_more_than_needed(now, contract.name) or _has_coarser_form(now, contract, cores)
        if may_gain or contract.ways:
            now = _cheaper(now, _move_contracts(now, (contract.name,), cores))
    for names, columns in list(_same_at_different_widths(now)):
        now = _cheaper(now, _move_contracts(now, names, cores, columns))
    for first, names, columns in list(_find_nested(now)):
        now = _cheaper(now, _move_contracts(now, names, cores, columns, first))
    for names in list(_together(now)):
        now = _cheaper(now, _move_contracts(now, names, cores))
    return now


def _move_contracts(
    now: Arrangement,
    names: Collection[str],
    cores: Cores,
    wide: Offers | None = None,
    first: Collection[str] = (),
) -> Arrangement:
    """Some contracts taken out and planned again, those that are to be `first` before others and small ones before
    large; with some sub-joins at a given width.
    """
    contracts = [kept.contract for kept in now.kept if kept.contract.name in names]
    for contract in contracts:
        now = now.without(contract.name)
    for contract in sorted(small_first(now, contracts, cores), key=lambda contract: contract.name not in first):
        now = place_either_way(now, contract, _widen_cores(cores, wide) if wide else cores)
    return now


def _widen_cores(cores: Cores, wide: Offers) -> Cores:
    return {view: next(wide_variants(mine, wide), mine) for view, mine in cores.items()}


def _cheaper(now: Arrangement, then: Arrangement) -> Arrangement:
    return then if len(then.kept) == len(now.kept) and score(then) < score(now) * (1 - NEGLIGIBLE) else now


def _has_more_than_needed(now: Arrangement, contract: str) -> bool:
    """Whether something besides the view and the changes that arrive for it serves one contract alone."""
    alone = {name for name, promises in now.live.served.items() if {p.contract for p in promises} == {contract}}
    view = next(kept.vertex for kept in now.kept if kept.contract.name == contract)
    last = now.graph.edges.get(view)
    return not alone <= {view, *(() if last is None else last.inputs)}


def _has_coarser_form(now: Arrangement, contract: Contract, cores: Cores) -> bool:
    mine = now.without(contract.name)
    is_only = present_form(mine, contract.view, cores[contract.view]) is None
    return is_only and any(True for _ in coarser_forms(mine, contract.view, cores[contract.view]))


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


def _find_made(now: Arrangement, *ops: Operator) -> dict[Subject, dict[str, frozenset[ColumnId]]]:
    """What some operators make: by subject, the vertices with their columns."""
    subjects, made = Subjects(now.graph, now.blocks), dict[Subject, dict[str, frozenset[ColumnId]]]()
    for name, edge in now.graph.edges.items():
        vertex = now.graph.vertices[name]
        subject = subjects.of(vertex) if edge.op in ops else None
        if subject is not None:
            made.setdefault(subject, {})[name] = frozenset(vertex.columns)
    return made


def _find_nested(now: Arrangement) -> Iterator[tuple[frozenset[str], frozenset[str], Offers]]:
    """Contracts of a wider subject and of a narrower one, which are those of the wider, and all columns that are needed
    to make the narrower from it.
    """
    filters, made = all_filters(now), _find_made(now, Operator.JOIN, Operator.COPY) if all_filters(now) else {}
    for wide, narrow in permutations(made, 2):
        missing = missing_filters(narrow, wide, filters)
        vertex = now.graph.vertices[min(made[narrow])]
        tested = frozenset(find_tested_columns(vertex, (filters[one] for one in missing)))
        columns = frozenset().union(tested, *made[wide].values(), *made[narrow].values())
        if missing and columns not in made[wide].values():
            first, others = (_find_served(now, made[one]) for one in (wide, narrow))
            yield first, first | others, {wide: (columns,)}


def _find_served(now: Arrangement, vertices: Iterable[str]) -> frozenset[str]:
    return frozenset(promise.contract for name in vertices for promise in now.live.served[name])


def _same_at_different_widths(now: Arrangement) -> Iterator[tuple[frozenset[str], Offers]]:
    """Contracts that make one sub-join with different columns, and all these columns."""
    for subject, columns_of in _find_made(now, Operator.JOIN).items():
        if len(set(columns_of.values())) > 1:
            yield _find_served(now, columns_of), {subject: (frozenset().union(*columns_of.values()),)}
