"""Steps: what a push of each vertex does, in terms of logs and columns alone.

`run.compile` makes them of a plan, `run.operators` performs them. Every step reads changes of some logs in an interval,
may look up rows of others by key, and makes changes of one log (and of its private state). Expressions read the names
that `LogReading.values` has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.meaning.python_functions import Functions
from headrace.model.block import Aggregation, Derivation
from headrace.model.expr import TRUE, Expr
from headrace.model.full_query import FullQuery
from headrace.model.plan import Stage
from headrace.model.relation import Field, Output


@dataclass(frozen=True, slots=True)
class LookupKey:
    """A key by which rows of a log are looked up; `computed` are columns that exist in indexes alone."""

    columns: tuple[str, ...]
    computed: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True)
class LogReading:
    """A log as a step reads it.

    `values` has, for every name that the step's expressions use, the expression over the file's columns that it stands
    for: mostly a column. `order` says which alias of the step's output each alias of the log is: position in the log's
    scope -> position in the output's. `filter` is over the file's columns. Rows are looked up by `key`.
    """

    log: str
    values: Mapping[str, Expr]
    order: tuple[int, ...] = (0,)
    filter: Expr = TRUE
    key: LookupKey | None = None


@dataclass(frozen=True, slots=True)
class Ingest:
    """Turns captured upserts and deletes into rows that go and rows that come. Without a key rows are as they come."""

    spool: str
    columns: tuple[Field, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """Capture, copy, apply, union: rows go on, filtered and projected to the log's columns."""

    inputs: tuple[LogReading, ...]


@dataclass(frozen=True, slots=True)
class TimedPass:
    """Rows go on while conditions on time hold: each compares a time with now() plus or minus an interval.

    `state` is the private log of what will come and go later.
    """

    input: LogReading
    conditions: tuple[Expr, ...]
    state: str


@dataclass(frozen=True, slots=True)
class NearTime:
    """Rows lie from `low_us` after a time of the change on, in the stretch of time that is so long.

    The relation's key is the start of the stretch, of that length, that a row lies in.
    """

    time: Expr
    low_us: int
    length_ms: int


@dataclass(frozen=True, slots=True)
class JoinStep:
    """Changes of one side meet the rows of the other that were there before them.

    `on` are names of columns of the changes, in the order of the relation's `key`; without any, `equal` are columns
    that are computed of the changes instead, or `near` tells where to look. `residual` is over all names, and holds
    for all pairs, whatever they are found by.
    """

    changes: LogReading
    relation: LogReading
    on: tuple[str, ...]
    residual: Expr = TRUE
    equal: tuple[Output, ...] = ()
    near: NearTime | None = None


@dataclass(frozen=True, slots=True)
class AggregateStep:
    """Groups. A partial one prepares rows (keys and arguments, added up per time), a merge takes those of all parts.

    `outputs` make the log's columns of a group's row; `state` is the private log of a full or merging step.
    """

    input: LogReading
    aggregation: Aggregation
    stage: Stage
    outputs: tuple[Output, ...]
    state: str | None


@dataclass(frozen=True, slots=True)
class DerivedInput:
    """`contents` is None for union all, which only passes changes on."""

    changes: LogReading
    contents: LogReading | None
    fields: tuple[Field, ...]
    """Names and types of the rows as the derivation reads them."""


@dataclass(frozen=True, slots=True)
class DeriveStep:
    """Every other operator: `keys` has, per input, the expressions by which rows concern each other.

    `state` is the private log of a top-k, of window functions, or of the times at which changes came.
    """

    inputs: tuple[DerivedInput, ...]
    derivation: Derivation
    keys: tuple[tuple[Expr, ...], ...]
    outputs: tuple[Output, ...]
    state: str | None = None


