"""Copies of contracts that went: dropped, as soon as who holds them lets us.

What is to be dropped is noted in the ledger before another plan runs, and forgotten once it is gone: neither a database
that is away nor a crash leaves a copy behind. Addresses are noted as they are written, without secrets.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.model.catalogue import DeltaFolder, PostgresTable
from headrace.model.errors import HeadraceError, NotOurs
from headrace.model.log import Lease, Round
from headrace.model.plan import Plan
from headrace.run.ports import Ledger
from headrace.service.copies import Copied, Place, target_of

log = logging.getLogger("headrace.delivery")

NOTE = "withdrawn:"
REST_S = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
AT_ONCE_S = 5.0
"""Whoever goes over to a plan waits for so long: what answers is gone then."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A copy that nobody asks for any more."""

    project: str
    contract: str
    view: str
    place: Place

    @property
    def note(self) -> str:
        return f"{NOTE}{self.contract}:{hashlib.sha256(self.to_json().encode()).hexdigest()[:12]}"

    @property
    def where(self) -> str:
        return f'table "{self.place.table}"' if isinstance(self.place, PostgresTable) else f'"{self.place.path}"'

    def to_json(self) -> str:
        place = (
            {"dsn": self.place.dsn, "table": self.place.table}
            if isinstance(self.place, PostgresTable)
            else {"path": self.place.path}
        )
        return json.dumps({"project": self.project, "contract": self.contract, "view": self.view, "place": place})

    @staticmethod
    def from_json(text: str) -> Withdrawn:
        found = json.loads(text)
        place = found.pop("place")
        return Withdrawn(**found, place=DeltaFolder(**place) if "path" in place else PostgresTable(**place))


def copies_of(plan: Plan) -> Iterator[Withdrawn]:
    """The copies that a plan's contracts ask for."""
    for contract in plan.catalogue.contracts.values():
        if contract.deliver is not None:
            yield Withdrawn(plan.catalogue.project, contract.name, contract.view, contract.deliver)


@dataclass(slots=True)
class _Dropping:
    stop: threading.Event
    thread: threading.Thread


@dataclass(slots=True)
class Withdrawals:
    """`errors` are by note, of copies that could not be dropped yet. Folders are the project's."""

    project: Path
    ledger: Ledger
    lease: Lease
    errors: dict[str, str] = field(default_factory=dict)
    _dropping: dict[str, _Dropping] = field(default_factory=dict)

    def note(self, before: Plan | None, plan: Plan) -> None:
        """What one plan delivers and the next does not. Call it before the next one counts as running."""
        if before is not None:
            asked = _places(copies_of(plan))
            gone = [copy for copy in copies_of(before) if (copy.contract, copy.place) not in asked]
            if gone:
                self.ledger.commit(self.lease, Round(notes={copy.note: copy.to_json() for copy in gone}))

    def run(self, plan: Plan, environment: Mapping[str, str], after: Collection[threading.Thread] = ()) -> None:
        """Drops all that is noted and that the plan does not ask for, once these threads have ended.

        Returns when that is done, or after a few seconds; what is left then is tried again and again.
        """
        asked = _places(copies_of(plan))
        noted = {note: Withdrawn.from_json(text) for note, text in self.ledger.notes(NOTE).items()}
        again = [note for note, copy in noted.items() if (copy.contract, copy.place) in asked]
        for note in again:
            self._let_be(note)
        for note in noted.keys() - self._dropping.keys() - set(again):
            self._start(note, noted[note], environment, after)
        until = time.monotonic() + AT_ONCE_S
        for dropping in list(self._dropping.values()):
            dropping.thread.join(max(0.0, until - time.monotonic()))

    def stop(self) -> None:
        """What is left is tried again by the next service."""
        for dropping in self._dropping.values():
            dropping.stop.set()

    def _let_be(self, note: str) -> None:
        """Somebody asks for that copy again."""
        dropping = self._dropping.pop(note, None)
        if dropping is not None:
            dropping.stop.set()
            dropping.thread.join(AT_ONCE_S)
        self._forget(note)

    def _start(
        self, note: str, copy: Withdrawn, environment: Mapping[str, str], after: Collection[threading.Thread]
    ) -> None:
        stop = threading.Event()
        thread = threading.Thread(
            target=self._drop_until, args=(note, copy, environment, after, stop), name="withdraw", daemon=True
        )
        self._dropping[note] = _Dropping(stop, thread)
        thread.start()

    def _drop_until(
        self,
        note: str,
        copy: Withdrawn,
        environment: Mapping[str, str],
        after: Collection[threading.Thread],
        stop: threading.Event,
    ) -> None:
        for thread in after:
            thread.join()
        failures = 0
        while not stop.is_set():
            try:
                self._drop(copy, environment)
            except NotOurs as error:
                log.warning('the copy of contract "%s" is not dropped: %s', copy.contract, error)
            except Exception as error:  # whatever it is: it may go tomorrow
                failures += 1
                self.errors[note] = f'{copy.where} of contract "{copy.contract}", which went, is still there: {error}'
                if failures == 1:
                    log.warning("%s; tried again until it is gone", self.errors[note])
                stop.wait(REST_S[min(failures, len(REST_S)) - 1])
                continue
            if failures:
                log.info('the copy of contract "%s" was dropped', copy.contract)
            self._forget(note)
            self._dropping.pop(note, None)
            return

    def _drop(self, copy: Withdrawn, environment: Mapping[str, str]) -> None:
        """There may be none any more. Whose it is is looked at, not what it holds."""
        about = Copied(copy.project, copy.contract, copy.view)
        delivery = target_of(about, copy.place, self.project, environment).open(self.lease.epoch)
        try:
            delivery.drop()
        finally:
            delivery.close()

    def _forget(self, note: str) -> None:
        try:
            self.ledger.commit(self.lease, Round(notes={note: None}))
        except HeadraceError as error:
            log.warning("somebody else drops what was withdrawn: %s", error)
        self.errors.pop(note, None)


def _places(copies: Iterable[Withdrawn]) -> frozenset[tuple[str, Place]]:
    return frozenset((copy.contract, copy.place) for copy in copies)
