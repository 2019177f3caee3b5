"""Notes: the small values in the ledger that outlive a crash. Every kind is a class here, and there are no others.

A note has a name and a text. The name begins with its kind (`loaded:`) and ends with what it is about (`orders`); kinds
that occur once are a name alone. Both stay as they are from version to version, so that a project goes on after an
upgrade. `docs/state.md` says of every kind who writes it, and what happens if it is lost or damaged.

A note that cannot be read counts as missing. A warning says so, once in each process, and the part that needs the note
makes it again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import ClassVar, Protocol, Self, TypeVar, get_args

from headrace.model.catalogue import CopyPlace
from headrace.model.copy_places import read_place
from headrace.model.note_texts import (
    NumberNote,
    RemovedNote,
    StoredNote,
    TextNote,
    as_integer,
    as_list,
    as_number,
    as_object,
    as_text,
    as_texts,
    read_object,
)

log = logging.getLogger("headrace.ledger")

Value = TypeVar("Value")


class NoteReader(Protocol):
    """The ledger, as far as notes are read."""

    def notes(self, prefix: str = "") -> Mapping[str, str]: ...


# How far sources were captured


@dataclass(frozen=True, slots=True)
class CapturedUpTo(StoredNote):
    """Everything that a database committed up to here is in the spools.

    `t` is the last time given and `commit_time` that of the last transaction, both in microseconds. `place` is where
    the capture goes on, in the words of its kind of source: texts by name.
    """

    stored_as: ClassVar[str] = "position:DATABASE"
    database: str
    t: int
    commit_time: int
    place: Mapping[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        return json.dumps({"t": self.t, "commit_time": self.commit_time, **self.place}, sort_keys=True)

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        t, commit_time = as_integer(found.pop("t")), as_integer(found.pop("commit_time"))
        return cls(key, t, commit_time, {name: as_text(value) for name, value in found.items()})


@dataclass(frozen=True, slots=True)
class CapturingTables(TextNote):
    """The capture of a database captures exactly the sources that this digest stands for."""

    stored_as: ClassVar[str] = "capturing:DATABASE"
    database: str
    digest: str


@dataclass(frozen=True, slots=True)
class CaptureFailing(StoredNote):
    """Why the capture of a database makes no progress, and how to fix it if that is known."""

    stored_as: ClassVar[str] = "failing:DATABASE"
    database: str
    why: str
    hint: str | None = None

    def to_text(self) -> str:
        return json.dumps({"why": self.why, "hint": self.hint})

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        return cls(key, as_text(found["why"]), None if found["hint"] is None else as_text(found["hint"]))


@dataclass(frozen=True, slots=True)
class CutReached(StoredNote):
    """The capture of a database came to the mark of an audit, at time `t` (microseconds)."""

    stored_as: ClassVar[str] = "cut:DATABASE"
    database: str
    mark: str
    t: int

    def to_text(self) -> str:
        return f"{self.mark} {self.t}"

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        mark, t = text.split(" ")
        return cls(key, mark, int(t))


@dataclass(frozen=True, slots=True)
class SourceLoaded(NumberNote):
    """A source was read completely, as of time `t` (microseconds)."""

    stored_as: ClassVar[str] = "loaded:SOURCE"
    source: str
    t: int


TableKey = tuple[str, ...]
"""The key of a row, as texts."""


@dataclass(frozen=True, slots=True)
class SourceLoading(StoredNote):
    """A table is being read, and how far: `rows` were read, up to the key `last`, of about `estimate`.

    `again` are keys of which the log had only a part of the row. `repeats` is whether the spool has rows of the table
    from before; `begun` whether the spool says that it is being read again.
    """

    stored_as: ClassVar[str] = "load:SOURCE"
    source: str
    last: TableKey | None = None
    rows: int = 0
    again: tuple[TableKey, ...] = ()
    repeats: bool = False
    begun: bool = False
    estimate: float | None = None

    def to_text(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if name != "source"})

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        return cls(
            key,
            last=None if found["last"] is None else as_texts(found["last"]),
            rows=as_integer(found["rows"]),
            again=tuple(as_texts(one) for one in as_list(found["again"])),
            repeats=bool(found["repeats"]),
            begun=bool(found["begun"]),
            estimate=None if found["estimate"] is None else as_number(found["estimate"]),
        )


@dataclass(frozen=True, slots=True)
class SourceStopped(TextNote):
    """Why nothing more is captured of a source."""

    stored_as: ClassVar[str] = "quarantine:SOURCE"
    source: str
    why: str


@dataclass(frozen=True, slots=True)
class SourceMend(TextNote):
    """How to fix a source that was stopped, if the capture knows."""

    stored_as: ClassVar[str] = "mend:SOURCE"
    source: str
    how: str


@dataclass(frozen=True, slots=True)
class HinderedSource(StoredNote):
    """Why something that a source needs cannot be done, although its changes still come, and how to fix that."""

    stored_as: ClassVar[str] = ""
    source: str
    why: str
    hint: str

    def to_text(self) -> str:
        return json.dumps({"why": self.why, "hint": self.hint})

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        return cls(key, as_text(found["why"]), as_text(found["hint"]))


class SourceUnwatched(HinderedSource):
    """A source has no event trigger although the project asks for one."""

    stored_as: ClassVar[str] = "unwatched:SOURCE"


class SourceUnreadable(HinderedSource):
    """Our role may not read all rows of the source's table any more."""

    stored_as: ClassVar[str] = "unreadable:SOURCE"


