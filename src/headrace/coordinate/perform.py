"""Performs the steps to another plan, one act after another, and goes on with them where a service died.

    the list of steps is noted, with the plan that it leads to
    for each act:  it is done, then noted as done          a crash between the two repeats it
    the list is forgotten

If an act fails, what runs goes on (`take_back`) and the list is dropped. A service that is told to end keeps the list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Protocol

from headrace.coordinate.acts import ServiceActs, ran_last, tidy, withdraw_others
from headrace.coordinate.existing import find_existing
from headrace.coordinate.steps import steps_between
from headrace.model.errors import WireError
from headrace.model.going_over import GoingOver
from headrace.model.log import Commit, Lease
from headrace.model.notes import StepsBegun, StepsDone, StepsToDo, read_note
from headrace.model.plan import Plan
from headrace.model.plan_events import ApplyFailed
from headrace.model.steps import ReadAgain, Steps, say_step, split_acts
from headrace.model.wire import read_wire, write_wire
from headrace.model.words import put_in_words
from headrace.run.ports import Ledger
from headrace.run.program import Program
from headrace.site.folder import Folder
from headrace.site.loading import Loading
from headrace.site.running import Running, make_running

if TYPE_CHECKING:
    from headrace.site.service import Service

log = logging.getLogger("headrace.service")

DAMAGE_TRIES = 5
"""How often loading is begun again because it met damaged files."""
TRIES = 3
"""Steps that were begun so often, with none of them done, are not begun again."""


class Acts(Protocol):
    """Does what steps say."""

    def begin(self, left: Steps) -> None:
        """Makes ready for the steps that are left; called before the first of them."""

    def act(self, steps: Steps) -> None:
        """Steps that are done as one; may be repeated."""

    def finish(self) -> None:
        """Ends captures and gives back what nothing needs, and tells that all steps are done; called after the last."""


def apply_plan(service: Service, plan: Plan, forced: Mapping[str, float] | None = None) -> Loading:
    """Goes over to a plan in the background, by the steps that this takes now."""
    return load_running(service, make_running(plan, forced))


def load_running(service: Service, wanted: Running, reread: frozenset[str] = frozenset(), files: str = "") -> Loading:
    """Goes over to what is wanted in the background, or reads some sources of what runs again."""
    steps = find_steps(service, wanted, reread)
    return start_going(service, wanted, GoingOver(wanted.plan, wanted.forced, steps, files))


def find_steps(service: Service, wanted: Running, reread: frozenset[str] = frozenset()) -> Steps:
    """The steps from what runs, or ran last, to what is wanted."""
    existing = find_existing(service.ledger, service.folder.project)
    return steps_between(service.running or ran_last(service), wanted, existing, reread)


def start_going(service: Service, wanted: Running, going: GoingOver, done: int = 0) -> Loading:
    """Performs the steps that are left, in the background. `wanted` is what runs then."""
    loading = Loading(wanted)
    service.start_loading(loading, lambda: go_over(service, loading, going, done))
    return loading


def go_over(
    service: Service,
    loading: Loading,
    going: GoingOver,
    done: int = 0,
    make_acts: Callable[[Service, Loading], ServiceActs] = ServiceActs,
) -> None:
    """Returns when the plan runs, or what ran before does; `loading` says which."""
    with service.turns.plan:
        try:
            _perform_past_damage(service, loading, going, done, make_acts)
        except Exception as error:  # whatever it is: what ran before goes on
            log.exception("loading failed")
            loading.fail(error)
            service.journal.emit(ApplyFailed(service.clock(), reason=put_in_words(str(loading.error).splitlines()[0])))
            if not service.stop.is_set():
                forget_steps(service.ledger, service.lease)
                take_back(service, loading)
        finally:
            loading.done.set()


def _perform_past_damage(
    service: Service,
    loading: Loading,
    going: GoingOver,
    done: int,
    make_acts: Callable[[Service, Loading], ServiceActs],
) -> None:
    """Performs the steps. While nothing runs nobody mends damaged files: what they held is forgotten first, and again
    if loading meets more of them, so that it is made anew. What runs mends its files itself.
    """
    for left in range(DAMAGE_TRIES - 1, -1, -1):
        if service.running is None and service.repairs.forget_before_start(
            _programs(service, loading), loading.wanted.databases
        ):
            going, done = replace(going, steps=find_steps(service, loading.wanted)), 0
        acts = make_acts(service, loading)
        try:
            with acts.held:  # let go before what ran goes on
                perform(service.ledger, service.lease, going, acts, done)
            return
        except Exception:
            if not left or service.running is not None or service.stop.is_set() or not service.store.damaged():
                raise
            log.exception("loading failed, and files are damaged")


def _programs(service: Service, loading: Loading) -> list[Program]:
    """What is wanted, and what made the logs that are there."""
    before = ran_last(service)
    return [loading.wanted.program, *([] if before is None else [before.program])]


def perform(ledger: Ledger, lease: Lease, going: GoingOver, acts: Acts, done: int = 0) -> None:
    """Does the steps of a list that are left, and notes each as done."""
    total = len(going.steps)
    if done < total:
        noted = StepsToDo(write_wire(going, metadata.version("headrace")))
        begun = _count_begun(ledger) if read_note(ledger, StepsToDo) == noted else 0
        ledger.commit(lease, Commit(notes=(noted, StepsDone(done), StepsBegun(begun + 1))))
    acts.begin(going.steps[done:])
    for steps in split_acts(going.steps[done:]):
        acts.act(steps)
        for step in steps:
            done += 1
            log.info("step %d of %d done: %s", done, total, say_step(step))
        ledger.commit(lease, Commit(notes=(StepsDone(done), StepsBegun(0))))
    acts.finish()
    forget_steps(ledger, lease)


def forget_steps(ledger: Ledger, lease: Lease) -> None:
    """Nothing is left to do, or nobody will do it."""
    ledger.commit(lease, Commit(notes=(StepsToDo.remove(), StepsDone.remove(), StepsBegun.remove())))


def _count_begun(ledger: Ledger) -> int:
    begun = read_note(ledger, StepsBegun)
    return 0 if begun is None else begun.times


def is_stuck(folder: Folder) -> bool:
    """Services began with the steps that are left, and did none of them, too often to try once more."""
    with closing(folder.ledger()) as ledger:
        return _count_begun(ledger) >= TRIES


def find_unfinished(folder: Folder) -> tuple[GoingOver, int] | None:
    """The list of steps that the last service did not finish, and how many of them it did."""
    if not folder.exists:
        return None
    ledger = folder.ledger()
    try:
        noted, done = read_note(ledger, StepsToDo), read_note(ledger, StepsDone)
    finally:
        ledger.close()
    if noted is None:
        return None
    try:
        going = read_wire(noted.document, GoingOver)
    except WireError as error:
        log.warning("the steps that were left cannot be read, and the project is planned again: %s", error)
        return None
    plan = replace(going.plan, catalogue=replace(going.plan.catalogue, directory=str(folder.project.absolute())))
    return replace(going, plan=plan), 0 if done is None else done.steps


def take_back(service: Service, loading: Loading) -> None:
    """What runs goes on, as if no other plan had been asked for; upkeep loads what has to be loaded again."""
    running = service.running
    if running is None:
        return
    again = [step.source for step in find_steps(service, running) if isinstance(step, ReadAgain)]
    acts = ServiceActs(service, Loading(running))
    if again:
        acts.read_again(again)
    with service.turns.upkeep_and_pushing():
        service.rounds.push_program(running.program)
        tidy(service, running.program)
        acts.leave_cut_off()
    service.sources.capture_only(running)
    withdraw_others(service, running)
