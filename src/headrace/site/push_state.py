"""How pushing is going, for status and the watchdog: a frozen value that rounds publish, swapped whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.log import NEVER
from headrace.run.program import Ingest, Program
from headrace.run.schedule.next_push import Paths, Scene, Seconds, longest_item_s, next_starts
from headrace.site.learning import Learning
from headrace.site.running import Running


@dataclass(frozen=True, slots=True)
class PushCounts:
    """Pushes since the service started, the rows that they made, and the seconds that they took."""

    pushes: int = 0
    rows: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PushState:
    """What runs, and how its pushes were going after the last round. All of it is of one plan.

    `program` is what is pushed: while another plan is loaded that is more than what `running` has. `learning` is a copy
    that nobody changes. Contracts `in_flight` have a push that has begun, or wait for good data. `apart` are vertices
    that are pushed beside the others. `halted` are contracts that bad rows keep from going on, and why; `failing` are
    vertices that cannot be pushed, and why. `copies_take_s` are seconds from a push until a contract's copy has it.
    `reach` is how far what comes from other sites can be brought.
    """

    running: Running
    program: Program
    paths: Paths
    learning: Learning
    slots: int
    in_flight: frozenset[str]
    apart: frozenset[str]
    halted: Mapping[str, str]
    failing: Mapping[str, str]
    copies_take_s: Mapping[str, float] = field(default_factory=dict)
    reach: Mapping[str, int] = field(default_factory=dict)

    def scene(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> Scene:
        watermarks = {
            name: times.get(task.step.spool, NEVER)
            for name, task in self.program.tasks.items()
            if isinstance(task.step, Ingest)
        }
        watermarks |= {name: max(self.reach.get(name, NEVER), times.get(name, NEVER)) for name in self.program.imports}
        seconds = self.learning.seconds()
        return Scene(
            now=now,
            times=times,
            watermarks=watermarks,
            seconds=seconds,
            slots=self.slots,
            in_flight=self.in_flight,
            lags_s=lags_s,
            margins=self.learning.margins,
            blocking_s=longest_item_s(self.paths, seconds, self.apart),
            copies_take_s=self.copies_take_s,
        )

    def next_starts(self, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]) -> dict[str, int]:
        """When the next push of each contract is due, in microseconds."""
        return next_starts(self.paths, self.scene(now, times, lags_s))

    def why_failing(self, contract: str) -> str | None:
        """Why something that a contract needs cannot be pushed; None if all of it can."""
        needed = find_needed(self.paths, self.program, contract)
        return next((self.failing[vertex] for vertex in needed if vertex in self.failing), None)


@dataclass(slots=True)
class ShownStarts:
    """When the next pushes of contracts are due, for `status`. Nothing changes that until rounds publish another state:
    they decide anew whenever something happens that they did not foresee.
    """

    _known: tuple[PushState, Mapping[str, int]] | None = None  # one value: several threads ask

    def find(
        self, state: PushState, now: int, times: Mapping[str, int], lags_s: Mapping[str, float]
    ) -> Mapping[str, int]:
        known = self._known
        if known is None or known[0] is not state:
            self._known = known = state, state.next_starts(now, times, lags_s)
        return known[1]


def find_needed(paths: Paths, program: Program, contract: str) -> list[str]:
    """The vertices that a contract needs, and what is computed of the last."""
    answer = program.answers.get(contract)
    return [*paths.upstream[contract], *([] if answer is None else [answer])]


def expect_pushes(paths: Paths, learning: Learning) -> Seconds:
    """Seconds that nine of ten pushes of a vertex take at most; 0 for one that nothing is known of."""
    work, margins = learning.work(), learning.margins
    margin_of = dict[str, float]()
    for contract, upstream in paths.upstream.items():
        for name in upstream:
            margin_of[name] = max(margin_of.get(name, 0.0), margins.get(contract, 0.0))
    return lambda name, lacks_s: work(name, lacks_s) * (1.0 + margin_of[name]) if name in margin_of else 0.0