@dataclass(frozen=True, slots=True)
class SourceMissed(NumberNote):
    """Changes of a source were missed since a time (microseconds): its table is read again, and its spool has gaps."""

    stored_as: ClassVar[str] = "missed:SOURCE"
    source: str
    t: int


@dataclass(frozen=True, slots=True)
class SourceObsolete(TextNote):
    """Why the rows that we hold of a source are worthless, so that it is being read again."""

    stored_as: ClassVar[str] = "obsolete:SOURCE"
    source: str
    why: str


@dataclass(frozen=True, slots=True)
class SourceWhole(NumberNote):
    """A source was read again, completely, at a time (microseconds): views that have not reached it are still wrong."""

    stored_as: ClassVar[str] = "whole:SOURCE"
    source: str
    t: int


@dataclass(frozen=True, slots=True)
class SourceFingerprint(TextNote):
    """What the table of a source was like when it was read: a `TableFingerprint` of `run.capture`, as JSON."""

    stored_as: ClassVar[str] = "fingerprint:SOURCE"
    source: str
    document: str


@dataclass(frozen=True, slots=True)
class SourceShape(TextNote):
    """The shape of the rows in a spool, as `model.source_shape` writes it."""

    stored_as: ClassVar[str] = "shape:SOURCE"
    source: str
    shape: str


@dataclass(frozen=True, slots=True)
class Watermark(NumberNote):
    """The latest event time of a stream so far (microseconds)."""

    stored_as: ClassVar[str] = "watermark:SOURCE"
    source: str
    t: int


# Files of a source that is a folder


@dataclass(frozen=True, slots=True)
class TakenFile(StoredNote):
    """A file whose rows are in the spool at time `t` (microseconds), and how it looked then.

    `digest` is that of its bytes. `gone_at` (microseconds) is since when it is not there any more. Notes of earlier
    versions have no `modified_ns`, or no `digest`.
    """

    stored_as: ClassVar[str] = "file:SOURCE:FILE"
    source: str
    file: str
    t: int
    rows: int
    bytes: int
    modified_ns: int | None = None
    digest: str | None = None
    gone_at: int | None = None

    @property
    def key(self) -> str:
        return f"{self.source}:{self.file}"

    def to_text(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if name not in ("source", "file")})

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        source, _, file = key.partition(":")
        found = read_object(text)
        modified, digest, gone_at = (found.get(name) for name in ("modified_ns", "digest", "gone_at"))
        t, rows, size = (as_integer(found[name]) for name in ("t", "rows", "bytes"))
        return cls(
            source,
            file,
            t,
            rows,
            size,
            None if modified is None else as_integer(modified),
            None if digest is None else as_text(digest),
            None if gone_at is None else as_integer(gone_at),
        )


@dataclass(frozen=True, slots=True)
class RejectedFile(StoredNote):
    """Why a file is left out, until it changes."""

    stored_as: ClassVar[str] = "rejected:SOURCE:FILE"
    source: str
    file: str
    why: str

    @property
    def key(self) -> str:
        return f"{self.source}:{self.file}"

    def to_text(self) -> str:
        return self.why

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        source, _, file = key.partition(":")
        return cls(source, file, text)


