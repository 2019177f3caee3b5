"""Work besides pushing: maintains logs, removes what nobody needs, and tries again to load what is not loaded."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.model.errors import DamagedLedger, Fenced, HeadraceError
from headrace.model.log import Commit, Lease
from headrace.model.notes import Learnt
from headrace.run.logs.upkeep import Upkeep
from headrace.run.ports import Ledger
from headrace.run.push.engine import Engine
from headrace.site.accounts import Accounts
from headrace.site.auditor import Auditor
from headrace.site.gaps import Gaps, LargePieces
from headrace.site.holding_sources import HoldingSources
from headrace.site.journal import KEEP_FOR_S, KEEP_OTHER_BYTES, KEEP_ROUTINE_BYTES
from headrace.site.mending import Mending
from headrace.site.repairs import Repairs
from headrace.site.rounds import Rounds
from headrace.site.running import Running
from headrace.site.sources.sources import Sources
from headrace.site.turns import Turns
from headrace.site.unloaded import Unloaded

log = logging.getLogger("headrace.service")

UPKEEP_EVERY_S, NOTHING_DUE_S = 0.5, 3.0
"""Looking for upkeep reads all logs: less often when there was none."""
IDLE_STEP_S = 15.0
"""How long after a look that found nothing the next one is, if no rows were pushed since."""
TRIM_EVERY_S = 20.0
GRACE_S = 60.0
"""How long files stay that no log names: the process that wrote them may be about to commit."""
CUT_OFF = "it fell further behind than its site has room for changes, and has to be loaded again"


@dataclass(frozen=True, slots=True)
class KeptUp:
    """What upkeep works on: logs of what runs."""

    running: Running
    upkeep: Upkeep

    @property
    def engine(self) -> Engine:
        return self.upkeep.engine


@dataclass(slots=True)
class Housekeeping:
    """Changes what it keeps up only in `follow`, which a thread calls that holds the turn for upkeep."""

    ledger: Ledger
    lease: Lease
    turns: Turns
    gaps: Gaps
    rounds: Rounds
    sources: Sources
    auditor: Auditor
    accounts: Accounts
    repairs: Repairs
    mending: Mending
    unloaded: Unloaded
    holding: HoldingSources
    clock: Callable[[], int]
    stop: threading.Event
    large: LargePieces = field(init=False)
    _kept_up: KeptUp | None = None
    _stepped_rows: int = -1
    _step_at: float = 0.0
    _trimmed_at: float = field(default_factory=time.monotonic)
    _forgot_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.large = LargePieces(self.gaps)

    def follow(self, running: Running, engine: Engine) -> None:
        """Keeps up the logs of what runs from now on. Files without a name stay known from one plan to the next."""
        unnamed = {} if self._kept_up is None else self._kept_up.upkeep.unnamed
        self._step_at = 0.0
        self._kept_up = KeptUp(running, Upkeep(engine, budgets=running.budgets, unnamed=unnamed))

    def run(self) -> None:
        """Keeps house until the service stops."""
        pause_s = UPKEEP_EVERY_S
        while not self.stop.wait(pause_s):
            self.gaps.wait(self.stop)
            with _log_failures():  # by itself, and first: whatever else fails for days, events do not pile up
                self._forget_events()
            with _log_failures():
                with self.turns.upkeep:
                    if self._kept_up is None:
                        continue
                    pause_s = self._keep_up(self._kept_up)
                self._tidy_spools()

    def finish(self) -> None:
        """Does all upkeep that is due, at once: for those who measure what work costs with all that it entails."""
        with self.turns.upkeep:
            while self._kept_up is not None and self._kept_up.upkeep.step():
                pass

    def _forget_events(self) -> None:
        if time.monotonic() - self._forgot_at > TRIM_EVERY_S:
            self._forgot_at = time.monotonic()
            before = self.clock() - round(KEEP_FOR_S * 1e6)
            self.ledger.forget_events(self.lease, before, KEEP_ROUTINE_BYTES, KEEP_OTHER_BYTES)

    def _keep_up(self, kept: KeptUp) -> float:
        """One piece of work. Returns the seconds until the next."""
        self.repairs.mend(kept.upkeep, kept.running)
        self.mending.try_again(kept.engine, kept.running)
        site = kept.running.plan.site
        self.holding.look(kept.upkeep, None if site is None else kept.running.budgets.get(site))
        began, rows = time.monotonic(), self.rounds.counts.rows
        is_time = rows != self._stepped_rows or began >= self._step_at
        done = kept.upkeep.step(self.large.may_start) if is_time else ()
        if done:
            self.gaps.learn(time.monotonic() - began)
            self.large.learn(sum(one.read_bytes for one in done), time.monotonic() - began)
            self.accounts.kept_up(done)
        elif is_time:
            self._stepped_rows, self._step_at = rows, began + IDLE_STEP_S
        if time.monotonic() - self._trimmed_at > TRIM_EVERY_S:
            self._trimmed_at = time.monotonic()
            self._trim(kept)
        return UPKEEP_EVERY_S if done else NOTHING_DUE_S

    def _trim(self, kept: KeptUp) -> None:
        self.accounts.keep(self.clock())
        self._keep_learnt()
        if cut_off := kept.upkeep.trim(self.clock()):
            self._cut_off(kept, cut_off)
            kept.upkeep.trim(self.clock())
        kept.upkeep.sweep(time.time(), grace=GRACE_S)
        self._forget_withdrawn(kept.running)
        self.auditor.forget_commit_marks(self.lease)

    def _keep_learnt(self) -> None:
        state = self.rounds.state
        if state is not None:
            self.ledger.commit(self.lease, Commit(notes=(Learnt(state.learning.to_json()),)))

    def _cut_off(self, kept: KeptUp, vertices: tuple[str, ...]) -> None:
        """Vertices that lagged behind what the budget of their site keeps start anew, and what builds on them."""
        with self.turns.pushing:
            gone = kept.engine.forget(vertices)
        log.warning("cut off by the budget of their site, to be loaded again: %s", ", ".join(gone))
        self.unloaded.leave_out(kept.running.plan, kept.engine.program, gone, CUT_OFF)

    def _forget_withdrawn(self, running: Running) -> None:
        """Contracts that are not asked for any more: nothing is owed to them."""
        asked = running.plan.catalogue.contracts.keys()
        notes = (*self.auditor.forget_others(asked), *self.accounts.forget_others(asked))
        if notes:
            self.ledger.commit(self.lease, Commit(notes=notes))

    def _tidy_spools(self) -> None:
        """While a plan is loaded it is not certain which of them are read."""
        with self.turns.try_plan() as ours:
            running = self.rounds.running
            if ours and running is not None:
                self.sources.forget_unread(running.sources, self.lease)


@contextmanager
def _log_failures() -> Iterator[None]:
    """What fails is tried again later; a lost lease and a damaged ledger end the service."""
    try:
        yield
    except (Fenced, DamagedLedger):
        raise
    except (HeadraceError, RuntimeError) as error:
        log.warning("upkeep: %s", error)
