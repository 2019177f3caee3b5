"""Switches from the running plan to another one: loads what is new first, then removes what is no longer needed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.coordinate.telling_plans import tell_applied
from headrace.model.log import Commit
from headrace.model.notes import LogKeys, read_notes
from headrace.model.plan import Plan
from headrace.model.plan_events import ApplyFailed, SourcesReread
from headrace.model.words import put_in_words
from headrace.plan.document import plan_document
from headrace.run.capture.spool import SPOOL
from headrace.run.load.transition import between, find_made_from, make_tidying_commit
from headrace.run.program import Program
from headrace.run.push.engine import Engine
from headrace.site.deliver.leftovers import Noted, captures_of, copies_of
from headrace.site.loading import Loading
from headrace.site.running import Running, make_running

if TYPE_CHECKING:
    from headrace.site.service import Service

log = logging.getLogger("headrace.service")

READ_AGAIN = "it changed, or somebody asked for it"


def apply_plan(service: Service, plan: Plan, forced: Mapping[str, float] | None = None) -> Loading:
    """Moves to a plan in the background: what is new is loaded first, then what is old goes.

    The plan is compiled here, once: a plan that does not fit together is refused before anything has changed.
    """
    return load_running(service, make_running(plan, forced))


def load_running(service: Service, wanted: Running, reread: frozenset[str] = frozenset()) -> Loading:
    """Moves to what is wanted in the background, or reads some sources of what runs again."""
    loading = Loading(wanted, reread=reread)
    service.start_loading(loading, lambda: go_over(service, loading))
    return loading


def go_over(service: Service, loading: Loading) -> None:
    """Returns when the plan runs, or what ran before does; `loading` says which."""
    with service.turns.plan:
        try:
            _bring_up(service, loading)
        except Exception as error:  # whatever it is: what ran before goes on
            log.exception("loading failed")
            loading.fail(error)
            service.journal.emit(ApplyFailed(service.clock(), reason=put_in_words(str(loading.error).splitlines()[0])))
            _take_back(service, loading)
        finally:
            loading.done.set()


def _bring_up(service: Service, loading: Loading) -> None:
    began, running, wanted = time.monotonic(), service.running, loading.wanted
    before = running or _ran_last(service)
    both = [one for one in (before, wanted) if one is not None]
    if running is not None:
        service.sources.forget_unread(running.sources, service.lease, wanted.sources)
    _forget_changed(service, wanted, before, loading)
    service.withdrawals.keep([capture for one in both for capture in captures_of(one, service.folder)])
    service.sources.capture_both(running, wanted)
    loading.say("reading the sources")
    service.loader.wait_for_sources(loading, first=running is None)
    loading.say("starting the engine")
    service.runner.run([])  # returns once it has started: what views start from is then not old already
    with service.turns.upkeep:  # what views start from must not be compacted past their start
        unloaded = service.loader.load_new(_between(service, before, wanted.program), loading)
        with service.turns.pushing:
            service.unloaded.start(unloaded)
            service.withdrawals.note([copy for one in both for copy in copies_of(one.plan)])
            _switch(service, wanted, _engine(service, wanted.program, running=True))
    service.sources.capture_only(wanted)
    ending = service.deliveries.run(wanted.plan, wanted.program, service.environment)
    _withdraw_others(service, wanted, ending)
    tell_applied(service, before, wanted, time.monotonic() - began)
    loading.say("running")


def _ran_last(service: Service) -> Running | None:
    """What ran when the service ended last."""
    plan = service.folder.running()
    return None if plan is None else make_running(plan)


def _forget_changed(service: Service, wanted: Running, before: Running | None, loading: Loading) -> None:
    """Forgets all that was made from sources which are wanted in another shape, or which somebody wants to have read
    again: it is loaded again. `before` is what runs, or ran last.

    Called while going over to a plan, or by upkeep.
    """
    changed = service.sources.changed(wanted, before) | loading.take_reread()
    if changed:
        names = ", ".join(sorted(changed))
        loading.say(f"starting again: {names}")
        service.journal.emit(SourcesReread(service.clock(), tuple(sorted(changed)), reason=READ_AGAIN))
        service.captures.end_of(changed)
        with service.turns.upkeep_and_pushing():
            _forget_made_from(service, wanted, before, changed)
    service.sources.note_shapes(wanted, service.lease)


def _forget_made_from(service: Service, wanted: Running, before: Running | None, sources: frozenset[str]) -> None:
    """Forgets what is made by what runs or ran last, and by what is wanted: it may have been on its way before."""
    spools, known = [SPOOL + source for source in sources], service.ledger.times()
    programs = [program for program in (_program(service, before), wanted.program) if program is not None]
    made = frozenset[str]().union(*(find_made_from(program, spools) for program in programs))
    gone = tuple(name for name in (*spools, *sorted(made)) if name in known)
    notes = service.sources.forget_notes_about(sources)
    service.ledger.commit(service.lease, Commit(notes=notes, forget=gone))
    state = service.rounds.state
    if state is not None:
        service.unloaded.leave_out(state.running.plan, state.program, made, "its sources are being read again")


def _program(service: Service, before: Running | None) -> Program | None:
    """What is pushed now, or was last: while a plan is loaded that is more than the plan that runs asks for."""
    state = service.rounds.state
    if state is not None:
        return state.program
    return None if before is None else before.program


def _withdraw_others(service: Service, running: Running, writing: tuple[threading.Thread, ...] = ()) -> None:
    """Gives back what is noted and the plan does not ask for; some threads may still write copies."""
    asked: tuple[Noted, ...] = (*copies_of(running.plan), *captures_of(running, service.folder))
    service.withdrawals.run(asked, service.environment, writing)


def _engine(service: Service, program: Program, running: bool, charging: bool = True) -> Engine:
    turn = service.turns.pushing if running else None
    ports = (service.ledger, service.store, service.runner, service.lease)
    expect = service.rounds.expect()  # what is known to take long may do so
    told = (turn, service.accounts.loaded, service.in_work)
    # What loading pushes is charged to nobody: contracts would cost more in their first hour than later.
    tell = service.accounts.tell if charging else service.accounts.tell_loading
    return Engine(program, *ports, *told, expect=expect, tell=tell)


def _between(service: Service, before: Running | None, program: Program) -> Engine:
    """Makes what runs, or ran last, as before, and from now on keeps it up for both that and the program."""
    there = service.ledger.times()
    anew = frozenset(name for name in program.logs if name not in there)
    both = between(_program(service, before), program, anew)
    engine = _engine(service, both, running=service.running is not None, charging=False)
    with service.turns.pushing:
        service.rounds.push_program(engine.program)
    return engine


def _take_back(service: Service, loading: Loading) -> None:
    """What ran before goes on, as if no other plan had been asked for."""
    running = service.running
    if running is None or service.stop.is_set():
        return
    _forget_changed(service, running, None, loading)
    with service.turns.upkeep_and_pushing():
        service.rounds.push_program(running.program)
        _tidy(service, running.program)
    service.sources.capture_only(running)
    _withdraw_others(service, running)


def _tidy(service: Service, program: Program) -> None:
    """Forgets what a program has no use for; nobody may push meanwhile."""
    logs = {name: one for name, one in service.ledger.logs().items() if not name.startswith(SPOOL)}
    service.ledger.commit(service.lease, make_tidying_commit(program, logs, read_notes(service.ledger, LogKeys)))


def _switch(service: Service, wanted: Running, engine: Engine) -> None:
    """Switches to a plan: from here on it runs. Nobody pushes meanwhile."""
    plan = wanted.plan
    _start_states(service, engine, plan)
    service.folder.save_running(plan, plan_document(plan))
    _tidy(service, wanted.program)
    service.switch(wanted, engine)


def _start_states(service: Service, engine: Engine, plan: Plan) -> None:
    """Starts the states of vertices that are made in another way than before; those for which that is too late start
    anew.
    """
    try:
        engine.start_states()
    except RuntimeError as error:
        log.warning("loaded again, because they are now computed differently: %s", error)
        gone = engine.forget(engine.without_state())
        failed = service.loader.try_to_load(engine, gone)
        if failed is not None:
            service.unloaded.leave_out(plan, engine.program, gone, str(failed))
