"""How fast the vertices of a plan document change, how many rows they have, and whom they serve.

Rates and rows of what aggregates and derivations make are trusted; all others follow from the catalogue and from what
the vertices mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache

from headrace.plan.check.derive import Meanings
from headrace.plan.check.form import PlanForm, SourceForm, ViewForm
from headrace.plan.check.meaning import Meaning
from headrace.plan.check.structure import Problem

TOLERANCE = 1e-6
FEWEST_ROWS, MOST_ROWS = 1e-9, 1e30


def differ(said: float, found: float) -> bool:
    return abs(said - found) > max(TOLERANCE * max(abs(said), abs(found)), 1e-12)


class Rates:
    def __init__(self, document: PlanForm, meanings: Meanings) -> None:
        self.document, self.meanings = document, meanings
        self.vertices = {vertex.id: vertex for vertex in document.vertices}
        self.edges = {edge.out: edge for edge in document.edges}
        self.sources = {source.id: source for source in document.catalogue.sources}
        self.contracts = {contract.id: contract for contract in document.contracts}
        self._reads = {read.alias: read.source for view in document.views for read in view.sources}
        self._shares = self._all_shares()
        self.serves = self._all_served()
        self.rate = cache(self._rate)

    def _all_shares(self) -> dict[tuple[str, str], float]:
        """Selectivities by (alias or source, predicate)."""
        found = {}
        for view in self.document.views:
            names = {read.alias: read.source for read in view.sources}
            for alias, text, share in view.filters:
                found[alias, text] = found[names.get(alias, alias), text] = share
        return found

    def _all_served(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in self.vertices}
        for contract in self.document.contracts:
            pending = [contract.vertex]
            while pending:
                name = pending.pop()
                if contract.id not in found[name]:
                    found[name].add(contract.id)
                    pending.extend(self.edges[name].inputs if name in self.edges else ())
        return found

    def problems(self) -> Iterator[Problem]:
        yield from self._check_serves()
        yield from self._check_rates()

    def _check_serves(self) -> Iterator[Problem]:
        for name, vertex in self.vertices.items():
            if set(vertex.serves) != self.serves[name]:
                yield f"vertices/{name}", f"serves {_list(self.serves[name])}, not {_list(vertex.serves)}"
        for edge in self.document.edges:
            if edge.serves is not None and set(edge.serves) != self.serves[edge.out]:
                yield f"edges/{edge.id}", f"serves {_list(self.serves[edge.out])}, not {_list(edge.serves)}"

    # Rates and rows

    def _check_rates(self) -> Iterator[Problem]:
        for name, vertex in self.vertices.items():
            if not self.serves[name]:
                continue
            if vertex.kind == "delta":
                found = self.rate(name, self.eager(name))
                if differ(vertex.rate, found):
                    yield f"vertices/{name}", f"changes {found:.6g} rows/s, not {vertex.rate:.6g}"
                yield from self._check_recomputed(name)
            elif vertex.rate:
                yield f"vertices/{name}", "a relation has no rate"
            else:
                rows = self.rows(name)
                if vertex.rows is None or differ(vertex.rows, rows):
                    yield f"vertices/{name}", f"has {rows:.6g} rows, not {vertex.rows}"

    def _check_recomputed(self, name: str) -> Iterator[Problem]:
        """A view that is recomputed has as many rows where it is made as it is said to have."""
        edge, view = self.edges.get(name), self.meanings.views.get(self.meanings.of[name].block or "")
        if edge is not None and edge.is_recomputed and view is not None:
            said = self.vertices[name].rows
            if said is None or view.rows is None or differ(said, view.rows):
                yield f"vertices/{name}", f'makes {said} rows, and view "{view.id}" has {view.rows}'

    def eager(self, name: str) -> str:
        """The contract with the smallest batch that a vertex serves."""
        return self.eager_of(self.serves[name])

    def eager_of(self, contracts: Iterable[str]) -> str:
        return min(contracts, key=lambda contract: (self.contracts[contract].batch_s, contract))

    def _is_trusted(self, name: str) -> bool:
        meaning = self.meanings.of[name]
        return meaning.partial is not None or (meaning.block is not None and not meaning.filters)

    def _rate(self, name: str, contract: str) -> float:
        """Changed rows per second of a vertex at a contract's batch."""
        vertex, meaning = self.vertices[name], self.meanings.of[name]
        if vertex.kind != "delta":
            return 0.0
        if self._is_trusted(name):
            return vertex.rates.get(contract, vertex.rate)
        if len(meaning.scope) == 1:
            (alias,) = meaning.scope
            return self._source_rate(alias, contract) * self._share(meaning, alias)
        rows = self._card(meaning, name)
        return rows * sum(
            count
            * self._source_rate(alias, contract)
            * self._share(meaning, alias)
            / self._filtered_rows(meaning, alias)
            for alias, count in meaning.terms.items()
            if not self._is_parent(meaning, alias)
        )

    def rows(self, name: str) -> float:
        meaning, vertex = self.meanings.of[name], self.vertices[name]
        if self._is_trusted(name):
            return vertex.rows or 0.0
        if len(meaning.scope) == 1:
            (alias,) = meaning.scope
            return self._source_rows(alias) * self._share(meaning, alias)
        return self._card(meaning, name)

    def source(self, alias: str) -> SourceForm | ViewForm | None:
        name = self._reads.get(alias, alias)
        return self.sources.get(alias) or self.sources.get(name) or self.meanings.views.get(name)

    def _source_rows(self, alias: str) -> float:
        source = self.source(alias)
        return (source.rows or 0.0) if source is not None else 0.0

    def _source_rate(self, alias: str, contract: str) -> float:
        """The rate of a source, or of a block's output as the vertices have it."""
        source = self.source(alias)
        if isinstance(source, SourceForm):
            return 0.0 if source.static else source.rate
        for name, meaning in self.meanings.of.items():
            vertex = self.vertices[name]
            if source is not None and meaning.block == source.id and not meaning.filters and vertex.kind == "delta":
                return vertex.rates.get(contract, vertex.rate)
        return (source.rate or 0.0) if source is not None else 0.0

    def _share(self, meaning: Meaning, alias: str) -> float:
        return math.prod(self._shares.get((name, text), 1.0) for name, text in meaning.filters if name == alias)

    def _filtered_rows(self, meaning: Meaning, alias: str) -> float:
        return max(self._source_rows(alias) * self._share(meaning, alias), FEWEST_ROWS)

    def _card(self, meaning: Meaning, name: str) -> float:
        rows = math.prod(self._filtered_rows(meaning, alias) for alias in meaning.scope)
        for equal in meaning.equalities:
            distinct: dict[str, float] = {}
            for alias, column in equal:
                count = min(self._distinct(alias, column), self._filtered_rows(meaning, alias))
                distinct[alias] = min(count, distinct.get(alias, count))
            for count in sorted(distinct.values())[1:]:
                rows /= max(count, FEWEST_ROWS)
        return min(rows * self._residual_share(meaning, name), MOST_ROWS)

    def _distinct(self, alias: str, column: str) -> float:
        source = self.source(alias)
        if source is None:
            return 1.0
        if column in source.distinct:
            return source.distinct[column]
        rows = source.rows or 0.0
        single_key = isinstance(source, SourceForm) and source.key == (column,)
        return rows if single_key else min(rows, 0.1 * rows + 10)

    def _residual_share(self, meaning: Meaning, name: str) -> float:
        """Predicates over several aliases hold as soon as all of these are joined."""
        for view in self.views_for(name):
            if meaning.scope <= {read.alias for read in view.sources}:
                return math.prod(share for aliases, _, share in view.residual if set(aliases) <= meaning.scope)
        return 1.0

    def views_for(self, name: str) -> Iterator[ViewForm]:
        """The views, with the blocks inside them, of the contracts that a vertex serves."""
        pending = [self.contracts[contract].block_id for contract in sorted(self.serves[name])]
        while pending:
            view = self.meanings.views.get(pending.pop())
            if view is not None:
                yield view
                pending.extend(read.source for read in view.sources)

    def _is_parent(self, meaning: Meaning, alias: str) -> bool:
        """A parent that comes before its children changes no join with them."""
        source = self.source(alias)
        if not isinstance(source, SourceForm) or not source.fk_parent_first:
            return False
        joined = {
            column
            for equal in meaning.equalities
            for other, column in equal
            if other == alias and any(name != alias for name, _ in equal)
        }
        return set(source.key) <= joined if source.key else bool(joined)

    def lost_share(self, meaning: Meaning, earlier: Meaning) -> float:
        """The share of rows that pass the filters applied since; those that they imply have been passed before."""
        since, implied = meaning.filters - earlier.filters, earlier.filters - meaning.filters
        passed = math.prod(self._shares.get(one, 1.0) for one in implied)
        return math.prod(self._shares.get(one, 1.0) for one in since) / passed if passed > 0 else 0.0


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nobody"
