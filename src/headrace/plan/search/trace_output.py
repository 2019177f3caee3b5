"""The operators on top of blocks, as vertices and edges: the rest of the way back from labels to a graph."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.block import Aggregation, BlockFilter, Derivation
from headrace.model.plan import Edge, Grouping, Operator, Stage
from headrace.plan.search.recipes import Aggregated, Derived, MergedAggregate
from headrace.plan.search.tops import derived_from, needs_relations, partial_dataset
from headrace.plan.search.trace import BlockPlan, Trace


def make_output(trace: Trace, plan: BlockPlan, recipe: object) -> str:
    """The delta of a whole block that has an operator on top; the id of its vertex."""
    return OutputTrace(trace, plan).made(recipe)


@dataclass(frozen=True, slots=True)
class OutputTrace:
    """The operator on top of a block."""

    trace: Trace
    plan: BlockPlan

    def made(self, recipe: object) -> str:
        match recipe:
            case Aggregated(delta, site):
                return self._aggregate(delta, site)
            case MergedAggregate():
                return self._merge(recipe)
            case Derived(rows, site):
                return self._derive(rows, site)
        raise AssertionError(f"no way to make the output of a block: {recipe}")

    def _aggregate(self, row: int, site: int) -> str:
        search, everything = self.plan.search, self.plan.search.core.everything
        top = search.core.block.top
        assert isinstance(top, Aggregation)
        raw = self.trace.is_raw(search, everything, row, site)
        return self.trace.make(
            search,
            self.plan.made.delta_at(search.terrain.sites[site], search.terrain.salt),
            lambda: Edge(
                Operator.AGGREGATE,
                (self.trace.delta_at(self.plan, everything, row, site),),
                "",
                block=search.core.block.id,
                select=self.trace.select(search, everything, raw),
                project=self.plan.made.columns,
                grouping=Grouping(top, Stage.FULL),
            ),
        )

    def _merge(self, recipe: MergedAggregate) -> str:
        search, terrain = self.plan.search, self.plan.search.terrain
        left, right, site = recipe.left, recipe.right, terrain.sites[recipe.site]
        top, id_ = search.core.block.top, search.core.block.id
        assert isinstance(top, Aggregation)
        both = partial_dataset(search)

        def union() -> Edge:
            j1 = int(search.sides(left).state[recipe.left_side])
            j2 = int(search.sides(left).site[recipe.left_side])
            relation_a, delta_a, raw_relation_a, raw_a = self.trace.side(self.plan, left, recipe.left_side)
            relation_b, delta_b, raw_relation_b, raw_b = self.trace.side(self.plan, right, recipe.right_side)
            first = self.trace.term(self.plan, (left, right), right, (relation_a, delta_b), (raw_relation_a, raw_b), j1)
            second = self.trace.term(self.plan, (left, right), left, (delta_a, relation_b), (raw_a, raw_relation_b), j2)
            parts = [
                self._partial(first, right, j1, recipe.site),
                self._partial(second, left, j2, recipe.site),
            ]
            return Edge(Operator.UNION, tuple(sorted(parts)), "", block=id_, project=both.columns)

        def merge() -> Edge:
            united = self.trace.make(search, both.delta_at(site, terrain.salt), union)
            return Edge(
                Operator.AGGREGATE,
                (united,),
                "",
                block=id_,
                project=self.plan.made.columns,
                grouping=Grouping(top, Stage.MERGE),
            )

        return self.trace.make(search, self.plan.made.delta_at(site, terrain.salt), merge)

    def _partial(self, term: str, changed: int, source: int, site: int) -> str:
        search = self.plan.search
        top = search.core.block.top
        assert isinstance(top, Aggregation)
        part = partial_dataset(search, search.core.complete(changed))
        vertex = self.trace.make(
            search,
            part.delta_at(search.terrain.sites[source], search.terrain.salt),
            lambda: Edge(
                Operator.AGGREGATE,
                (term,),
                "",
                block=search.core.block.id,
                project=part.columns,
                grouping=Grouping(top, Stage.PARTIAL),
            ),
        )
        return self.trace.bring(search, part, vertex, source, site)

    def _derive(self, rows: tuple[int, ...], site: int) -> str:
        search, core = self.plan.search, self.plan.search.core
        top = core.block.top
        assert isinstance(top, Derivation)
        subsets = derived_from(search)

        def edge() -> Edge:
            inputs: list[str] = []
            select: list[BlockFilter] = []
            for subset, row in zip(subsets, rows, strict=True):
                delta = int(search.states(subset).delta[row]) if needs_relations(search) else row
                inputs.append(self.trace.delta_at(self.plan, subset, delta, site))
                if needs_relations(search):
                    inputs.append(self.trace.state(self.plan, subset, delta, site))
                raw = self.trace.is_raw(search, subset, delta, site)
                select.extend(self.trace.select(search, subset, raw))
            return Edge(
                Operator.DERIVE,
                tuple(inputs),
                "",
                block=core.block.id,
                select=tuple(select),
                project=self.plan.made.columns,
                derivation=top,
            )

        return self.trace.make(search, self.plan.made.delta_at(search.terrain.sites[site], search.terrain.salt), edge)
