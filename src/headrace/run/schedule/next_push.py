"""When to push: each contract as late as its promise allows, and which of them first (SMILE §8.2, corrected).

With m the time of the view, `age` now - m, and CP(t) the seconds until a push to t is done, the reader sees an age of
up to age + CP(t). So

    start    when age + CP(w) >= 0.8 * freshness      w: up to where everything is captured
    target   the largest t <= w with age + CP(t) <= freshness; w at once, and late, if there is none
    order    earliest deadline first; the deadline is when the view's age reaches its freshness. What is late anyway
             gives way to what is not, for a while: otherwise one delay makes everybody late in turn

The paper's inequality bounds the age after a push from below, which makes pushes small and many. What is due soon goes
along with what is due: one job costs less than two. Contracts compete for slots: when many promises end together (as
they do after a recovery) their pushes would all be due at once and be late. The last starts with which all could keep
their promises are then earlier, and those contracts start one after the other, though never before half of their
freshness, which is the batch that was planned for.

Times are microseconds of the service's clock, durations seconds. A vertex that is ahead of its readers has less to do:
the batch of each is what it itself lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headrace.model.log import NEVER
from headrace.model.plan import ContractPlan, Graph

START_AT = 0.8
"""Share of the freshness at which a view shall have its next push."""

EARLIEST = 0.5
"""Share of the freshness before which nothing starts for the sake of others."""

ALONG = 0.1
"""Share of the freshness by which a push starts early to go with others."""

GIVES_WAY = 1, 10
"""A push that is overdue by 1 x the freshness gives way to others, until it is overdue by 10 x."""

PRECISION = 1_000
"""Of targets and wake-ups, microseconds."""

LOOK_AGAIN = 250_000
"""Microseconds after which to look again at a contract that is due and whose sources stand still."""

SECOND = 1_000_000

FOREVER = 2**62

Seconds = Callable[[str, float], float]
"""Seconds to push a vertex, from its id and the seconds of changes that it lacks; increases with these."""


@dataclass(frozen=True, slots=True)
class Promised:
    """A contract that is kept by a vertex. One that is `forced` goes after all others. What another site has of a
    vertex is `on_demand`: it is pushed when that site asks for it, and is as fresh as its most demanding reader needs.
    One that is `streaming` is due whenever there is something to push.
    """

    contract: str
    vertex: str
    freshness_s: float
    forced: bool = False
    on_demand: bool = False
    streaming: bool = False


@dataclass(frozen=True)
class Paths:
    """What contracts are made of: inputs of each vertex (none for sources), and all that each needs, inputs first.

    What is `left_out` of a contract's is pushed beside the others, or waits for that. Contracts that are made of such a
    vertex are `exact`: it is known at the times of its own pushes, so that rounds must not bring them further.
    """

    inputs: Mapping[str, tuple[str, ...]]
    contracts: tuple[Promised, ...]
    left_out: Mapping[str, frozenset[str]] = field(default_factory=dict)
    exact: frozenset[str] = frozenset()

    @property
    def unforced(self) -> tuple[Promised, ...]:
        """Those that count; all, if all are forced."""
        return tuple(entry for entry in self.contracts if not entry.forced) or self.contracts

    @cached_property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        """The vertices upstream, by contract."""
        return {
            entry.contract: self._upstream(entry.vertex, self.left_out.get(entry.contract, frozenset()))
            for entry in self.contracts
        }

    def _upstream(self, vertex: str, left_out: frozenset[str]) -> tuple[str, ...]:
        done: dict[str, None] = {}
        pending = [vertex]
        while pending:
            missing = [name for name in self.inputs[pending[-1]] if name not in done]
            if missing:
                pending.extend(missing)
            else:
                done.setdefault(pending.pop())
        return tuple(name for name in done if name not in left_out)


def paths_of(
    graph: Graph,
    contracts: Iterable[ContractPlan],
    forced: frozenset[str] = frozenset(),
    imports: Collection[str] = (),
    exports: Iterable[Promised] = (),
    parts: Mapping[str, tuple[str, ...]] | None = None,
    streaming: Collection[str] = (),
) -> Paths:
    """What comes from other sites is like a source; what others have of this one is promised to them. `parts` are those
    of vertices at other sites that are pushed here, with what they read.
    """
    made = {name: edge for name, edge in graph.edges.items() if name not in imports}
    inputs = {name: made[name].inputs if name in made else () for name in graph.vertices}
    inputs |= parts or {}
    promised = (
        Promised(
            entry.contract,
            entry.vertex,
            entry.freshness_s,
            entry.contract in forced,
            streaming=entry.contract in streaming,
        )
        for entry in contracts
    )
    return Paths(inputs, (*promised, *exports))


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known at `now`.

    `times` are those of vertices; one that has none is not loaded, and its contracts wait. `watermarks` are those of
    source vertices. `slots` items run side by side. Contracts `in_flight` have a push that has begun. `lags_s` are
    measured lags, which exceed now - m where a capture is behind its database; `skew_s` bounds how far clocks are apart
    and is kept free of every freshness. `margins` are by how much more than predicted the pushes of contracts take at
    times, as a share: paths count with them. Where rounds are not interrupted, a push may have to wait for `blocking_s`
    before it starts: the longest item. A promise of a contract that is delivered is about its copy, which has a push
    after `copies_take_s`.
    """

    now: int
    times: Mapping[str, int]
    watermarks: Mapping[str, int]
    seconds: Seconds
    slots: int = 1
    in_flight: frozenset[str] = frozenset()
    lags_s: Mapping[str, float] = field(default_factory=dict)
    skew_s: float = 0.0
    margins: Mapping[str, float] = field(default_factory=dict)
    blocking_s: float = 0.0
    copies_take_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Due:
    """A push to start. `late`: the promise is broken, or will be whatever is done."""

    contract: str
    vertex: str
    target: int
    deadline: int
    late: bool
    gives_way: bool = False
    forced: bool = False

    @property
    def urgency(self) -> tuple[bool, bool, int, str]:
        """Smaller is first."""
        return self.forced, self.gives_way, self.deadline, self.contract


