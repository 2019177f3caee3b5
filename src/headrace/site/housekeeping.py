"""Work besides pushing: maintains logs, removes what nobody needs, and tries again to load what is not loaded."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from headrace.model.errors import Fenced, HeadraceError
from headrace.model.log import Commit
from headrace.model.notes import Learnt
from headrace.run.logs.upkeep import Upkeep
from headrace.site.mending import try_again

if TYPE_CHECKING:
    from headrace.site.service import Service

log = logging.getLogger("headrace.service")

UPKEEP_EVERY_S, NOTHING_DUE_S = 0.5, 3.0
"""Looking for upkeep reads all logs: less often when there was none."""
TRIM_EVERY_S = 20.0
GRACE_S = 60.0
"""Files that nobody names stay for so long: who wrote them may be about to."""
CUT_OFF = "it fell further behind than its site has room for changes, and has to be loaded again"


def keep_up(service: Service) -> None:
    trimmed, pause = time.monotonic(), UPKEEP_EVERY_S
    while not service.stop.wait(pause):
        service.gaps.wait(service.stop)
        try:
            with service.turns.upkeep:
                if service.upkeep is None:
                    continue
                try_again(service)
                began = time.monotonic()
                worked = service.upkeep.step() is not None
                pause = UPKEEP_EVERY_S if worked else NOTHING_DUE_S
                if worked:
                    service.gaps.learn(time.monotonic() - began)
                if time.monotonic() - trimmed > TRIM_EVERY_S:
                    trimmed = time.monotonic()
                    _trim(service, service.upkeep)
            _tidy_spools(service)
        except Fenced:
            raise
        except (HeadraceError, RuntimeError) as error:
            log.warning("upkeep: %s", error)


def _trim(service: Service, upkeep: Upkeep) -> None:
    service.accounts.keep(service.clock())
    _keep_learnt(service)
    _cut_off(service, upkeep.trim(service.clock()))
    upkeep.sweep(time.time(), grace=GRACE_S)
    _forget_withdrawn(service)
    service.auditor.forget_commit_marks(service.lease)


def _keep_learnt(service: Service) -> None:
    if service.scheduler is not None:
        service.ledger.commit(service.lease, Commit(notes=(Learnt(service.scheduler.learning.to_json()),)))


def _cut_off(service: Service, vertices: tuple[str, ...]) -> None:
    """Vertices that lagged behind what the budget of their site keeps start anew, and what builds on them."""
    if not vertices:
        return
    assert service.scheduler is not None
    engine = service.scheduler.engine
    with service.turns.pushing:
        gone = engine.forget(vertices)
    log.warning("cut off by the budget of their site, to be loaded again: %s", ", ".join(gone))
    service.unloaded.leave_out(engine, service.scheduler.running.plan, gone, CUT_OFF)


def _forget_withdrawn(service: Service) -> None:
    """Contracts that are not asked for any more: nothing is owed to them."""
    assert service.running is not None
    asked = service.running.plan.catalogue.contracts.keys()
    notes = (*service.auditor.forget_others(asked), *service.accounts.forget_others(asked))
    if notes:
        service.ledger.commit(service.lease, Commit(notes=notes))


def _tidy_spools(service: Service) -> None:
    """While a plan is loaded it is not certain which of them are read."""
    with service.turns.try_plan() as ours:
        running = service.running
        if ours and running is not None:
            service.sources.forget_unread(running.sources, service.lease)
