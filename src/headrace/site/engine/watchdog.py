"""Makes sure that a standstill never goes unnoticed: a thread that depends on nothing that it watches.

It reads the ledger through its own connection, and the last values that other threads recorded. It takes no lock that
pushes take, and never talks to the engine: it can only have it killed. `site/engine/standstill.py` decides; this module
reports and acts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.model.amounts import format_seconds
from headrace.model.errors import HeadraceError
from headrace.model.log import NEVER
from headrace.run.capture.spool import SPOOL
from headrace.site.engine.standstill import (
    StandstillLimits,
    Stillness,
    Verdict,
    Waiting,
    judge_standstill,
    look_again,
    note_replacement,
)
from headrace.site.troubles import ENGINE, LINKS, STANDSTILL

if TYPE_CHECKING:
    from headrace.site.service import Service

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


def watch(service: Service, engine: EngineWatch) -> None:
    """Until the service stops."""
    ledger = service.folder.ledger()
    seen = Stillness(time.monotonic())
    try:
        while not service.stop.wait(LOOK_EVERY_S):
            _tell_engine(service)
            _tell_links(service, engine.links_s())
            try:
                contracts = _waiting(service, ledger.times())
            except HeadraceError as error:
                log.warning("the ledger could not be read: %s", error)
                continue
            seen = look_again(seen, time.monotonic(), contracts, engine.limits)
            allowed_s = engine.allowed_s()
            verdict = judge_standstill(seen, contracts, engine.limits, allowed_s)
            _tell(service, verdict, contracts, engine)
            if verdict.replace and engine.replace is not None and service.absence() is None:
                seen = note_replacement(seen)
                engine.replace(f"nothing was committed for {format_seconds(round(max(verdict.stuck.values())))}")
    finally:
        ledger.close()


def _waiting(service: Service, times: Mapping[str, int]) -> list[Waiting]:
    """Contracts of the plan that runs. What others change meanwhile is read as it is: the next look is soon."""
    state, unloaded = service.rounds.state, service.unloaded.why
    if state is None:
        return []
    found = []
    for one in state.running.watched:
        captured = min((times.get(SPOOL + source, NEVER) for source in one.sources), default=NEVER)
        is_failing = one.contract in state.halted or state.why_failing(one.contract) is not None
        excused = one.contract in unloaded or is_failing
        found.append(Waiting(one.contract, one.freshness_s, times.get(one.vertex), captured, excused))
    return found


def _tell(service: Service, verdict: Verdict, contracts: list[Waiting], engine: EngineWatch) -> None:
    promised = {one.contract: one.freshness_s for one in contracts}
    hint = RESTART if engine.replace is None else GAVE_UP if verdict.gave_up else REPLACED
    service.troubles.report_exactly(
        STANDSTILL,
        {
            STANDSTILL + name: (
                f'nothing is pushed for contract "{name}": nothing was committed for '
                f"{format_seconds(round(seconds))}; the promise is {format_seconds(promised[name])}",
                hint,
            )
            for name, seconds in verdict.stuck.items()
        },
    )


def _tell_engine(service: Service) -> None:
    """An engine that died. One that starts for the first time is no trouble."""
    absence = service.absence()
    if absence is None or not absence.died:
        service.troubles.clear(ENGINE)
        return
    why = "" if absence.why is None else f": {absence.why}"
    again = "" if absence.error is None else f"; the last start failed: {absence.error}"
    service.troubles.report(ENGINE, f"{absence.engine} died and is being restarted{why}{again}", MEMORY)


def _tell_links(service: Service, left_s: float) -> None:
    """Whoever simulates links wants to wait for them, but may not expect for how long."""
    if left_s >= LONG_ON_ITS_WAY_S:
        what = f"simulated links are busy: what is sent now arrives in {format_seconds(round(left_s))}"
        service.troubles.report(LINKS, what, MORE_BANDWIDTH)
    elif left_s <= 0:
        service.troubles.clear(LINKS)


def start_watchdog(service: Service, engine: EngineWatch) -> threading.Thread:
    thread = threading.Thread(target=watch, args=(service, engine), name="watchdog", daemon=True)
    thread.start()
    return thread