@dataclass(frozen=True, slots=True)
class GoneFiles(StoredNote):
    """How many files with how many rows were taken, went from the folder, and are not known any more; `last` is one."""

    stored_as: ClassVar[str] = "gone:SOURCE"
    source: str
    files: int
    rows: int
    last: str

    def to_text(self) -> str:
        return json.dumps({"files": self.files, "rows": self.rows, "last": self.last})

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        return cls(key, as_integer(found["files"]), as_integer(found["rows"]), as_text(found["last"]))


# What is computed


@dataclass(frozen=True, slots=True)
class LogKeys(StoredNote):
    """The keys, each some columns, by which a log can be looked up. A plan that needs others has them built."""

    stored_as: ClassVar[str] = "keys:LOG"
    log: str
    keys: tuple[tuple[str, ...], ...]

    def to_text(self) -> str:
        return json.dumps(self.keys)

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        return cls(key, tuple(as_texts(columns) for columns in as_list(json.loads(text))))


@dataclass(frozen=True, slots=True)
class Halted(StoredNote):
    """A bad row halted a vertex, or it `differs` from what a check computed of its inputs. `why` is for people.

    Times are microseconds: `since` the row came, `tried` that the data was looked at last.
    """

    stored_as: ClassVar[str] = "halted:VERTEX"
    vertex: str
    why: str
    since: int
    tried: int
    differs: bool = False

    def to_text(self) -> str:
        differs = {"differs": True} if self.differs else {}
        return json.dumps({"why": self.why, "since": self.since, "tried": self.tried, **differs})

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        times = as_integer(found["since"]), as_integer(found["tried"])
        return cls(key, as_text(found["why"]), *times, differs=found.get("differs") is True)


@dataclass(frozen=True, slots=True)
class Differing(StoredNote):
    """What a check found, in words, and since when that is known (microseconds)."""

    stored_as: ClassVar[str] = ""
    about: str
    what: str
    since: int

    def to_text(self) -> str:
        return json.dumps({"what": self.what, "since": self.since})

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        return cls(key, as_text(found["what"]), as_integer(found["since"]))


class SourceDiffers(Differing):
    """Rows that we hold of a source are not those that the source holds."""

    stored_as: ClassVar[str] = "differs:SOURCE"


class ViewDiffers(Differing):
    """A contract's view is not what its query says of the rows that we hold of its sources."""

    stored_as: ClassVar[str] = "wrong:CONTRACT"


@dataclass(frozen=True, slots=True)
class WantedTime(NumberNote):
    """A time (microseconds) to which an audit wants all views to be pushed."""

    stored_as: ClassVar[str] = "wanted"
    t: int


# What was measured; each text is JSON of the class named


@dataclass(frozen=True, slots=True)
class CheckedSubjects(TextNote):
    """What background checks have checked so far: `run.check.rota.write_records`."""

    stored_as: ClassVar[str] = "checks"
    document: str


@dataclass(frozen=True, slots=True)
class AuditRecord(TextNote):
    """How a promise was kept so far: `observe.audit.Record`."""

    stored_as: ClassVar[str] = "audit:CONTRACT"
    contract: str
    document: str


@dataclass(frozen=True, slots=True)
class CopyReached(NumberNote):
    """The copy of a contract was as of time `t` (microseconds) at the last look; since then it may have gone on."""

    stored_as: ClassVar[str] = "delivered:CONTRACT"
    contract: str
    t: int


@dataclass(frozen=True, slots=True)
class NotifiedUpTo(NumberNote):
    """The webhook of a template has all changes up to time `t` (microseconds)."""

    stored_as: ClassVar[str] = "notified:TEMPLATE"
    template: str
    t: int


@dataclass(frozen=True, slots=True)
class ContractAccount(TextNote):
    """What a contract cost so far: `observe.cost.Account`."""

    stored_as: ClassVar[str] = "account:CONTRACT"
    contract: str
    document: str


@dataclass(frozen=True, slots=True)
class ChargedUpTo(NumberNote):
    """The number of the last event that is in the accounts of contracts."""

    stored_as: ClassVar[str] = "charged"
    number: int


@dataclass(frozen=True, slots=True)
class LastLook(TextNote):
    """What the last look at all contracts found: `observe.shown.ContractReadings`."""

    stored_as: ClassVar[str] = "look"
    document: str


@dataclass(frozen=True, slots=True)
class Learnt(TextNote):
    """How long pushes take and how much flows: `site.learning.Learning`."""

    stored_as: ClassVar[str] = "learnt"
    document: str


@dataclass(frozen=True, slots=True)
class PlanMoves(TextNote):
    """The last moves of the running plan: a list of `coordinate.replanning.ContractMove`."""

    stored_as: ClassVar[str] = "moves"
    document: str


