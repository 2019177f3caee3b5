"""Steps: what going over from the plan that runs to another one does, one after another.

`coordinate/steps.py` decides which steps that takes, `coordinate/perform.py` performs them, and the code that shows
them says them as here. A step carries the words for what it names, so that it can be shown when its plans are gone.

    drop what is left over    read again    capture    read    index    load, move
    take over, rewire, change, keep, switch                                             one commit: the plan runs
    stop, drop    stop capturing    copy    remove a copy    give back a slot
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, assert_never

COMPUTED = "__k:"
"""What the name of a column begins with that exists in an index alone; the expression follows."""


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Forgets the rows of a source and all that was made from them: `vertices`, as far as the plan has them."""

    source: str
    vertices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Captures sources of a database that were not captured before; `database` is None for a folder of files."""

    database: str | None
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadSources:
    """Waits until all rows of some sources are read, that are not yet."""

    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuildIndex:
    """Builds an index of a log that exists, by these columns."""

    what: str
    log: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadVertices:
    """Computes vertices from scratch for a contract: `logs` are all that begin with that, the vertices included."""

    contract: str
    what: str
    vertices: tuple[str, ...]
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MoveVertex:
    """Computes at another site what one vertex holds; the first one goes when the plan runs."""

    what: str
    start: str
    target: str
    vertices: tuple[str, str]
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Plans with another declared value from now on."""

    what: str
    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RewireVertex:
    """Computes a vertex in another way from now on."""

    what: str
    vertex: str


@dataclass(frozen=True, slots=True)
class ChangeContract:
    """Promises something else from now on."""

    contract: str
    terms: str


@dataclass(frozen=True, slots=True)
class KeepContract:
    """Goes on with a contract as it runs: what its files ask for is refused."""

    contract: str
    because: str


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """Makes the plan the one that runs: the only step that a reader of views notices."""


@dataclass(frozen=True, slots=True)
class StopContract:
    """Forgets what served a contract alone, which has ended."""

    contract: str
    what: str
    vertices: tuple[str, ...]
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgetVertices:
    """Forgets vertices that nothing needs any more; `spools` are sources whose rows go as well."""

    what: str
    vertices: tuple[str, ...]
    logs: tuple[str, ...]
    spools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopCapture:
    """Stops capturing sources, and forgets their rows; `database` is None for a folder of files."""

    database: str | None
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteCopy:
    """Keeps a copy of a contract's view for other programs."""

    contract: str
    where: str


@dataclass(frozen=True, slots=True)
class RemoveCopy:
    """Removes the copy that a note of the ledger names."""

    note: str
    contract: str
    where: str


@dataclass(frozen=True, slots=True)
class GiveBackSlot:
    """Drops the slot and the publications that a note of the ledger names."""

    note: str
    database: str


AtSwitch = TakeOver | RewireVertex | ChangeContract | KeepContract | SwitchPlan
"""Steps that take effect together, when the plan is switched."""
Making = LoadVertices | MoveVertex
"""Steps that compute new vertices; all that follow each other load at one common time."""
Ending = StopContract | ForgetVertices | StopCapture | WriteCopy | RemoveCopy | GiveBackSlot
"""Steps that remove what is not needed any more, or write copies of what is new."""
Step = ReadAgain | StartCapture | ReadSources | BuildIndex | Making | AtSwitch | Ending
Steps = tuple[Step, ...]


def split_acts(steps: Iterable[Step]) -> Iterator[Steps]:
    """Steps that follow each other and are done as one: nobody ever sees some of them done and others not."""
    for _, together in groupby(steps, _act_of):
        yield tuple(together)


def _act_of(step: Step) -> str:
    if isinstance(step, AtSwitch):
        return "switch"
    if isinstance(step, Making):
        return "load"
    return "give back" if isinstance(step, RemoveCopy | GiveBackSlot) else type(step).__name__


def say_step(step: Step) -> str:
    """What a step does, in words."""
    match step:
        case TakeOver() | RewireVertex() | ChangeContract() | KeepContract() | SwitchPlan():
            return _say_at_switch(step)
        case StopContract() | ForgetVertices() | StopCapture() | WriteCopy() | RemoveCopy() | GiveBackSlot():
            return _say_ending(step)
        case ReadAgain(source, vertices):
            return f"read {source} again, and rebuild everything computed from it{_count_vertices(vertices)}"
        case StartCapture(database, sources):
            names = join_names(sources)
            return f"watch the files of {names}" if database is None else f"capture {names} from database {database}"
        case ReadSources(sources):
            return f"read {join_names(sources)}"
        case BuildIndex(what, _, columns):
            return f"index {what} by {', '.join(column.removeprefix(COMPUTED) for column in columns)}"
        case LoadVertices(_, what, vertices, _):
            return f"load {what}{_count_vertices(vertices)}"
        case MoveVertex(what, start, target):
            return f"move {what} from {start} to {target}"
        case _:
            assert_never(step)


def _say_at_switch(step: AtSwitch) -> str:
    match step:
        case TakeOver(what, field, before, after):
            return f"take over {what}: {field} {before} -> {after}"
        case RewireVertex(what, _):
            return f"compute {what} differently"
        case ChangeContract(contract, terms):
            return f"change {contract}: {terms}"
        case KeepContract(contract, because):
            return f"keep {contract} as it runs: refused, because {because}"
        case SwitchPlan():
            return "switch to the new plan"
        case _:
            assert_never(step)


def _say_ending(step: Ending) -> str:
    match step:
        case StopContract(contract, what, vertices, _):
            return f"stop {contract}: {what}{_count_vertices(vertices)}"
        case ForgetVertices(what, vertices, _, spools):
            rows = f", and the rows of {join_names(spools)}" if spools else ""
            return f"drop {what}{_count_vertices(vertices)}{rows}"
        case StopCapture(database, sources):
            names = join_names(sources)
            watching = f"stop watching the files of {names}"
            return watching if database is None else f"stop capturing {names} from database {database}"
        case WriteCopy(contract, where):
            return f"write a copy of {contract} to {where}"
        case RemoveCopy(_, contract, where):
            return f"remove the copy of {contract} from {where}"
        case GiveBackSlot(_, database):
            return f"drop the replication slot in database {database}"
        case _:
            assert_never(step)


_DO = {
    ReadAgain: "reread", StartCapture: "capture", ReadSources: "read", BuildIndex: "index", LoadVertices: "load",
    MoveVertex: "move", TakeOver: "take over", RewireVertex: "rewire", ChangeContract: "change", KeepContract: "keep",
    SwitchPlan: "switch", StopContract: "stop", ForgetVertices: "drop", StopCapture: "stop capturing",
    WriteCopy: "copy", RemoveCopy: "remove copy", GiveBackSlot: "give back",
}  # fmt: skip


def step_document(step: Step) -> dict[str, Any]:
    """A step in JSON: `do` is its kind, `text` says it in words, `vertices` are those of plans that it is about."""
    return {"do": _DO[type(step)], "text": say_step(step), "vertices": list(vertices_of(step))}


def vertices_of(step: Step) -> tuple[str, ...]:
    match step:
        case ReadAgain() | LoadVertices() | MoveVertex() | StopContract() | ForgetVertices():
            return step.vertices
        case RewireVertex(_, vertex):
            return (vertex,)
        case _:
            return ()


def _count_vertices(vertices: tuple[str, ...]) -> str:
    if not vertices:
        return ""
    return " (1 vertex)" if len(vertices) == 1 else f" ({len(vertices)} vertices)"


def join_names(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
