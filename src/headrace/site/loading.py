"""Loads what a new plan adds to the running one, while pushes continue: sources first, then indexes, then contents.

Views that cannot be computed are left out, and do not hold up the others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.model.errors import Conflict
from headrace.model.notes import SourceLoaded, SourceLoading, read_notes
from headrace.model.steps import join_names
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.columns import serving_log
from headrace.run.ports import Ledger
from headrace.run.program import Program
from headrace.run.push.engine import Engine, NoAnswer, NotThereYet
from headrace.site.running import Running
from headrace.site.sources.captures import Captures
from headrace.site.sources.troubles import find_held_up_sources
from headrace.site.unloaded import find_left_out

log = logging.getLogger("headrace.service")

LOAD_TRIES = 5
SITES_WITHIN_S = 60.0
"""How long loading waits for other sites while nothing comes from them."""
CATCH_UP_S = 20.0
HELD_UP_FOR_S = 10.0
"""A note or log of before may say that a source is held up, until its capture has started."""
SHOWN = 3
"""Names of sources that are told while they are read."""


@dataclass(slots=True)
class Loading:
    """What is wanted to run, and how far it is.

    Only the thread that loads calls the methods. Others read `phase`, and `error` once it is `done`. Contracts that are
    `held` back go on as they were made before, and why: what is wanted then has them so.
    """

    wanted: Running
    phase: str = "starting captures"
    error: str | None = None
    held: Mapping[str, str] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    def say(self, phase: str) -> None:
        """How far it is from now on."""
        self.phase = phase

    def hold(self, wanted: Running, held: Mapping[str, str]) -> None:
        """What runs from now on, with contracts that are held back, and why."""
        self.wanted, self.held = wanted, held

    def fail(self, error: Exception) -> None:
        """Why what is wanted does not run."""
        self.error = str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class Loader:
    ledger: Ledger
    captures: Captures
    stop: threading.Event
    forget_lost: Callable[[Engine], None] = lambda _: None
    """Forgets what came from other sites and has to start anew."""
    find_silent: Callable[[], Collection[str]] = tuple
    """Other sites that do not answer."""

    # Sources

    def wait_for_sources(self, loading: Loading, first: bool) -> None:
        """Waits until all sources were read completely, or all that can be read now while some contract needs no
        others.

        The contracts that need others are loaded once these can be read. If no contract is left then we wait for as
        long as it takes when this is the `first` plan, and raise RuntimeError when another one runs.
        """
        patience, used = time.monotonic() + HELD_UP_FOR_S, loading.wanted.sources
        while not self.stop.is_set():
            loaded = read_notes(self.ledger, SourceLoaded)
            missing = sorted(name for name in used if name not in loaded)
            held_up = find_held_up_sources(self.ledger, self.captures) if time.monotonic() > patience else {}
            done = not missing or (held_up.keys() >= set(missing) and _serves_some(loading.wanted, missing))
            if done:
                read = [name for name in used if name not in missing]
                self._wait_for_times({SPOOL + name: max(one.t for one in loaded.values()) for name in read})
                return
            if held_up.keys() >= set(missing) and not first:
                raise RuntimeError(f'source "{missing[0]}" cannot be read: {held_up[missing[0]]}')
            self.captures.check()
            told = ", ".join(self._progress(missing[:SHOWN]))
            loading.say(f"reading {len(missing)} of {len(used)} sources: {told}")
            self.stop.wait(0.1)
        raise RuntimeError("the service is stopping")

    def _progress(self, sources: Collection[str]) -> Iterator[str]:
        """How much of each was read, as far as its database knows how large it is."""
        notes = read_notes(self.ledger, SourceLoading)
        for name in sources:
            found = notes.get(name, SourceLoading(name))
            rows, estimate = found.rows, found.estimate
            yield f"{name} {min(90, int(10 * rows / estimate) * 10)} %" if rows and estimate else name

    def _wait_for_times(self, wanted: Mapping[str, int]) -> None:
        """Waits until logs have reached times: views loaded before that would lack rows that were read a moment later.

        Not for ever: a source that makes no progress any more holds up nobody but its own views.
        """
        until = time.monotonic() + CATCH_UP_S
        while time.monotonic() < until and not self.stop.is_set():
            times = self.ledger.times()
            if all(times.get(name, t) >= t for name, t in wanted.items()):
                return
            self.stop.wait(0.05)

    # Vertices

    def load_contracts(self, engine: Engine, wanted: Running, names: Collection[str]) -> dict[str, str]:
        """Loads vertices of what is wanted, all at one time; by contract, why it could not be loaded.

        If they cannot be loaded together, each contract is loaded alone. Raises RuntimeError if none can be.
        """
        program, contracts = wanted.program, wanted.plan.contracts
        error = self.load_if_read(engine, names)
        if error is None:
            return {}
        log.warning("loading one by one: %s", error)
        unloaded = {}
        for entry in contracts:
            # With all that its view will be made from, also if it is made in another way until then: whoever loads that
            # later would start it at a time that the view has not reached.
            error = self.load_if_read(engine, program.upstream([serving_log(program, entry)]))
            if error is not None:
                unloaded[entry.contract] = error
        if len(unloaded) == len(contracts) and not any(isinstance(why, NoAnswer) for why in unloaded.values()):
            raise RuntimeError(str(next(iter(unloaded.values()))))
        return {contract: str(why) for contract, why in unloaded.items()}

    def load_as_available(
        self, engine: Engine, loading: Loading, names: Collection[str], kept: Collection[str] = ()
    ) -> dict[str, str]:
        """Loads vertices of one site as other sites get so far; by contract, why it could not be loaded.

        Sites wait for each other, so nobody waits for all of them: what is loaded here may be what others wait for.
        What does not come for a while is left to upkeep; at once, if it comes from sites that do not answer, and no
        contract that is `kept` would lose its rows.
        """
        error: RuntimeError | None = None
        patience = time.monotonic() + SITES_WITHIN_S
        while missing := engine.missing_of(names):
            self.forget_lost(engine)
            available = engine.find_available(missing)
            if available:
                error = self.load_if_read(engine, available)
                may_come = isinstance(error, NotThereYet) or len(available) < len(missing)
                if error is not None and not isinstance(error, NotThereYet):
                    # One that cannot be loaded keeps nobody else: each is tried by itself.
                    for name in available:
                        found = self.load_if_read(engine, [name])
                        may_come = may_come or isinstance(found, NotThereYet)
                        error = found or error
                if len(engine.missing_of(names)) < len(missing):
                    patience = time.monotonic() + SITES_WITHIN_S
                    continue
                if not may_come:  # what is missing is not what other sites have: upkeep tries again
                    break
                log.info("not loaded yet: %s", error)
            left_out = find_left_out(loading.wanted.plan, engine.program, missing)
            silent = self.find_only_silent(engine, missing)
            if silent and not set(left_out).intersection(kept):
                error = NotThereYet(say_silent(silent))
                break
            loading.say(f"waiting for other sites: {len(missing)} vertices")
            if time.monotonic() > patience or self.stop.wait(0.2):
                break
        why = str(error) if error is not None else "other sites have not sent what it starts from yet"
        return dict.fromkeys(find_left_out(loading.wanted.plan, engine.program, engine.missing_of(names)), why)

    def find_only_silent(self, engine: Engine, missing: Collection[str]) -> frozenset[str]:
        """The sites that do not answer, if each of some vertices reads something of one of them."""
        program, silent = engine.program, self.find_silent()
        from_silent = {name: copy.origin for name, copy in program.imports.items() if copy.origin in silent}
        read = [from_silent.keys() & program.imports_of([name]) for name in missing]
        return frozenset(from_silent[name] for names in read for name in names) if all(read) else frozenset()

    def level(self, engine: Engine, program: Program) -> None:
        """Brings what a program makes in another way as far as it can go on with it."""
        error = self._try(lambda: engine.start_imports(program)) or self._try(lambda: engine.level(program))
        if error is not None:
            log.warning("these will be late, because they are now computed differently: %s", error)

    def try_to_load(self, engine: Engine, wanted: Collection[str]) -> RuntimeError | None:
        """Why it did not work; None if it did. Sources of several databases may not have come to a common time yet.

        That stays the same in all tries: while we wait for the last of them the others go on. The caller holds the turn
        for upkeep throughout, since indexes that were merged past that time could not be read as of it.
        """
        try:
            t = engine.common_time(wanted)
        except NotThereYet as error:
            return error
        return self._try(lambda: engine.load(wanted, t))

    def load_if_read(self, engine: Engine, wanted: Collection[str]) -> RuntimeError | None:
        """Loads vertices where some of the sources may not have been read."""
        loaded = read_notes(self.ledger, SourceLoaded)
        sources = (spool.removeprefix(SPOOL) for spool in engine.spools(wanted))
        unread = sorted(source for source in sources if source not in loaded)
        if not unread:
            return self.try_to_load(engine, wanted)
        why = find_held_up_sources(self.ledger, self.captures).get(unread[0])
        told = "is not read yet" if why is None else f"cannot be read: {why}"
        return NotThereYet(f'source "{unread[0]}" {told}')

    def _try(self, act: Callable[[], object]) -> RuntimeError | None:
        for left in range(LOAD_TRIES - 1, -1, -1):
            try:
                act()
                return None
            except NotThereYet as error:
                if not left or self.stop.wait(1.0):
                    return error
            except RuntimeError as error:
                return error
            except Conflict as error:  # others push at the same time
                if not left:
                    return RuntimeError(str(error))
        return None


def say_silent(sites: Collection[str]) -> str:
    """Why rows do not come from these."""
    named = join_names([f'"{site}"' for site in sorted(sites)])
    return f"site {named} does not answer" if len(sites) == 1 else f"sites {named} do not answer"


def _serves_some(wanted: Running, missing: Collection[str]) -> bool:
    """Whether a contract reads none of these sources."""
    return any(one.sources.isdisjoint(missing) for one in wanted.watched)
