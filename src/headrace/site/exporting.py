"""What this site answers when others ask for what they have of it: waits for rounds to push it, then reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.model.wish import CopyWish
from headrace.run.push.engine import Engine, NotThereYet
from headrace.run.push.exports import Exports, Segment

LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Exporting:
    """`engine` is that of what runs or is loaded; None before anything is."""

    engine: Callable[[], Engine | None]
    wish: Callable[[str, CopyWish], None]
    is_pushed: Callable[[str], bool]
    """Whether rounds push a copy; if not yet, whoever asks for it has what is loaded pushed."""
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def find_starts(self, site: str) -> dict[str, int]:
        return self._exports().find_starts(site)

    def tell_reach(self, site: str) -> dict[str, int]:
        return self._exports().reach(site)

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> Segment:
        """What there is after a time. Waits for what was wished for, at most so many seconds."""
        exports, until = self._exports(), time.monotonic() + within_s
        reads = exports.find(copy).task.reads
        if self._time_of(exports, reads) < wish.t:
            self.wish(copy, wish)
            while self._time_of(exports, reads) < wish.t and time.monotonic() < until:
                if not self.is_pushed(copy):
                    self._push(exports.engine, reads, wish.t)
                time.sleep(LOOK_EVERY_S)
        return exports.read_changes(copy, after)

    def read_contents(self, copy: str, t: int) -> pa.Table:
        return self._exports().read_contents(copy, t)

    def _push(self, engine: Engine, reads: tuple[str, ...], t: int) -> None:
        """Pushes as far as everything is there: sites wait for each other while they load."""
        times = engine.ledger.times()
        there = min([t, engine.watermark(reads), *(times.get(name, t) for name in engine.program.imports_of(reads))])
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
