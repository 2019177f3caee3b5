"""What this site answers when others ask for what they have of it: waits for rounds to push it, then reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from headrace.connect.wire.snapshot_files import SnapshotPart
from headrace.model.catalogue import Stays
from headrace.model.log import NEVER
from headrace.model.wish import CopyWish
from headrace.run.capture.spool import spool_log
from headrace.run.compile.carried import CarriedSources, find_bound
from headrace.run.program import Program
from headrace.run.push.engine import Engine, NotThereYet
from headrace.run.push.exports import Exports, NotForReader, Segment
from headrace.site.given_contents import GivenContents

LOOK_EVERY_S = 0.02
APART_US = 2_000_000
"""Views over rows of several sites get to a time that all of them have: one may be behind another by a heartbeat."""
LOOK_AT_LEAST_EVERY_S = 0.25
"""Where rounds push a copy they say when they have; whatever else may bring it forward is seen a little later."""
ANSWERING_S, TAKING_S = 60.0, 300.0
"""A site that has asked nothing for so long does not answer; one that has asked for no changes takes none. Questions
wait behind changes on a full link, and over a slow one it is minutes until the changes that were asked for are there.
"""


@dataclass(frozen=True, slots=True)
class Exporting:
    """`engine` is that of what runs or is loaded; None before anything is."""

    engine: Callable[[], Engine | None]
    wish: Callable[[str, CopyWish], None]
    given: GivenContents
    is_pushed: Callable[[str], bool]
    """Whether rounds push a copy; if not, whoever asks for it has it pushed."""
    want: Callable[[str, int, int], None] = lambda *_: None
    """Has a copy of another site's brought here to a time, by a deadline."""
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _pushed: threading.Condition = field(default_factory=threading.Condition)
    _carried: list[CarriedSources] = field(default_factory=list)
    _given_upto: dict[str, int] = field(default_factory=dict)
    """How far changes of each copy were given last."""
    asked_s: dict[str, float] = field(default_factory=dict)
    """When each other site has asked last how far it can be brought, by the monotonic clock."""
    took_s: dict[str, float] = field(default_factory=dict)
    """When each other site has asked last for changes."""
    ending: threading.Event = field(default_factory=threading.Event)
    """Set once this site is about to end: others hear of it."""

    def find_starts(self, site: str) -> dict[str, int]:
        return self._exports().find_starts(site)

    def tell_reach(self, site: str) -> dict[str, int]:
        self.asked_s[site] = time.monotonic()
        return self._exports().reach(site)

    def check_reader(self, copy: str, site: str, stays: Mapping[str, Stays]) -> None:
        """Raises NotForReader if a copy is not one that the plan gives to a site, or carries rows of a source of ours
        that may not be there, whatever the plan says.
        """
        exports = self._exports()
        exports.check_reader(copy, site)
        carried = self._find_carried(exports.engine.program).find(exports.find(copy))
        bound = find_bound(carried, {spool_log(name): one for name, one in stays.items()}, site)
        if bound is not None:
            source = bound.removeprefix(spool_log(""))
            raise NotForReader(f'rows of source "{source}" may not be at site "{site}": see `stays` in docs/sites.md')

    def _find_carried(self, program: Program) -> CarriedSources:
        """Computed once for a program. Another thread may ask about another one meanwhile."""
        known = next((one for one in tuple(self._carried) if one.program is program), None)
        if known is None:
            known = CarriedSources(program)
            self._carried[:] = [known]
        return known

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> Segment:
        """What there is after a time. Waits for what was wished for, at most so many seconds."""
        exports, until = self._exports(), time.monotonic() + within_s
        reads = exports.find(copy).task.reads
        self.took_s[exports.find(copy).site] = time.monotonic()
        if self._time_of(exports, reads) < wish.t:
            self.wish(copy, wish)
            while self._time_of(exports, reads) < wish.t and time.monotonic() < until:
                if self.is_pushed(copy):
                    self._wait_for_push(exports, reads, wish.t, until)
                else:
                    self._push(exports.engine, reads, wish)
                    time.sleep(LOOK_EVERY_S)
        found = exports.read_changes(copy, after)
        self._given_upto[copy] = found.upto
        return found

    def tell_end(self) -> dict[str, int]:
        """Others hear from now on that this site is about to end. How far, about, they will have what they copy of it,
        by copy; but for what is kept for sites with an earlier plan.
        """
        self.ending.set()
        engine = self.engine()
        if engine is None:
            return {}
        program, times = engine.program, engine.ledger.times()
        copies = (copy for copy in program.exports.values() if program.kept.isdisjoint(copy.task.reads))
        there = [copy for copy in copies if all(read in times for read in copy.task.reads)]
        return {copy.name: engine.watermark(copy.task.reads) - APART_US for copy in there}

    def tell_given(self) -> Mapping[str, int]:
        """How far changes of each copy were given last, of those that others have asked for."""
        return self._given_upto.copy()

    def find_not_given(self, wanted: Mapping[str, int], silent: Collection[str]) -> set[str]:
        """Copies that others have not been given up to a time, but for those of sites that do not answer."""
        engine = self.engine()
        exports = {} if engine is None else engine.program.exports
        answering = (name for name in wanted if name in exports and exports[name].site not in silent)
        return {name for name in answering if self._given_upto.get(name, NEVER) < wanted[name]}

    def find_answering(self) -> frozenset[str]:
        """Other sites that answer, and take changes."""
        now_s = time.monotonic()
        heard = (site for site, at_s in list(self.asked_s.items()) if now_s - at_s <= ANSWERING_S)
        return frozenset(site for site in heard if now_s - self.took_s.get(site, now_s) <= TAKING_S)

    def note_pushed(self) -> None:
        """Something was pushed here: those who wait look whether it was what they wait for."""
        with self._pushed:
            self._pushed.notify_all()

    def _wait_for_push(self, exports: Exports, reads: tuple[str, ...], t: int, until: float) -> None:
        with self._pushed:  # what is pushed after this look wakes it
            left_s = until - time.monotonic()
            if self._time_of(exports, reads) < t and left_s > 0:
                self._pushed.wait(min(left_s, LOOK_AT_LEAST_EVERY_S))

    def read_part(self, copy: str, t: int, number: int) -> SnapshotPart:
        """A part of the rows that a copy has at a time."""
        exports = self._exports()
        return self.given.read_part(copy, t, number, exports.find(copy).spec, exports.read_contents)

    def count_waiting(self) -> dict[str, int]:
        """Bytes of changes, as they are kept here, that each other site has not asked for yet."""
        engine = self.engine()
        return {} if engine is None else Exports(engine).count_waiting()

    def _push(self, engine: Engine, reads: tuple[str, ...], wish: CopyWish) -> None:
        """Pushes as far as everything is there: sites wait for each other while they load."""
        times, imports, t = engine.ledger.times(), engine.program.imports_of(reads), wish.t
        for name in imports:
            if times.get(name, t) < t:
                self.want(name, t, wish.deadline)
        there = min([t, engine.watermark(reads), *(times.get(name, t) for name in imports)])
        with self._turn, nullcontext() if engine.turn is None else engine.turn:
            engine.push(reads, there)

    def _time_of(self, exports: Exports, reads: tuple[str, ...]) -> int:
        times = exports.engine.ledger.times()
        if any(read not in times for read in reads):
            raise NotThereYet("it is not loaded yet")
        return min(times[read] for read in reads)

    def _exports(self) -> Exports:
        engine = self.engine()
        if engine is None:
            raise NotThereYet("nothing is loaded here yet")
        return Exports(engine)