@dataclass(frozen=True, slots=True)
class MeasuredPrices(TextNote):
    """What it costs to serve a feed: `model.feed_prices.FeedCalibration`."""

    stored_as: ClassVar[str] = "prices:FEED"
    feed: str
    document: str


# What is on its way to run


@dataclass(frozen=True, slots=True)
class StepsToDo(TextNote):
    """The plan on its way to run, and the steps that lead there: `model.going_over.GoingOver`."""

    stored_as: ClassVar[str] = "steps"
    document: str


@dataclass(frozen=True, slots=True)
class StepsDone(NumberNote):
    """How many of the steps are done."""

    stored_as: ClassVar[str] = "steps_done"
    steps: int


@dataclass(frozen=True, slots=True)
class StepsBegun(NumberNote):
    """How often a service began with the steps that are left, and did none of them."""

    stored_as: ClassVar[str] = "steps_begun"
    times: int


# What was made in other people's databases and folders


@dataclass(frozen=True, slots=True)
class DeliveredCopy(StoredNote):
    """A copy that was delivered, or was about to be. Addresses are as written in the project, without secrets."""

    stored_as: ClassVar[str] = "copy:CONTRACT:DIGEST"
    project: str
    contract: str
    view: str
    place: CopyPlace

    @property
    def key(self) -> str:
        terms = f"{self.project} {json.dumps(asdict(self.place))}"
        return f"{self.contract}:{hashlib.sha256(terms.encode()).hexdigest()[:12]}"

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        project, contract, view = (as_text(found[name]) for name in ("project", "contract", "view"))
        place = {name: as_text(value) for name, value in as_object(found["place"]).items()}
        return cls(project, contract, view, read_place(place))


@dataclass(frozen=True, slots=True)
class KeptFeedStore(StoredNote):
    """The store of a feed that was filled, or was about to be: its kind, and its address as written in the project. One
    without an address is in the PostgreSQL of the project's own.
    """

    stored_as: ClassVar[str] = "feed_store:FEED:DIGEST"
    project: str
    feed: str
    store: str
    address: str | None = None

    @property
    def key(self) -> str:
        terms = json.dumps([self.project, self.store, self.address])
        return f"{self.feed}:{hashlib.sha256(terms.encode()).hexdigest()[:12]}"

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        address = found["address"]
        project, feed, store = (as_text(found[name]) for name in ("project", "feed", "store"))
        return cls(project, feed, store, None if address is None else as_text(address))


@dataclass(frozen=True, slots=True)
class CaptureSlot(StoredNote):
    """The slot and the publications of a capture that ran, or was about to. The address is as written in the project.

    `project` is the project's name and folder, which both make the name of the slot; `kind` is that of the source,
    which notes of earlier versions do not say.
    """

    stored_as: ClassVar[str] = "slot:SLOT"
    slot: str
    project: str
    database: str
    dsn: str
    kind: str = "postgres"

    def to_text(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if name != "slot"})

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = {"kind": "postgres", **read_object(text)}
        return cls(key, *(as_text(found[name]) for name in ("project", "database", "dsn", "kind")))


@dataclass(frozen=True, slots=True)
class ProjectHome(StoredNote):
    """The folder whose state this is: the machine's name, the folder, and the numbers that the disk gives the folder
    and the ledger. A copy has other numbers; 0 is not known.
    """

    stored_as: ClassVar[str] = "home"
    machine: str
    folder: str
    folder_number: int
    ledger_number: int

    def is_same(self, other: ProjectHome) -> bool:
        """Whether it is the same state: at the same place, or moved."""
        numbers = self.folder_number, self.ledger_number
        is_moved = 0 not in numbers and numbers == (other.folder_number, other.ledger_number)
        return is_moved or (self.machine == other.machine and self.folder == other.folder)

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, key: str, text: str) -> Self:
        found = read_object(text)
        numbers = (as_integer(found[name]) for name in ("folder_number", "ledger_number"))
        return cls(as_text(found["machine"]), as_text(found["folder"]), *numbers)