@dataclass(frozen=True, slots=True)
class RecomputeStep:
    """A query over all rows of its sources. `inputs` has their contents by source, under names `source.column`.

    `outputs` make the log's columns of the answer's; `state` is the private log of what the view holds.
    """

    inputs: Mapping[str, LogReading]
    recomputed: FullQuery
    outputs: tuple[Output, ...]
    state: str


OperatorStep = Ingest | Pass | TimedPass | JoinStep | AggregateStep | DeriveStep | RecomputeStep


def reads_time(step: OperatorStep) -> bool:
    """Whether a push has something to do although no input has changed."""
    return isinstance(step, TimedPass) or (isinstance(step, RecomputeStep) and step.recomputed.reads_time)


@dataclass(frozen=True, slots=True)
class LogSpec:
    """A log of the plan: its columns, the keys it is looked up by, and whether its contents are kept."""

    name: str
    site: str
    columns: tuple[Field, ...]
    keys: tuple[LookupKey, ...] = ()
    has_contents: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One vertex: its log, the step that moves it on, and the logs that the step reads.

    It `follows` its inputs wherever they are if these are a view that is recomputed, handed on from one to the next.
    """

    vertex: str
    site: str
    step: OperatorStep
    reads: tuple[str, ...]
    state: LogSpec | None = None
    follows: bool = False


def origins_of(program: Program, task: Task) -> set[str]:
    """The other sites that a task's changes come from: then its push is a transfer."""
    return {program.logs[read].site for read in task.reads if read in program.logs} - {task.site}


@dataclass(frozen=True, slots=True)
class SiteCopy:
    """A log that one site keeps of what another one, `origin`, makes. Its task says what of that.

    It `is_whole` if its changes are all by which its rows change. Of a join that is made in parts, one for the changes
    of each source, each part alone has only some of them.
    """

    task: Task
    spec: LogSpec
    origin: str
    is_whole: bool = False

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def site(self) -> str:
        return self.spec.site


@dataclass(frozen=True, slots=True)
class Program:
    """A plan, or what one site does of it, ready to run: tasks and logs by name; tasks are in an order in which inputs
    come first.

    Of one site's part, `imports` are logs that it has brought from other sites, and `exports` are those that others
    have brought from it. A whole plan has neither.
    """

    tasks: Mapping[str, Task]
    logs: Mapping[str, LogSpec]
    functions: Functions = ()
    """Declared in Python: `NAME@VERSION` and `module:function`."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """By contract, the log of its view's rows where its vertex does not hold them (`run.compile.answers`)."""
    imports: Mapping[str, SiteCopy] = field(default_factory=dict)
    exports: Mapping[str, SiteCopy] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    """Logs that are there only for sites which still run an earlier plan (`run.compile.keep_for_others`)."""

    def answers_of(self, vertex: str) -> list[str]:
        """Logs that hold what views compute of a vertex's rows."""
        return [name for name in dict.fromkeys(self.answers.values()) if self.tasks[name].reads == (vertex,)]

    def upstream(self, vertices: Collection[str]) -> list[str]:
        """Vertices and all they are made from, inputs first."""
        wanted, todo = set[str](), list(vertices)
        while todo:
            name = todo.pop()
            if name in self.tasks and name not in wanted:
                wanted.add(name)
                todo.extend(self.tasks[name].reads)
        return [name for name in self.tasks if name in wanted]

    def remembered(self, vertices: Collection[str], but: Collection[str] = ()) -> dict[str, str]:
        """States of vertices, but some, that hold what no source tells any more, when changes came; with the vertex."""
        steps = ((name, self.tasks[name].step) for name in vertices if name in self.tasks and name not in but)
        return {
            step.state: name
            for name, step in steps
            if isinstance(step, DeriveStep) and step.derivation.stamp is not None and step.state is not None
        }

    def imports_of(self, vertices: Collection[str]) -> list[str]:
        """What vertices, and all they are made from here, read of other sites."""
        read = {name for vertex in self.upstream(vertices) for name in self.tasks[vertex].reads}
        return [name for name in self.imports if name in read or name in vertices]
