"""Pushes beside all others, each in a thread of its own: prepared and committed in turn, run while others push.

What somebody has no use for any more when it is done, because the plan is another or the service ends, is thrown away:
it is in files that nobody names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import Conflict
from headrace.run.push.items import ItemOutcome
from headrace.run.push.push import Pushed
from headrace.run.push.work import Produced, WorkItem
from headrace.run.schedule.next_push import Scene
from headrace.run.schedule.next_round import RoundPush

if TYPE_CHECKING:
    from headrace.site.service import Service

log = logging.getLogger("headrace.service")


def begin_beside(service: Service, moves: Iterable[RoundPush], scene: Scene) -> None:
    """By whoever has the turn to push."""
    assert service.scheduler is not None
    for move in moves:
        item = service.scheduler.begin(move, scene)
        if isinstance(item, Pushed):
            service.note_pushed([item], 0.0)
        else:
            held = ExitStack()
            held.enter_context(service.in_work.holding(item))  # before anybody else may push, and replace its files
            service.start(partial(_push_beside, service, item, held), f"push of {item.name}")


def _push_beside(service: Service, item: WorkItem, held: ExitStack) -> None:
    with held:
        began = time.perf_counter()
        outcome = service.in_work.run(service.runner, item)
        with service.turns.pushing:
            if not service.stop.is_set():
                _finish(service, item, outcome, time.perf_counter() - began)


def _finish(service: Service, item: WorkItem, outcome: ItemOutcome[Produced], seconds: float) -> None:
    """What runs may be another plan by now: it decides whether it wants this."""
    assert service.scheduler is not None
    try:
        pushed = service.scheduler.finish(item, outcome, service.clock())
    except Conflict as error:
        log.warning("somebody else moved what was pushed beside the others: %s", error)
        pushed = []
    service.note_pushed(pushed, seconds)