@dataclass(frozen=True, slots=True)
class PushDecision:
    """Pushes to start now, the most urgent first, and when to decide again if nothing happens before."""

    due: tuple[Due, ...]
    next_wake: int


def next_pushes(paths: Paths, scene: Scene) -> PushDecision:
    """What is due now; the same contracts are due again until they are in flight."""
    waiting = [standing for entry in paths.contracts if (standing := _standing(paths, scene, entry)) is not None]
    early = _starts_in_turn(waiting, scene.slots)
    due, later, wake = list[Due](), list[_Standing](), scene.now + 3600 * SECOND
    # By deadlines, so that one of the first has the earliest start: of the others it is enough that they are later.
    for standing in sorted(waiting, key=lambda one: one.deadline):
        in_turn = early[standing.entry.contract]
        if not standing.is_due(scene.now) and in_turn > scene.now:
            later.append(standing)
            wake = min(wake, in_turn, standing.next_start(wake))
        elif standing.watermark > standing.m:
            due.append(standing.due())
        else:
            wake = min(wake, scene.now + LOOK_AGAIN)
    if any(not entry.forced for entry in due):
        due += [standing.due() for standing in later if standing.goes_along(early[standing.entry.contract])]
    return PushDecision(tuple(sorted(due, key=lambda entry: entry.urgency)), max(wake, scene.now + 1))


def next_starts(paths: Paths, scene: Scene) -> dict[str, int]:
    """When the next push of each contract is due, if nothing happens before; now for those that have begun or wait."""
    waiting = [standing for entry in paths.contracts if (standing := _standing(paths, scene, entry)) is not None]
    early = _starts_in_turn(waiting, scene.slots)
    found = dict.fromkeys(scene.in_flight, scene.now)
    for standing in waiting:
        alone = scene.now if standing.is_due(scene.now) else standing.next_start(standing.deadline)
        found[standing.entry.contract] = max(scene.now, min(alone, early[standing.entry.contract]))
    return found


@dataclass(frozen=True, slots=True)
class _Standing:
    """A contract at a moment. `deadline` is when its age reaches its freshness."""

    entry: Promised
    scene: Scene
    paths: Paths
    m: int
    watermark: int
    deadline: int
    freshness: int

    def path_s(self, target: int) -> float:
        """The seconds until readers have a push. A copy that takes longer than pushes can start early stays late."""
        contract = self.entry.contract
        longest_s = (START_AT - EARLIEST) * self.entry.freshness_s
        copy_s = min(self.scene.copies_take_s.get(contract, 0.0), longest_s)
        return path_s(self.paths, self.scene, contract, target) + copy_s

    def is_due(self, at: int) -> bool:
        """Whether it will be time to start at a later time, if until then only the sources move on."""
        if self.entry.streaming:
            return True
        target = self.watermark + (at - self.scene.now)
        end = at + self.path_s(target) * SECOND
        return end >= self.deadline - (1 - START_AT) * self.freshness or (end >= self.end and at >= self.halfway)

    def goes_along(self, in_turn: int) -> bool:
        """Whether it is due so soon that it goes with what is due now: another job costs more than a smaller batch."""
        soon = self.scene.now + round(ALONG * self.freshness)
        return self.watermark > self.m and self.scene.now >= self.halfway and (in_turn <= soon or self.is_due(soon))

    @property
    def halfway(self) -> int:
        return self.deadline - round((1 - EARLIEST) * self.freshness)

    @property
    def end(self) -> int:
        """When a push should end that nothing is in the way of, so that one which has to wait is in time too."""
        spare = max((1 - START_AT) * self.freshness, self.scene.blocking_s * SECOND)
        return self.deadline - round(spare)

    def next_start(self, upto: int) -> int:
        """The first time at which it is due, or `upto` if it is not before; it is not now."""
        if not self.is_due(upto):
            return upto
        alone = self._last_start(self.deadline - round((1 - START_AT) * self.freshness))
        waits = max(self._last_start(self.end), self.halfway)
        return min(upto, max(self.scene.now, min(alone, waits)))

    def _last_start(self, end: int) -> int:
        """The first time at which a push that starts then ends at `end` or later.

        Pushes take longer the more sources have moved on, so it is between these two, which are mostly close together.
        """
        late = max(self.scene.now, end - self._takes(self.scene.now))
        early = max(self.scene.now, end - self._takes(late))
        while late - early > PRECISION:
            middle = (early + late) // 2
            early, late = (early, middle) if middle + self._takes(middle) >= end else (middle, late)
        return late

    def _takes(self, at: int) -> int:
        """Microseconds of a push that starts at a later time, if until then only the sources move on."""
        return round(self.path_s(self.watermark + (at - self.scene.now)) * SECOND)

    def due(self) -> Due:
        entry, target = self.entry, self._target()
        if target is not None:
            return Due(entry.contract, entry.vertex, target, self.deadline, late=False, forced=entry.forced)
        overdue = self.scene.now - self.deadline
        gives_way = GIVES_WAY[0] * self.freshness <= overdue < GIVES_WAY[1] * self.freshness
        return Due(entry.contract, entry.vertex, self.watermark, self.deadline, True, gives_way, entry.forced)

    def _target(self) -> int | None:
        """The largest that is done before the deadline; None if none is."""
        if self.entry.streaming or self._in_time(self.watermark):
            return self.watermark
        early, late = self.m + PRECISION, self.watermark
        if early >= late or not self._in_time(early):
            return None
        while late - early > PRECISION:
            middle = (early + late) // 2
            early, late = (middle, late) if self._in_time(middle) else (early, middle)
        return early

    def _in_time(self, target: int) -> bool:
        return self.scene.now + self.path_s(target) * SECOND <= self.deadline


