"""The plan: one graph for all contracts. Vertices are datasets at sites, edges are operators.

    base relation --capture--> delta --copy--> delta at another site --join with a relation--> partial delta
    partial deltas --union--> complete delta --[aggregate, derive]--> complete delta --apply--> relation, or view

There is at most one vertex for a dataset at a site, and it has exactly one producer: that single rule is sharing. A
delta names in `delta_of` whose changes it carries; it is complete when these are all sources of its scope (those that
never change may be missing). Times are seconds, rates rows per second, widths bytes per row, costs dollars per
second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.model.block import Aggregation, Block, BlockFilter, ColumnId, Derivation, DerivationKind, Residual
from headrace.model.catalogue import Admission, Catalogue, Contract
from headrace.model.feed_plan import FeedPlan
from headrace.model.plan_modes import ContractOrder, Method, PlanWishes, Prefer, Sharing, WideArea
from headrace.model.rate import Rate
from headrace.model.template_plan import TemplatePlan


class VertexKind(StrEnum):
    """A relation is the current state of a dataset, a delta the log of its changes."""

    RELATION = "relation"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Vertex:
    """A dataset at a site. `(fingerprint, delta_of, site)` identify it, and so does `id`.

    `columns` are what its rows hold; the view of a block without an operator on top holds the columns that reach the
    output, and expressions are computed when it is read. `stands_for` is the block whose whole output this is. `rate`
    is zero for a relation. `rows` is None for a delta, but for one that is recomputed: every push makes all rows of the
    view, and keeps the difference.
    """

    id: str
    kind: VertexKind
    site: str
    scope: tuple[str, ...]
    delta_of: tuple[str, ...] | None
    base: bool
    fingerprint: str
    columns: tuple[ColumnId, ...]
    width: float
    rows: float | None
    rate: Rate
    stands_for: str | None = None


class Operator(StrEnum):
    CAPTURE = "capture"
    COPY = "copy"
    JOIN = "join"
    UNION = "union"
    APPLY = "apply"
    AGGREGATE = "aggregate"
    DERIVE = "derive"


class Stage(StrEnum):
    """A partial aggregate of some sources' changes is made where they arise; merging makes full ones of them."""

    FULL = "full"
    PARTIAL = "partial"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Grouping:
    """What an aggregate edge does."""

    aggregation: Aggregation
    stage: Stage


@dataclass(frozen=True, slots=True)
class Edge:
    """An operator: it makes `output`, runs at its site, and is named after it (a vertex has one producer).

    `select` and `project` are folded in: filters of raw inputs, and the columns that go on. `on` pairs the columns of
    a join, `residual` are the predicates that are first complete here. `block` is the block for which the operator
    works; None for capture and copies of whole datasets.
    """

    op: Operator
    inputs: tuple[str, ...]
    output: str
    block: str | None = None
    on: tuple[tuple[ColumnId, ColumnId], ...] = ()
    select: tuple[BlockFilter, ...] = ()
    residual: tuple[Residual, ...] = ()
    project: tuple[ColumnId, ...] = ()
    grouping: Grouping | None = None
    derivation: Derivation | None = None

    @property
    def is_recomputed(self) -> bool:
        """Whether a push reads all rows of its inputs' relations, not their changes."""
        return self.derivation is not None and self.derivation.kind is DerivationKind.RECOMPUTE


@dataclass(frozen=True, slots=True)
class Graph:
    """Vertices by id, and the producer of each by the id of its output. Base relations have none."""

    vertices: Mapping[str, Vertex]
    edges: Mapping[str, Edge]


@dataclass(frozen=True, slots=True)
class VertexFigures:
    """`rate` and `arrival_s` hold at the smallest batch served. Arrival: seconds after a push starts until the vertex
    has it.
    """

    rate: float
    arrival_s: float
    serves: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EdgeFigures:
    """Figures of an edge at the smallest batch served. `bytes_per_s` is None unless the edge is a copy."""

    rows_per_s: float
    bytes_per_s: float | None
    time_s: float
    serves: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Cores and bytes per site, bytes per second per link (from, to), and their price."""

    rescost: float
    cpu: Mapping[str, float]
    link: Mapping[tuple[str, str], float]
    disk: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is None is as the project says, or as usual. With `wide_area`, method and sharing are those of the mode."""

    method: Method | None = None
    admission: Admission | None = None
    sharing: Sharing | None = None
    order: ContractOrder = ContractOrder.SMALL_FIRST
    wide_area: WideArea | None = None
    prefer: Prefer = Prefer.BYTES

    @property
    def wishes(self) -> PlanWishes:
        """What was said when a plan was asked for, beside what the project says."""
        return PlanWishes(self.method, self.sharing, self.wide_area)

    def with_wishes(self, wishes: PlanWishes) -> PlanOptions:
        return replace(self, method=wishes.method, sharing=wishes.sharing, wide_area=wishes.wide_area)


USUAL_WISHES = PlanWishes(Method.CHEAPEST, Sharing.MARGINAL)


