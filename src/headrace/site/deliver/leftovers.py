"""Things that we create in other people's databases and folders, as the ledger records them: copies and slots.

Each kind knows its record, its name for people, and how to remove it. Addresses are recorded as they are written in the
project, without secrets.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.connect.postgres.give_back import give_back, is_left
from headrace.connect.postgres.slots import CaptureNames, capture_names
from headrace.declare.variables import fill
from headrace.model.catalogue import DeltaFolder, PostgresTable
from headrace.model.errors import ConnectError, NotOurs
from headrace.model.names import name_of_view
from headrace.model.plan import Plan
from headrace.model.table_name import show_table
from headrace.run.ports import Ledger
from headrace.site.deliver.copies import Copied, Place, target_of
from headrace.site.folder import Folder
from headrace.site.running import Running
from headrace.site.sources.captures import project_on_this_machine

log = logging.getLogger("headrace.withdrawn")

COPY_NOTE = "copy:"
SLOT_NOTE = "slot:"


@dataclass(frozen=True, slots=True)
class Means:
    """What one needs to give something back. It may be `called_off` at any time: somebody asks for it again."""

    folder: Folder
    environment: Mapping[str, str]
    ledger: Ledger
    epoch: int
    called_off: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class NotedCopy:
    """A copy that was delivered, or was about to be."""

    project: str
    contract: str
    view: str
    place: Place

    @property
    def note(self) -> str:
        terms = f"{self.project} {json.dumps(self._place)}"
        return f"{COPY_NOTE}{self.contract}:{hashlib.sha256(terms.encode()).hexdigest()[:12]}"

    @property
    def what(self) -> str:
        where = (
            f"table {show_table(self.place.table)}"
            if isinstance(self.place, PostgresTable)
            else f'folder "{self.place.path}"'
        )
        return f'{where} of contract "{self.contract}", which was withdrawn,'

    @property
    def _place(self) -> dict[str, str]:
        if isinstance(self.place, PostgresTable):
            return {"dsn": self.place.dsn, "table": self.place.table}
        return {"path": self.place.path}

    def to_json(self) -> str:
        about = {"project": self.project, "contract": self.contract, "view": self.view, "place": self._place}
        return json.dumps(about)

    @staticmethod
    def from_json(text: str) -> NotedCopy:
        found = json.loads(text)
        place = found.pop("place")
        return NotedCopy(**found, place=DeltaFolder(**place) if "path" in place else PostgresTable(**place))

    def give_back(self, means: Means) -> None:
        """There may be none any more. Whose it is is looked at, not what it holds."""
        about = Copied(self.project, self.contract, self.view)
        delivery = target_of(about, self.place, means.folder.project, means.environment).open(means.epoch)
        try:
            delivery.drop()
        except NotOurs as error:
            log.warning('the copy of contract "%s" is not dropped: %s', self.contract, error)
        finally:
            delivery.close()


@dataclass(frozen=True, slots=True)
class NotedCapture:
    """The slot and the publications of a capture that ran, or was about to.

    `project` is as `project_on_this_machine` has it: the project's folder too makes the name of the slot.
    """

    project: str
    database: str
    dsn: str

    @property
    def names(self) -> CaptureNames:
        return capture_names(self.project, self.database)

    @property
    def note(self) -> str:
        return SLOT_NOTE + self.names.slot

    @property
    def what(self) -> str:
        return f'slot "{self.names.slot}" of database {self.database}, which is no longer captured,'

    @property
    def _folder(self) -> Path:
        return Path(self.project.partition(":")[2])

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> NotedCapture:
        return NotedCapture(**json.loads(text))

    def give_back(self, means: Means) -> None:
        """A folder that was moved or copied has notes of another folder's slots, which may be in use."""
        address = fill(self.dsn, means.environment)
        if self._folder.resolve() == means.folder.project.resolve():
            give_back(self.names, address, means.ledger, means.called_off)
        elif is_left(self.names.slot, address):
            why = f'it belongs to the project in "{self._folder}", and nobody reads it'
            raise ConnectError(f"{why}: if no project is there any more, drop it with pg_drop_replication_slot")


Noted = NotedCopy | NotedCapture


def noted_in(ledger: Ledger) -> dict[str, Noted]:
    """By note, all that was made and not given back since."""
    copies = {note: NotedCopy.from_json(text) for note, text in ledger.notes(COPY_NOTE).items()}
    return {**copies, **{note: NotedCapture.from_json(text) for note, text in ledger.notes(SLOT_NOTE).items()}}


def copies_of(plan: Plan) -> Iterator[NotedCopy]:
    """The copies that a plan's contracts ask for."""
    for contract in plan.catalogue.contracts.values():
        if contract.deliver is not None:
            yield NotedCopy(plan.catalogue.project, contract.name, name_of_view(contract.view), contract.deliver)


def captures_of(running: Running, folder: Folder) -> Iterator[NotedCapture]:
    """The captures that a plan's sources ask for."""
    project = project_on_this_machine(running.plan.catalogue.project, folder)
    for database in running.databases:
        yield NotedCapture(project, database.name, database.dsn)
