"""Derives what each vertex of a plan document means from the edges alone, and whether contracts get what they ask for.

The document's own statements about a vertex are used only to tell which alias a source stands for in a join, and which
of several blocks that differ in nothing but columns is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter

from headrace.plan.check.form import EdgeForm, PlanForm, ReadForm, VertexForm, ViewForm
from headrace.plan.check.meaning import (
    Meaning,
    close_equalities,
    narrow_filters,
    output_of,
    same_aggregate,
    same_dataset,
    static_names,
)
from headrace.plan.check.structure import Problem


@dataclass
class Meanings:
    """Derives the meaning of every vertex; `problems` collects what has none."""

    document: PlanForm
    problems: list[Problem] = field(default_factory=list)
    of: dict[str, Meaning] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.vertices = {vertex.id: vertex for vertex in self.document.vertices}
        self.views = {view.id: view for view in self.document.views}
        self.static = static_names(self.document)
        self._aliases = {(read.alias, read.source) for view in self.document.views for read in view.sources}
        self.producer = {edge.out: edge for edge in self.document.edges}

    def derive(self) -> None:
        order = TopologicalSorter({edge.out: edge.inputs for edge in self.document.edges}).static_order()
        for name in (*order, *self.vertices):
            if name not in self.of:
                edge = self.producer.get(name)
                self.of[name] = self._source(self.vertices[name]) if edge is None else self._make_meaning(edge)
        self._check_logs()

    def _problem(self, edge: EdgeForm, what: str) -> None:
        self.problems.append((f"edges/{edge.id}", what))

    def _source(self, vertex: VertexForm) -> Meaning:
        homes = {source.id: source.site for source in self.document.catalogue.sources}
        if len(vertex.scope) != 1 or homes.get(vertex.scope[0]) != vertex.site:
            self.problems.append((f"vertices/{vertex.id}", "is not a source at its own site"))
        return Meaning(frozenset(vertex.scope), dict.fromkeys(vertex.scope, 1))

    def _make_meaning(self, edge: EdgeForm) -> Meaning:
        inputs = [self.of[name] for name in edge.inputs]
        match edge.op:
            case "capture":
                return inputs[0]
            case "copy":
                return inputs[0].with_select(edge.select)
            case "apply":
                self._check_complete(edge, inputs[0])
                return inputs[0].with_select(edge.select)
            case "union":
                return self._unite(edge, inputs)
            case "join":
                return self._join(edge)
            case "aggregate":
                return self._aggregate(edge, inputs[0])
            case "derive":
                return self._derive(edge)

    def _check_complete(self, edge: EdgeForm, meaning: Meaning) -> None:
        """Everyone's changes exactly once; those that never change may be missing."""
        for name in sorted(meaning.scope | set(meaning.terms)):
            count = meaning.terms.get(name, 0)
            if count > 1 or (count == 0 and name not in self.static):
                self._problem(edge, f'{edge.op} gets the changes of "{name}" {count} times')
        if meaning.partial is not None and edge.op == "apply":
            self._problem(edge, "apply gets partial aggregates")

    def _unite(self, edge: EdgeForm, inputs: list[Meaning]) -> Meaning:
        first = inputs[0].with_select(edge.select)
        terms: Counter[str] = Counter()
        for meaning in inputs:
            terms.update(meaning.terms)
            if meaning.scope != first.scope:
                self._problem(edge, "unites changes of different joins")
            elif meaning.filters != inputs[0].filters:
                self._problem(edge, "unites changes that are filtered differently")
            elif meaning.equalities != first.equalities:
                self._problem(edge, "unites changes of joins with different conditions")
            elif (meaning.block, meaning.partial) != (first.block, first.partial):
                self._problem(edge, "unites different aggregates")
        for name, count in sorted(terms.items()):
            if count > 1:
                self._problem(edge, f'has the changes of "{name}" {count} times')
        return replace(first, terms=dict(terms))

    # Joins

    def _join(self, edge: EdgeForm) -> Meaning:
        relation, delta = sorted((self.vertices[name] for name in edge.inputs), key=lambda v: v.kind == "delta")
        out = self.vertices[edge.out]
        state, changes = self._with_aliases(edge, self.of[relation.id], self.of[delta.id], out)
        if state.scope & changes.scope:
            self._problem(edge, f"joins {', '.join(sorted(state.scope & changes.scope))} with itself")
        filters = narrow_filters(state.filters | changes.filters, edge.select)
        for first, second in edge.on:
            ends = {first[0], second[0]}
            if len(ends) != 2 or len(ends & state.scope) != 1 or len(ends & changes.scope) != 1:
                self._problem(edge, f"condition {first} = {second} is not between its two inputs")
        equalities = close_equalities((*state.equalities, *changes.equalities, *(frozenset(pair) for pair in edge.on)))
        return Meaning(state.scope | changes.scope, changes.terms, filters, equalities)

    def _with_aliases(
        self, edge: EdgeForm, state: Meaning, changes: Meaning, out: VertexForm
    ) -> tuple[Meaning, Meaning]:
        """A source in a join goes by an alias: the one that the output has and the other input has not."""
        aliases, changed = set(out.scope), (out.delta_of or ())[:1] if len(out.delta_of or ()) == 1 else ()
        if changes.is_single:
            changes = self._only_alias(changes, changed or aliases - state.scope)
        if state.is_single:
            state = self._only_alias(state, aliases - changes.scope)
        if state.scope | changes.scope != aliases:
            self._problem(
                edge, f"output joins {', '.join(sorted(state.scope | changes.scope))}, not what its scope says"
            )
        return state, changes

    def _only_alias(self, meaning: Meaning, candidates: Iterable[str]) -> Meaning:
        found = [alias for alias in sorted(candidates) if self._may_be(meaning, alias)]
        return meaning.under(found[0]) if len(found) == 1 else meaning

    def _may_be(self, meaning: Meaning, alias: str) -> bool:
        (name,) = meaning.scope
        return alias == name or (alias, name) in self._aliases

    # Operators on top

    def _block(self, edge: EdgeForm, candidates: Iterable[ViewForm]) -> ViewForm | None:
        """Chooses, of blocks that differ only in columns, the one that the output's scope names, or that its contracts
        read.
        """
        out, found = self.vertices[edge.out], list(candidates)
        wanted = {*out.scope, *(c.block_id for c in self.document.contracts if c.id in out.serves)}
        return next((view for view in found if view.id in wanted), found[0] if found else None)

    def _aggregate(self, edge: EdgeForm, meaning: Meaning) -> Meaning:
        wanted = dict(edge.aggregate or {})
        stage = wanted.pop("stage", "full")
        meaning = meaning.with_select(edge.select)
        alike = [view for view in self.views.values() if same_aggregate(view.aggregate, wanted)]
        if stage == "merge":
            block = self._block(edge, (view for view in alike if self._partial_of(view, meaning)))
        else:
            block = self._block(edge, (view for view in alike if self._is_core(meaning, view, stage == "full")))
        if block is None:
            self._problem(edge, "is the aggregate of no view over these sources, filters and conditions")
            return replace(meaning, partial="?")
        if stage == "partial":
            return replace(self._under_view(meaning, block), partial=block.id)
        self._check_complete(edge, meaning)
        return output_of(block.id)

    def _partial_of(self, view: ViewForm, meaning: Meaning) -> bool:
        return meaning.partial == view.id or (meaning.partial is not None and self._same_block(meaning.partial, view))

    def _is_core(self, meaning: Meaning, view: ViewForm, complete: bool = True) -> bool:
        """Whether a meaning is the whole join of a view: sources, filters, conditions."""
        return not self._missing(self._under_view(meaning, view), view, complete)

    def _under_view(self, meaning: Meaning, view: ViewForm) -> Meaning:
        """A single source by the alias that the view gives it."""
        if meaning.is_single and len(view.sources) == 1 and self._may_be(meaning, view.sources[0].alias):
            return meaning.under(view.sources[0].alias)
        return meaning

    def _missing(self, meaning: Meaning, view: ViewForm, complete: bool = True) -> list[str]:
        """What a meaning lacks, or has too much, to be the join of a view."""
        found = []
        aliases = {read.alias for read in view.sources}
        if meaning.scope != aliases or (meaning.block is not None and len(aliases) > 1):
            found.append(f"joins {', '.join(sorted(meaning.scope))} instead of {', '.join(sorted(aliases))}")
        filters = {(alias, text) for alias, text, _ in view.filters}
        for alias, text in sorted(filters - meaning.filters):
            found.append(f'lacks the filter "{text}" of "{alias}"')
        for alias, text in sorted(meaning.filters - filters):
            found.append(f'has a filter "{text}" of "{alias}" that the view does not have')
        equal = close_equalities(frozenset(class_) for class_ in view.classes if len(class_) > 1)
        if not found and close_equalities((*meaning.equalities, *equal)) != meaning.equalities:
            found.append("lacks a join condition")
        elif not found and not all(any(one <= class_ for class_ in equal) for one in meaning.equalities):
            found.append("has a join condition that the view does not have")
        missing = [
            a for a in aliases if meaning.terms.get(a, 0) != 1 and not (a in self.static and not meaning.terms.get(a))
        ]
        if complete and missing:
            found.append(f"does not have each change of {', '.join(sorted(missing))} exactly once")
        return found

    def _derive(self, edge: EdgeForm) -> Meaning:
        deltas = [name for name in edge.inputs if self.vertices[name].kind == "delta"]
        relations = [name for name in edge.inputs if self.vertices[name].kind != "delta"]
        alike = (view for view in self.views.values() if view.derive == edge.derive)
        block = self._block(edge, (view for view in alike if self._reads(view, deltas, edge)))
        if block is None:
            self._problem(edge, "is the operator of no view over these inputs")
            return output_of("?")
        kind = (edge.derive or {}).get("kind")
        if kind not in ("union_all", "window") and not self._have_relations(deltas, relations):
            self._problem(edge, f"{kind} needs the relation of each of its inputs")
        return output_of(block.id)

    def _reads(self, view: ViewForm, deltas: list[str], edge: EdgeForm) -> bool:
        """Whether deltas are exactly what a view reads: each input whole and filtered, or all of them joined."""
        if len(deltas) == 1 and self._is_core(self.of[deltas[0]].with_select(edge.select), view):
            return True
        left = list(deltas)
        for read in view.sources:
            match = next((name for name in left if self._is_input(self.of[name], read, view, edge)), None)
            if match is None:
                return False
            left.remove(match)
        return not left

    def _is_input(self, meaning: Meaning, read: ReadForm, view: ViewForm, edge: EdgeForm) -> bool:
        """Whether a delta is what a view reads under an alias, complete and filtered."""
        inner = self.views.get(read.source)
        if inner is not None and inner.aggregate is None and inner.derive is None:
            pending = edge.select.get(read.alias) if meaning.is_single else None
            here = {} if pending is None else dict.fromkeys(meaning.scope, pending)
            return self._is_core(meaning.with_select(here), inner)
        if meaning.scope != {read.source} or any(count != 1 for count in meaning.terms.values()):
            return False
        here = {read.source: edge.select[read.alias]} if read.alias in edge.select else {}
        texts = {text for _, text in narrow_filters(meaning.filters, here)}
        return texts == {text for alias, text, _ in view.filters if alias == read.alias}

    def _have_relations(self, deltas: list[str], relations: list[str]) -> bool:
        return all(any(same_dataset(self.of[delta], self.of[name]) for name in relations) for delta in deltas)

    # Relations and contracts

    def _check_logs(self) -> None:
        """A joined relation is read as of earlier times, so its changes must be logged at the same site."""
        logs = {
            (name, vertex.site) for vertex in self.document.vertices if vertex.kind == "delta" for name in vertex.scope
        }
        for edge in self.document.edges:
            for name in edge.inputs if edge.op == "join" else ():
                vertex = self.vertices[name]
                if vertex.kind == "delta" or not vertex.base or vertex.scope[0] in self.static:
                    continue
                if (vertex.scope[0], vertex.site) not in logs:
                    self._problem(edge, f"joins {name}, whose changes are not logged at {vertex.site}")

    def check_contracts(self) -> Iterator[Problem]:
        for contract in self.document.contracts:
            where, vertex = f"contracts/{contract.id}", self.vertices[contract.vertex]
            view, meaning = self.views[contract.block_id], self.of[contract.vertex]
            if vertex.site != contract.site:
                yield where, f"is read at {vertex.site} instead of {contract.site}"
            if vertex.kind == "delta":
                yield where, "is read from a delta"
            if view.aggregate is None and view.derive is None:
                for what in self._missing(self._under_view(meaning, view), view):
                    yield where, what
            elif meaning.block is None or not self._same_block(meaning.block, view):
                yield where, f'is read from a vertex that is not the output of view "{view.id}"'

    def _same_block(self, name: str, view: ViewForm) -> bool:
        """Two views that ask for the same are one."""
        other = self.views.get(name)
        fields = ("sources", "classes", "filters", "keep", "residual", "aggregate", "derive")
        return other is not None and all(getattr(other, field_) == getattr(view, field_) for field_ in fields)