def _standing(paths: Paths, scene: Scene, entry: Promised) -> _Standing | None:
    """None for a contract that has nothing to wait for: its push has begun, or it is not loaded."""
    upstream = paths.upstream[entry.contract]
    if entry.on_demand or entry.contract in scene.in_flight or any(name not in scene.times for name in upstream):
        return None
    m = scene.times[entry.vertex]
    watermark = min(scene.watermarks.get(name, NEVER) for name in upstream if not paths.inputs[name])
    freshness = round((entry.freshness_s - scene.skew_s) * SECOND)
    age = max(scene.now - m, round(scene.lags_s.get(entry.contract, 0.0) * SECOND))
    return _Standing(entry, scene, paths, m, watermark, scene.now - age + freshness, freshness)


def path_s(paths: Paths, scene: Scene, contract: str, target: int) -> float:
    """Seconds from the start of a push to a time until the view is there, with margin; 0 if it is."""
    # Every decision asks for this hundreds of times.
    times, inputs, seconds = scene.times, paths.inputs, scene.seconds
    done, name = dict[str, float](), ""
    for name in paths.upstream[contract]:
        lacks, longest = target - times[name], 0.0
        if lacks > 0:
            for input_ in inputs[name]:
                longest = max(longest, done[input_])
            longest += seconds(name, lacks / SECOND)
        done[name] = longest
    return done[name] * (1.0 + scene.margins.get(contract, 0.0))


def longest_item_s(paths: Paths, seconds: Seconds, apart: Collection[str] = ()) -> float:
    """Seconds of the longest item of all pushes that start when they should: `Scene.blocking_s` where rounds run.

    What is pushed `apart` from rounds blocks nobody.
    """
    batches: dict[str, float] = {}
    for entry in sorted(paths.contracts, key=lambda entry: (entry.forced, entry.freshness_s)):
        for name in paths.upstream[entry.contract]:
            batches.setdefault(name, entry.freshness_s)
    blocking = ((name, freshness_s) for name, freshness_s in batches.items() if name not in apart)
    return max((seconds(name, START_AT * freshness_s) for name, freshness_s in blocking), default=0.0)


def _starts_in_turn(waiting: Collection[_Standing], slots: int) -> dict[str, int]:
    """The last starts with which all could be done in time on the slots; `FOREVER` where no other push is in the way.

    Pushes are laid out backwards from the ends of their promises. A vertex is work of the first contract that needs it.
    What is forced is in nobody's way.
    """
    found, free = {one.entry.contract: FOREVER for one in waiting}, [FOREVER] * slots
    seen = set[str]()
    planned = []
    in_line = (one for one in waiting if not one.entry.forced)
    for standing in sorted(in_line, key=lambda one: (one.deadline, one.entry.contract)):
        planned.append((standing, standing.end, round(_work_s(standing, seen) * SECOND)))
    for standing, end, work in reversed(planned):
        slot = free.index(max(free))
        in_the_way, free[slot] = free[slot] < end, min(free[slot], end) - work
        found[standing.entry.contract] = max(standing.halfway, free[slot]) if in_the_way else FOREVER
    return found


def _work_s(standing: _Standing, seen: set[str]) -> float:
    """Seconds of all that a push has to do which nobody did before, with margin."""
    scene, end, total = standing.scene, standing.end, 0.0
    for name in standing.paths.upstream[standing.entry.contract]:
        if name not in seen:
            seen.add(name)
            total += scene.seconds(name, max(0.0, end - scene.times[name]) / SECOND)
    return total * (1.0 + scene.margins.get(standing.entry.contract, 0.0))
