"""From labels back to a graph: the vertices and edges that the chosen plan of a contract needs and that do not live
already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headrace.model.block import BlockFilter
from headrace.model.plan import Edge, Operator, Vertex
from headrace.plan.datasets import Dataset
from headrace.plan.search.joins import Search
from headrace.plan.search.recipes import CapturedDelta, Joined, JoinedOnce, StandingDelta, Supplied
from headrace.plan.search.supply import Deltas


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The plans of one block: its search, what it makes and where, and the plans of the blocks that it reads, by
    their bits.
    """

    search: Search
    made: Dataset
    deltas: Deltas
    inner: Mapping[int, BlockPlan]


@dataclass(slots=True)
class Trace:
    """Collects what is new. A vertex that lives, or was made for another alias, is not made again.

    `make_output` makes what the operator on top of a block makes, by its recipe.
    """

    make_output: Callable[[Trace, BlockPlan, object], str]
    vertices: dict[str, Vertex] = field(default_factory=dict)
    edges: dict[str, Edge] = field(default_factory=dict)

    def output(self, plan: BlockPlan, row: int) -> str:
        """The delta of a whole block, as its row says; the id of its vertex."""
        if plan.search.core.block.top is None:
            return self.delta(plan, plan.search.core.everything, row)
        return self.make_output(self, plan, plan.deltas.recipes[row])

    def view(self, plan: BlockPlan, row: int, site: int) -> str:
        """The relation of a whole block without an operator on top, at the target; the source itself if that is all
        the view is.
        """
        search, everything = plan.search, plan.search.core.everything
        if everything.bit_count() == 1 and search.is_whole(everything) and search.moves(everything).home == site:
            return self._base(search, everything)
        return self.state(plan, everything, row, site, view=True)

    def view_of_output(self, plan: BlockPlan, row: int, site: int) -> str:
        """The relation of a block with an operator on top, at the target: what it makes, copied there and applied."""
        terrain, made = plan.search.terrain, plan.made
        target = terrain.sites[site]

        def apply() -> Edge:
            delta = self.bring(plan.search, made, self.output(plan, row), int(plan.deltas.site[row]), site)
            return Edge(Operator.APPLY, (delta,), "", project=made.columns)

        return self.make(plan.search, made.relation_at(target, terrain.salt), apply)

    # Deltas, states and sides

    def delta(self, plan: BlockPlan, subset: int, row: int) -> str:
        """The complete delta of a sub-join where it is made."""
        search = plan.search
        recipe = search.deltas(subset).recipes[row]
        match recipe:
            case StandingDelta(site):
                return self._vertex(search, search.dataset(subset), site)
            case CapturedDelta(bit):
                return self._capture(search, bit)
            case Supplied(bit, inner_row):
                return self.output(plan.inner[bit], inner_row)
            case Joined():
                return self._join(plan, recipe)
            case JoinedOnce():
                return self._join_once(plan, recipe)
        raise AssertionError(f"no way to make a delta: {recipe}")

    def delta_at(self, plan: BlockPlan, subset: int, row: int, site: int) -> str:
        """The complete delta of a sub-join at a site: made there, or copied from where it is made."""
        search = plan.search
        if search.deltas(subset).site[row] == site:
            return self.delta(plan, subset, row)
        return self._copy(plan, subset, row, site, lambda: self.delta(plan, subset, row), from_made=True)

    def state(self, plan: BlockPlan, subset: int, row: int, site: int, *, view: bool = False) -> str:
        """The relation of a sub-join at a site; a whole source at its home is the source itself, unless it is asked
        for as a view.
        """
        search = plan.search
        made = search.dataset(subset)
        if not view and search.moves(subset).home == site:
            self.delta(plan, subset, row)
            return self._base(search, subset)
        raw = self.is_raw(search, subset, row, site)
        return self.make(
            search,
            made.relation_at(search.terrain.sites[site], search.terrain.salt),
            lambda: Edge(
                Operator.APPLY,
                (self.delta_at(plan, subset, row, site),),
                "",
                block=search.core.block.id if raw else None,
                select=self.select(search, subset, raw),
                project=made.columns,
            ),
        )

    def side(self, plan: BlockPlan, subset: int, row: int) -> tuple[str, str, bool, bool]:
        """The relation and the delta of one side of a join, and whether each is raw."""
        search = plan.search
        table = search.sides(subset)
        delta, state, site = int(table.delta[row]), int(table.state[row]), int(table.site[row])
        source = int(table.source[row])
        relation = self.state(plan, subset, delta, state)
        made_at = int(search.deltas(subset).site[delta])
        if source == site:
            there = self.delta_at(plan, subset, delta, site)
        else:
            there = self._copy(
                plan,
                subset,
                delta,
                site,
                lambda: self.delta_at(plan, subset, delta, source),
                from_made=source == made_at,
            )
        raw_relation = search.moves(subset).home == state and not search.is_whole(subset)
        return relation, there, raw_relation, self.is_raw(search, subset, delta, site)

    def _copy(
        self, plan: BlockPlan, subset: int, row: int, site: int, source: Callable[[], str], *, from_made: bool
    ) -> str:
        search = plan.search
        made = search.dataset(subset)
        raw = from_made and bool(search.deltas(subset).raw[row]) and not search.is_whole(subset)
        return self.make(
            search,
            made.delta_at(search.terrain.sites[site], search.terrain.salt),
            lambda: Edge(
                Operator.COPY,
                (source(),),
                "",
                block=search.core.block.id if raw else None,
                select=self.select(search, subset, raw),
                project=made.columns,
            ),
        )

    # Making vertices

    def make(self, search: Search, vertex: Vertex, edge: Callable[[], Edge]) -> str:
        if vertex.id not in search.terrain.live and vertex.id not in self.vertices:
            self.edges[vertex.id] = replace(edge(), output=vertex.id)
            self.vertices[vertex.id] = vertex
        return vertex.id

    def _vertex(self, search: Search, dataset: Dataset, site: int) -> str:
        return dataset.delta_at(search.terrain.sites[site], search.terrain.salt).id

    def _base(self, search: Search, bit: int) -> str:
        whole, salt = search.supplies[bit].origin, search.terrain.salt
        assert whole.home is not None
        vertex = whole.relation_at(whole.home, salt)
        if vertex.id not in search.terrain.live:
            self.vertices.setdefault(vertex.id, vertex)
        return vertex.id

    def _capture(self, search: Search, bit: int) -> str:
        whole = search.supplies[bit].origin
        assert whole.home is not None
        vertex = whole.delta_at(whole.home, search.terrain.salt)
        return self.make(
            search, vertex, lambda: Edge(Operator.CAPTURE, (self._base(search, bit),), "", project=whole.columns)
        )

    def is_raw(self, search: Search, subset: int, row: int, site: int) -> bool:
        """Whether the delta at a site still waits for its filter and projection."""
        deltas = search.deltas(subset)
        return bool(deltas.raw[row]) and deltas.site[row] == site and not search.is_whole(subset)

    def select(self, search: Search, subset: int, raw: bool) -> tuple[BlockFilter, ...]:
        if not raw:
            return ()
        input_ = search.core.input_of(subset)
        pending = (replace(filter_, alias=input_.alias) for filter_ in search.supplies[subset].pending)
        return (*pending, *(() if input_.filter is None else (input_.filter,)))

    # Joins

    def _join(self, plan: BlockPlan, recipe: Joined) -> str:
        search = plan.search
        left, right = recipe.left, recipe.right
        site = search.terrain.sites[recipe.site]
        made = search.dataset(left | right)
        return self.make(
            search,
            made.delta_at(site, search.terrain.salt),
            lambda: Edge(
                Operator.UNION,
                tuple(sorted(self._terms(plan, left, right, recipe.left_side, recipe.right_side, recipe.site))),
                "",
                block=search.core.block.id,
                project=made.columns,
            ),
        )

    def _terms(self, plan: BlockPlan, left: int, right: int, left_side: int, right_side: int, site: int) -> list[str]:
        """Both terms of a join, brought to one site."""
        search = plan.search
        relation_a, delta_a, raw_relation_a, raw_a = self.side(plan, left, left_side)
        relation_b, delta_b, raw_relation_b, raw_b = self.side(plan, right, right_side)
        j1, j2 = int(search.sides(left).state[left_side]), int(search.sides(left).site[left_side])
        at_left = self.term(plan, (left, right), right, (relation_a, delta_b), (raw_relation_a, raw_b), j1)
        at_right = self.term(plan, (left, right), left, (delta_a, relation_b), (raw_a, raw_relation_b), j2)
        return [
            self.bring(search, search.dataset(left | right, search.core.complete(right)), at_left, j1, site),
            self.bring(search, search.dataset(left | right, search.core.complete(left)), at_right, j2, site),
        ]

    def term(
        self,
        plan: BlockPlan,
        split: tuple[int, int],
        changed: int,
        inputs: tuple[str, str],
        raw: tuple[bool, bool],
        site: int,
    ) -> str:
        search, core = plan.search, plan.search.core
        made = search.dataset(split[0] | split[1], core.complete(changed))
        select = [filter_ for side, flag in zip(split, raw, strict=True) for filter_ in self.select(search, side, flag)]
        return self.make(
            search,
            made.delta_at(search.terrain.sites[site], search.terrain.salt),
            lambda: Edge(
                Operator.JOIN,
                inputs,
                "",
                block=core.block.id,
                on=core.on(*split),
                select=tuple(select),
                residual=core.completed_residuals(*split),
                project=made.columns,
            ),
        )

    def bring(self, search: Search, dataset: Dataset, vertex: str, source: int, site: int) -> str:
        """A delta that was made at one site, at another."""
        if source == site:
            return vertex
        target = dataset.delta_at(search.terrain.sites[site], search.terrain.salt)
        return self.make(search, target, lambda: Edge(Operator.COPY, (vertex,), "", project=dataset.columns))

    def _join_once(self, plan: BlockPlan, recipe: JoinedOnce) -> str:
        search = plan.search
        changed, fixed, site = recipe.changed, recipe.fixed, recipe.site
        delta = self.delta_at(plan, changed, recipe.delta, site)
        table = search.states(fixed)
        relation = self.state(plan, fixed, int(table.delta[recipe.state]), site)
        raw_relation = search.moves(fixed).home == site and not search.is_whole(fixed)
        raw_delta = self.is_raw(search, changed, recipe.delta, site)
        return self.term(plan, (changed, fixed), changed, (delta, relation), (raw_delta, raw_relation), site)
