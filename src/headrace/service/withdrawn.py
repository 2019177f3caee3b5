"""Copies of contracts that went: dropped, as soon as who holds them lets us.

Every copy is noted in the ledger before it is made, and forgotten once it is dropped: neither a database that is away
nor a crash leaves one behind that nobody asks for. Addresses are noted as they are written, without secrets.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.model.catalogue import DeltaFolder, PostgresTable
from headrace.model.errors import NotOurs
from headrace.model.log import Lease, Round
from headrace.model.plan import Plan
from headrace.run.ports import Ledger
from headrace.service.copies import Copied, Place, target_of
from headrace.service.deadline import Deadline

log = logging.getLogger("headrace.delivery")

NOTE = "copy:"
REST_S = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
AT_ONCE_S = 5.0
"""Whoever goes over to a plan waits for so long: what answers is gone then."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A copy that was made, or was about to be."""

    project: str
    contract: str
    view: str
    place: Place

    @property
    def note(self) -> str:
        terms = f"{self.project} {json.dumps(self._place)}"
        return f"{NOTE}{self.contract}:{hashlib.sha256(terms.encode()).hexdigest()[:12]}"

    @property
    def where(self) -> str:
        return f'table "{self.place.table}"' if isinstance(self.place, PostgresTable) else f'folder "{self.place.path}"'

    @property
    def _place(self) -> dict[str, str]:
        if isinstance(self.place, PostgresTable):
            return {"dsn": self.place.dsn, "table": self.place.table}
        return {"path": self.place.path}

    def to_json(self) -> str:
        about = {"project": self.project, "contract": self.contract, "view": self.view, "place": self._place}
        return json.dumps(about)

    @staticmethod
    def from_json(text: str) -> Noted:
        found = json.loads(text)
        place = found.pop("place")
        return Noted(**found, place=DeltaFolder(**place) if "path" in place else PostgresTable(**place))


def copies_of(plan: Plan) -> Iterator[Noted]:
    """The copies that a plan's contracts ask for."""
    for contract in plan.catalogue.contracts.values():
        if contract.deliver is not None:
            yield Noted(plan.catalogue.project, contract.name, contract.view, contract.deliver)


@dataclass(slots=True)
class _Dropping:
    """Begins when the threads that wrote the copy have ended. `tried` says that it worked, or did not for once."""

    copy: Noted
    environment: Mapping[str, str]
    after: tuple[threading.Thread, ...]
    stop: threading.Event = field(default_factory=threading.Event)
    tried: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None


@dataclass(slots=True)
class Withdrawals:
    """`errors` are by note, of copies that could not be dropped yet. Folders are the project's."""

    project: Path
    ledger: Ledger
    lease: Lease
    errors: dict[str, str] = field(default_factory=dict)
    _dropping: dict[str, _Dropping] = field(default_factory=dict)

    def note(self, copies: Iterable[Noted]) -> None:
        """Before they are made, and before a plan that does not ask for them counts as running."""
        known = self.ledger.notes(NOTE)
        notes = {copy.note: copy.to_json() for copy in copies if copy.note not in known}
        if notes:
            self.ledger.commit(self.lease, Round(notes=notes))

    def run(
        self, asked: Iterable[Noted], environment: Mapping[str, str], after: tuple[threading.Thread, ...] = ()
    ) -> None:
        """Drops all that is noted but these, once some threads have ended.

        Returns when that was tried, or after a few seconds; what is left then is tried again and again.
        """
        wanted = {copy.note for copy in asked}
        for note in wanted:
            self._let_be(self._dropping.pop(note, None))
        noted = self.ledger.notes(NOTE)
        for note in noted.keys() - wanted - set(self._dropping):
            self._start(_Dropping(Noted.from_json(noted[note]), environment, after))
        deadline = Deadline(AT_ONCE_S)
        for dropping in list(self._dropping.values()):
            dropping.tried.wait(deadline.left_s)

    def tell_to_end(self) -> None:
        """What is left is dropped by the next service."""
        for dropping in list(self._dropping.values()):
            dropping.stop.set()

    def end(self, deadline: Deadline) -> None:
        self.tell_to_end()
        deadline.join(dropping.thread for dropping in list(self._dropping.values()))

    def _let_be(self, dropping: _Dropping | None) -> None:
        """Somebody asks for that copy again. One that is dropped at this moment is made anew."""
        if dropping is not None:
            dropping.stop.set()
            Deadline(AT_ONCE_S).join([dropping.thread])
            self.errors.pop(dropping.copy.note, None)

    def _start(self, dropping: _Dropping) -> None:
        self._dropping[dropping.copy.note] = dropping
        dropping.thread = threading.Thread(target=self._drop_until, args=(dropping,), name="withdraw", daemon=True)
        dropping.thread.start()

    def _drop_until(self, dropping: _Dropping) -> None:
        for thread in dropping.after:
            thread.join()
        failures = 0
        while not dropping.stop.is_set():
            try:
                self._drop(dropping.copy, dropping.environment)
                if not dropping.stop.is_set():
                    self._forget(dropping.copy)
                return
            except Exception as error:  # whatever it is: it may go tomorrow
                failures += 1
                self._failed(dropping.copy, error, failures)
            finally:
                dropping.tried.set()
            dropping.stop.wait(REST_S[min(failures, len(REST_S)) - 1])

    def _drop(self, copy: Noted, environment: Mapping[str, str]) -> None:
        """There may be none any more. Whose it is is looked at, not what it holds."""
        about = Copied(copy.project, copy.contract, copy.view)
        delivery = target_of(about, copy.place, self.project, environment).open(self.lease.epoch)
        try:
            delivery.drop()
        except NotOurs as error:
            log.warning('the copy of contract "%s" is not dropped: %s', copy.contract, error)
        finally:
            delivery.close()

    def _failed(self, copy: Noted, error: Exception, failures: int) -> None:
        what = f'{copy.where} of contract "{copy.contract}", which was withdrawn, could not be dropped yet: {error}'
        self.errors[copy.note] = what
        if failures == 1:
            log.warning("%s", what)

    def _forget(self, copy: Noted) -> None:
        self.ledger.commit(self.lease, Round(notes={copy.note: None}))
        if self.errors.pop(copy.note, None) is not None:
            log.info('%s of contract "%s", which was withdrawn, is dropped', copy.where, copy.contract)
        self._dropping.pop(copy.note, None)