def settle_wishes(options: PlanOptions, catalogue: Catalogue) -> PlanWishes:
    """How to plan: as was said, as the project says, or as usual. A mode of a wide area decides the rest as well."""
    said = options.wishes.over(catalogue.planning)
    if said.wide_area is None:
        return said.over(USUAL_WISHES)
    return PlanWishes(Method.CHEAPEST, Sharing.MARGINAL if said.wide_area.shares else Sharing.NONE, said.wide_area)


@dataclass(frozen=True, slots=True)
class ContractPlan:
    """A promise that can be kept, and how.

    The batch is how many seconds of changes a push carries at most. `rate` is that of the view, `capacity` the rate
    at which the slowest operator could feed it (None: no operator). `exact` says that no cheaper plan exists in the
    space that was searched.
    """

    contract: str
    view: str
    site: str
    freshness_s: float
    penalty: float
    rule: Admission
    vertex: str
    batch_s: float
    critical_path_s: float
    critical_path: tuple[str, ...]
    rate: float
    capacity: float | None
    p_late: float
    cost: float
    exact: bool

    @property
    def money(self) -> float:
        """$/s that are planned to be paid: the contract's share of resources, and the penalty for late rows. `cost` is
        the score that planning lowers, in which slow plans count for more than they are paid.
        """
        penalty = self.rate * self.p_late * self.penalty
        return (self.cost - penalty) / (1.0 + self.critical_path_s / self.freshness_s) + penalty


@dataclass(frozen=True, slots=True)
class Rejection:
    """A promise that cannot be kept.

    `reason` is `freshness`, `cpu:SITE`, `disk:SITE`, `link:a>b`, `operator:EDGE`, `no_route`, `unsupported:OPERATOR`
    or `stays:SOURCE`; `detail` says it in words. `fastest_cp_s` is the least critical path at its batch, capacities
    ignored; `smallest_staleness_s` the least freshness that would be promised, rounded up. None when no plan exists.
    """

    contract: str
    reason: str
    detail: str
    fastest_cp_s: float | None
    smallest_staleness_s: float | None


@dataclass(frozen=True, slots=True)
class GoesOn:
    """A contract that runs on although what the project asks for now is refused.

    `asked` is what is asked for: if it differs from what the plan's catalogue says of the contract, an earlier version
    runs; if not, the version that runs does not fit any more.
    """

    asked: Contract
    because: Rejection

    @property
    def contract(self) -> str:
        return self.asked.name


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """Statistics of a block's output: rows, changed rows per second, bytes and distinct values per column."""

    rows: float
    rate: Rate
    widths: Mapping[str, float]
    distinct: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """A block with what was estimated for it: selectivity per filtered alias and per residual, and its output.

    `name` is the first id of all blocks that mean the same, `reads` the name of each alias's source or block. `keep`
    lists, per alias, the columns that the output or the operator on top needs. `inner` blocks are part of a view.
    `stored` gives the names under which vertices hold the output's columns: views name those of equal blocks otherwise.
    """

    block: Block
    name: str
    reads: Mapping[str, str]
    keep: Mapping[str, tuple[str, ...]]
    selectivity: Mapping[str, float]
    residual_selectivity: tuple[float, ...]
    facts: BlockFacts
    inner: bool
    stored: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is kept, where, for whom, and what it costs."""

    catalogue: Catalogue
    options: PlanOptions
    blocks: tuple[PlannedBlock, ...]
    graph: Graph
    contracts: tuple[ContractPlan, ...]
    rejected: tuple[Rejection, ...]
    vertex_figures: Mapping[str, VertexFigures]
    edge_figures: Mapping[str, EdgeFigures]
    totals: Totals
    goes_on: tuple[GoesOn, ...] = ()
    feeds: tuple[FeedPlan, ...] = ()
    templates: tuple[TemplatePlan, ...] = ()
    site: str | None = None
    """Of the part that one site runs: its contracts are those at this site. The graph is the whole plan's."""
    elsewhere: tuple[ContractPlan, ...] = ()
    """Contracts at other sites, of such a part."""

    def at_site(self, site: str) -> Plan:
        """What one site runs of the plan."""
        here = tuple(entry for entry in self.contracts if entry.site == site)
        kept = {entry.contract for entry in here}
        goes_on = tuple(one for one in self.goes_on if one.contract in kept)
        elsewhere = tuple(entry for entry in self.contracts if entry.site != site)
        return replace(self, contracts=here, goes_on=goes_on, rejected=(), site=site, elsewhere=elsewhere)

    @property
    def store_owner(self) -> str:
        """Whose the stores of feeds are: the project's, or those of this part of it. Each site counts by itself: what
        one has written means nothing to another.
        """
        project = self.catalogue.project
        return project if self.site is None else f"{project} at {self.site}"

    @property
    def money(self) -> float:
        """$/s that are planned to be paid for all contracts."""
        return sum(entry.money for entry in self.contracts)

    def runs_earlier(self, contract: str) -> bool:
        """Whether a contract runs in an earlier version than the project's files have."""
        asked = next((one.asked for one in self.goes_on if one.contract == contract), None)
        return asked is not None and not asked.asks_as(self.catalogue.contracts[contract])
