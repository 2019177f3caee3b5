"""Makes sure that a standstill never goes unnoticed: a thread that depends on nothing that it watches.

It reads the ledger through its own connection, and the last values that other threads recorded. It takes no lock that
pushes take, and never talks to the engine: it can only have it killed. `site/engine/standstill.py` decides; this module
reports and acts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from headrace.model.amounts import format_seconds
from headrace.model.errors import HeadraceError
from headrace.model.log import NEVER
from headrace.model.steps import join_names
from headrace.run.capture.spool import SPOOL
from headrace.run.ports import Ledger
from headrace.site.engine.late_runner import Absence
from headrace.site.engine.standstill import (
    StandstillLimits,
    Stillness,
    Verdict,
    Waiting,
    judge_standstill,
    look_again,
    note_replacement,
)
from headrace.site.push_state import PushState
from headrace.site.troubles import ENGINE, LINKS, PAUSED, SITE, STANDSTILL, Troubles
from headrace.site.unloaded import Unloaded

log = logging.getLogger("headrace.watchdog")

LOOK_EVERY_S = 1.0
LONG_ON_ITS_WAY_S = 30.0
MORE_BANDWIDTH = "declare more bandwidth for the link, or start without `--shape-links`"
REPLACED = "if this lasts, the engine is replaced; run `headrace doctor`, and see the logs in .headrace/"
GAVE_UP = (
    "replacing the engine several times within the hour did not help, so the service leaves it alone: look at "
    "service.log and spark/ in .headrace/, then run `headrace down` and `headrace up`, which loses nothing"
)
RESTART = "run `headrace down` and `headrace up`, which loses nothing; see the logs in .headrace/"
AWAY = "it reads rows of {}, from where nothing comes now: mend that first, starting this one anew does not help"
NO_ROOM = (
    "there is no room for more changes, so other sites are asked for none until what is missing has come: mend that "
    "first, starting this one anew does not help"
)
MEMORY = "if it ran out of memory, give it more: `engine: {memory: 4 GB}` in the project file"


@dataclass(frozen=True, slots=True)
class EngineWatch:
    """What a watchdog may do to an engine: kill it, if there is one; and how long what runs now may take.

    `links_s` is how long somebody still has to wait for links that are simulated.
    """

    replace: Callable[[str], None] | None = None
    allowed_s: Callable[[], float] = lambda: 0.0
    links_s: Callable[[], float] = lambda: 0.0
    limits: StandstillLimits = field(default_factory=StandstillLimits)


@dataclass(frozen=True, slots=True)
class Watchdog:
    """What it looks at, and what it may do to the engine. Nothing of this waits for anybody.

    `open_ledger` makes a connection of its own. `state` is what rounds published last.
    """

    open_ledger: Callable[[], Ledger]
    state: Callable[[], PushState | None]
    unloaded: Unloaded
    troubles: Troubles
    absence: Callable[[], Absence | None]
    stop: threading.Event
    engine: EngineWatch

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        thread.start()
        return thread

    def _watch(self) -> None:
        """Watches until the service stops."""
        # A connection of its own: the service's is shared, and a thread that hangs inside a transaction keeps its turn.
        ledger, engine = self.open_ledger(), self.engine
        seen = Stillness(time.monotonic())
        try:
            while not self.stop.wait(LOOK_EVERY_S):
                self._tell_engine()
                self._tell_links(engine.links_s())
                try:
                    contracts = self._find_waiting(ledger.times())
                except HeadraceError as error:
                    log.warning("the ledger could not be read: %s", error)
                    continue
                seen = look_again(seen, time.monotonic(), contracts, engine.limits)
                verdict = judge_standstill(seen, contracts, engine.limits, engine.allowed_s())
                self._tell(verdict, contracts)
                # An engine that is away already is being started: to kill it again would only begin that anew.
                if verdict.replace and engine.replace is not None and self.absence() is None:
                    seen = note_replacement(seen)
                    engine.replace(f"nothing was committed for {format_seconds(round(max(verdict.stuck.values())))}")
        finally:
            ledger.close()

    def _find_waiting(self, times: Mapping[str, int]) -> list[Waiting]:
        """Contracts of the plan that runs."""
        state, unloaded = self.state(), self.unloaded.why
        if state is None:
            return []
        found = []
        for one in state.running.watched:
            needed = (*(SPOOL + source for source in one.sources), *state.program.imports_of([one.vertex]))
            captured = min((times.get(name, NEVER) for name in needed), default=NEVER)
            is_failing = one.contract in state.halted or state.why_failing(one.contract) is not None
            excused = one.contract in unloaded or is_failing
            found.append(Waiting(one.contract, one.freshness_s, times.get(one.vertex), captured, excused))
        return found

    def _tell(self, verdict: Verdict, contracts: list[Waiting]) -> None:
        promised = {one.contract: one.freshness_s for one in contracts}
        hint = RESTART if self.engine.replace is None else GAVE_UP if verdict.gave_up else REPLACED
        waits = self._find_hints(verdict.stuck)
        self.troubles.report_exactly(
            STANDSTILL,
            {
                STANDSTILL + name: (
                    f'nothing is pushed for contract "{name}": nothing was committed for '
                    f"{format_seconds(round(seconds))}; the promise is {format_seconds(promised[name])}",
                    waits.get(name, hint),
                )
                for name, seconds in verdict.stuck.items()
            },
        )

    def _find_hints(self, contracts: Collection[str]) -> dict[str, str]:
        """What to do about contracts that read rows of other sites while these do not come, by contract."""
        state = self.state()
        if state is None or not contracts:
            return {}
        troubles, found = self.troubles.all(), dict[str, str]()
        for one in state.running.watched:
            read = state.program.imports_of([one.vertex]) if one.contract in contracts else ()
            origins = sorted({state.program.imports[name].origin for name in read})
            away = [f'site "{site}"' for site in origins if SITE + site in troubles]
            if away:
                found[one.contract] = AWAY.format(join_names(away))
            elif origins and any(key.startswith(PAUSED) for key in troubles):
                found[one.contract] = NO_ROOM
        return found

    def _tell_engine(self) -> None:
        """An engine that died. One that starts for the first time is no trouble."""
        absence = self.absence()
        if absence is None or not absence.died:
            self.troubles.clear(ENGINE)
            return
        why = "" if absence.why is None else f": {absence.why}"
        again = "" if absence.error is None else f"; the last start failed: {absence.error}"
        self.troubles.report(ENGINE, f"{absence.engine} died and is being restarted{why}{again}", MEMORY)

    def _tell_links(self, left_s: float) -> None:
        """Reports simulated links that keep people waiting: they asked for that, but may not expect for how long."""
        if left_s >= LONG_ON_ITS_WAY_S:
            what = f"simulated links are busy: what is sent now arrives in {format_seconds(round(left_s))}"
            self.troubles.report(LINKS, what, MORE_BANDWIDTH)
        elif left_s <= 0:
            self.troubles.clear(LINKS)
