"""Removes slots, publications and copies that no plan needs any more, as soon as their database or folder allows it.

Everything that we create in other people's databases and folders is recorded in the ledger beforehand, and the record
is deleted after the removal: neither a database that is down nor a crash leaves anything behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from headrace.model.log import Commit, Lease
from headrace.model.note_texts import RemovedNote
from headrace.model.notes import DeliveredCopy
from headrace.run.ports import Ledger
from headrace.site.deadline import Deadline
from headrace.site.deliver.leftovers import Means, Noted, describe_thing, give_thing_back, read_noted
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.troubles import WITHDRAWAL, Troubles

MEND = "the service tries again at least every minute"

BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
AT_ONCE_S = 5.0
"""How long going over to a plan waits: what answers is gone by then."""


@dataclass(slots=True)
class _GivingBack:
    """Begins when the threads that wrote to it have ended. `tried` says that it worked, or did not for once."""

    thing: Noted
    environment: Mapping[str, str]
    after: tuple[threading.Thread, ...]
    stop: threading.Event = field(default_factory=threading.Event)
    tried: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None


@dataclass(slots=True)
class Withdrawals:
    """What could not be given back yet is a trouble, by its note."""

    folder: Folder
    ledger: Ledger
    lease: Lease
    own_dsn: Callable[[], str]
    """Starts the PostgreSQL of the project's own."""
    troubles: Troubles = field(default_factory=Troubles)
    journal: Journal = field(default_factory=Journal)
    _running: dict[str, _GivingBack] = field(default_factory=dict)
    _writing: tuple[threading.Thread, ...] = ()

    def note(self, things: Collection[Noted]) -> None:
        """Notes things before they are made, and before a plan that does not ask for them counts as running."""
        known = read_noted(self.ledger)
        new = tuple(thing for thing in things if known.get(thing.name) != thing)
        if new:
            self.ledger.commit(self.lease, Commit(notes=new))

    def keep(self, things: Collection[Noted]) -> None:
        """Notes them, and lets be what is given back now: who makes it afterwards finds it whole, or makes it anew."""
        self._let_be({thing.name for thing in things})
        self.note(things)

    def run(
        self, asked: Collection[Noted], environment: Mapping[str, str], writing: tuple[threading.Thread, ...] = ()
    ) -> None:
        """Gives back all that is noted but this; copies once the threads that may be writing them have ended.

        Returns when that was tried, or after a few seconds; what is left then is tried again and again.
        """
        self.keep(asked)
        self._writing = tuple(thread for thread in {*self._writing, *writing} if thread.is_alive())
        noted = read_noted(self.ledger)
        for note in noted.keys() - {thing.name for thing in asked} - set(self._running):
            thing = noted[note]
            self._start(_GivingBack(thing, environment, self._writing if isinstance(thing, DeliveredCopy) else ()))
        deadline = Deadline(AT_ONCE_S)
        for giving_back in list(self._running.values()):
            if not giving_back.tried.wait(deadline.left_s):
                self._report(giving_back.thing, "no answer so far")
                if giving_back.thing.name not in self._running:  # it answered just now
                    self.troubles.clear(WITHDRAWAL + giving_back.thing.name)

    def tell_to_end(self) -> None:
        """What is left is given back by the next service."""
        for giving_back in list(self._running.values()):
            giving_back.stop.set()

    def end(self, deadline: Deadline) -> None:
        self.tell_to_end()
        deadline.join(giving_back.thread for giving_back in list(self._running.values()))

    def _let_be(self, notes: set[str]) -> None:
        called_off = [self._running.pop(note) for note in notes & set(self._running)]
        for giving_back in called_off:
            giving_back.stop.set()
        Deadline(AT_ONCE_S).join(giving_back.thread for giving_back in called_off)
        for note in notes:
            self.troubles.clear(WITHDRAWAL + note)

    def _start(self, giving_back: _GivingBack) -> None:
        self._running[giving_back.thing.name] = giving_back
        thread = threading.Thread(target=self._give_back_until, args=(giving_back,), name="withdraw", daemon=True)
        giving_back.thread = thread
        thread.start()

    def _give_back_until(self, giving_back: _GivingBack) -> None:
        for thread in giving_back.after:
            thread.join()
        thing, failures = giving_back.thing, 0
        called_off, environment = giving_back.stop.is_set, giving_back.environment
        means = Means(
            self.folder, environment, self.ledger, self.lease.epoch, called_off, self.own_dsn, self.journal.emit
        )
        while not giving_back.stop.is_set():
            try:
                give_thing_back(thing, means)
                if not giving_back.stop.is_set():
                    self._forget(thing)
                return
            except Exception as error:  # whatever it is: it may go tomorrow
                failures += 1
                if not giving_back.stop.is_set():  # else nobody waits for it any more
                    self._report(thing, str(error))
            finally:
                giving_back.tried.set()
            giving_back.stop.wait(BACKOFF_S[min(failures, len(BACKOFF_S)) - 1])

    def _report(self, thing: Noted, why: str) -> None:
        self.troubles.report(WITHDRAWAL + thing.name, f"{describe_thing(thing)} could not be dropped yet: {why}", MEND)

    def _forget(self, thing: Noted) -> None:
        self.ledger.commit(self.lease, Commit(notes=(RemovedNote(thing.name),)))
        self._running.pop(thing.name, None)
        self.troubles.clear(WITHDRAWAL + thing.name)