Note = (
    CapturedUpTo
    | CapturingTables
    | CaptureFailing
    | CutReached
    | SourceLoaded
    | SourceLoading
    | SourceStopped
    | SourceMend
    | SourceUnwatched
    | SourceUnreadable
    | SourceMissed
    | SourceObsolete
    | SourceWhole
    | SourceFingerprint
    | SourceShape
    | Watermark
    | TakenFile
    | RejectedFile
    | GoneFiles
    | LogKeys
    | Halted
    | SourceDiffers
    | ViewDiffers
    | WantedTime
    | CheckedSubjects
    | AuditRecord
    | CopyReached
    | NotifiedUpTo
    | ContractAccount
    | ChargedUpTo
    | LastLook
    | Learnt
    | PlanMoves
    | MeasuredPrices
    | StepsToDo
    | StepsDone
    | StepsBegun
    | DeliveredCopy
    | CaptureSlot
    | KeptFeedStore
    | ProjectHome
)
"""Every kind of note."""

NoteChange = Note | RemovedNote
"""What a commit does to notes: it writes one in place of another of its name, or removes one."""

KINDS: tuple[type[Note], ...] = get_args(Note)

ABOUT_SOURCES: tuple[type[Note], ...] = (
    SourceLoaded,
    SourceLoading,
    SourceStopped,
    SourceMend,
    SourceUnwatched,
    SourceUnreadable,
    SourceMissed,
    SourceObsolete,
    SourceWhole,
    SourceFingerprint,
    SourceShape,
    Watermark,
    TakenFile,
    RejectedFile,
    GoneFiles,
    SourceDiffers,
)
"""Kinds whose keys are a source, or a source and one of its files: they go with the source's spool."""

Kind = TypeVar("Kind", bound=StoredNote)
_Document = (
    SourceFingerprint | CheckedSubjects | AuditRecord | ContractAccount | LastLook | Learnt | PlanMoves | MeasuredPrices
)


def read_notes(ledger: NoteReader, kind: type[Kind], about: str = "") -> dict[str, Kind]:
    """All notes of a kind by key; with `about`, those whose keys begin with that and a colon."""
    found = {}
    for key, text in _texts_by_key(ledger, kind, about and f"{about}:").items():
        note = _read(kind, key, text)
        if note is not None:
            found[key] = note
    return found


def read_note(ledger: NoteReader, kind: type[Kind], key: str = "") -> Kind | None:
    text = ledger.notes(kind.name_of(key)).get(kind.name_of(key))
    return None if text is None else _read(kind, key, text)


def note_keys(ledger: NoteReader, kind: type[StoredNote], about: str = "") -> list[str]:
    """The keys of all notes of a kind, those that cannot be read included."""
    return list(_texts_by_key(ledger, kind, about and f"{about}:"))


def remove_notes_about(ledger: NoteReader, sources: frozenset[str]) -> tuple[RemovedNote, ...]:
    """Removes all notes about some sources, readable or not, and the positions of those with clocks of their own."""
    about = tuple(
        kind.remove(key)
        for kind in ABOUT_SOURCES
        for key in note_keys(ledger, kind)
        if key in sources or (kind in (TakenFile, RejectedFile) and key.partition(":")[0] in sources)
    )
    # The clock of one source alone is called KIND:SOURCE (`model.source_clock`); those of databases have no colon.
    positions = (key for key in note_keys(ledger, CapturedUpTo) if key.partition(":")[2] in sources)
    return (*about, *(CapturedUpTo.remove(key) for key in positions))


def read_document(note: _Document, read: Callable[[str], Value]) -> Value | None:
    """What another module wrote into a note; None, with a warning, if `read` cannot make anything of it."""
    try:
        return read(note.document)
    except (KeyError, TypeError, ValueError) as error:
        _warn_once(note.name, str(error) or type(error).__name__)
        return None


def join_notes(ledgers: Iterable[NoteReader], prefix: str) -> dict[str, str]:
    """The texts of several ledgers as if they were one."""
    return {name: text for ledger in ledgers for name, text in ledger.notes(prefix).items()}


def _texts_by_key(ledger: NoteReader, kind: type[StoredNote], begin: str) -> dict[str, str]:
    notes = ledger.notes(kind.name_of(begin))
    if ":" not in kind.stored_as:
        notes = {name: text for name, text in notes.items() if name == kind.stored_as}
    return {name.removeprefix(kind.prefix()): text for name, text in notes.items()}


def _read(kind: type[Kind], key: str, text: str) -> Kind | None:
    try:
        return kind.from_text(key, text)
    except (KeyError, TypeError, ValueError) as error:
        _warn_once(kind.name_of(key), str(error) or type(error).__name__)
        return None


@lru_cache(1000)
def _warn_once(name: str, why: str) -> None:
    log.warning('the note "%s" in the ledger cannot be read, and counts as missing: %s', name, why)
