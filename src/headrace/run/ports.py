"""Interfaces to the outside world that `run` needs; `connect` implements them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from headrace.meaning.python_functions import Functions
from headrace.model.damage import FileDamage
from headrace.model.event_wire import EventsAsked, NumberedEvent
from headrace.model.full_query import FullQuery
from headrace.model.log import Commit, CommitMark, HeldLease, Lease, Log, StoredFile
from headrace.run.feeds.batch import FeedSizes, Flip, PartChanges, PartRows
from headrace.run.feeds.changes import FeedChanges, StreamPlace
from headrace.run.feeds.page import FeedRead, PageCursor, PageEntry, PageRules, Place
from headrace.run.push.items import Item, ItemOutcome

Made = TypeVar("Made")


class Ledger(Protocol):
    """The one place that says what is committed. Every commit is all or nothing."""

    def acquire(self, name: str, holder: str, seconds: float) -> Lease:
        """The lease if nobody holds it or it ran out; raises `LeaseHeld` else. Each acquisition has a new epoch."""

    def find_lease(self, name: str) -> HeldLease | None:
        """Who holds a lease, or held it until it ran out; None if it was released, or never held."""

    def renew(self, lease: Lease, seconds: float) -> None:
        """Raises `Fenced` if someone else has it now."""

    def release(self, lease: Lease) -> None: ...

    def commit(self, lease: Lease, commit: Commit) -> None:
        """Raises `Fenced` if the lease's epoch is not the current one, `Conflict` if a log is not at the expected t."""

    def logs(self, names: Iterable[str] | None = None) -> Mapping[str, Log]:
        """Logs as of one instant; all without names. Names that do not exist are missing."""

    def times(self) -> Mapping[str, int]:
        """t of every log; cheap."""

    def notes(self, prefix: str = "") -> Mapping[str, str]:
        """Texts by name. Call `read_notes` of `model.notes`, which knows what they mean."""

    def commit_marks(self, database: str, after: int, limit: int = 1) -> tuple[CommitMark, ...]:
        """The first marks whose t is later than `after`, oldest first."""

    def forget_commit_marks(self, lease: Lease, before: int) -> None: ...

    def events(self, asked: EventsAsked) -> tuple[NumberedEvent, ...]:
        """What happened, as far as it is kept: oldest first."""

    def forget_events(self, lease: Lease, before: int, routine_bytes: int, other_bytes: int) -> int:
        """Forgets some of the events that happened before a time (microseconds), or for which there is no room.

        How many: not all at once, so that nobody waits for it.
        """

    def files(self) -> frozenset[str]:
        """Every file that a log names, as `SITE/FILE`."""

    def delete_unnamed(self, files: Sequence[tuple[str, str]], delete: Callable[[str, str], None]) -> int:
        """Has those (site, file) deleted that no log names, while nobody can give them a name; how many."""

    def close(self) -> None: ...


class Store(Protocol):
    """Immutable Arrow files of sites. Names are unique for each attempt; what is committed is never overwritten."""

    def write(self, site: str, table: pa.Table, hint: str, durable: bool = True) -> StoredFile:
        """Writes a new file. `hint` makes the name readable.

        If `durable`, it outlives a loss of power once this returns; what can be made again need not.
        """

    def link(self, site: str, file: StoredFile, hint: str, durable: bool = True) -> StoredFile:
        """Gives a file that was just written one more name, for rows that stand for two things: nothing is copied, and
        each name is deleted by itself. If `durable`, the name outlives a loss of power; the file has to be durable too.
        """

    def read(self, site: str, file: StoredFile, columns: Sequence[str] | None = None, whole: bool = True) -> pa.Table:
        """The rows as they were written; raises `DamagedFile` else.

        A large file is mapped. Whoever needs a few of its rows asks for less than the `whole`: then reading costs what
        is touched, and only the first and the last block are checked.
        """

    def pin(self, site: str, files: Sequence[str], folder: Path) -> Store:
        """A store of these files alone, in a folder on the same disk: what is deleted here can still be read there."""

    def find_damaged(self, site: str, files: Iterable[StoredFile]) -> Sequence[FileDamage]:
        """Looks whether files are there, and as large as they were written: thousands in a moment."""

    def check_slowly(self, site: str, file: StoredFile) -> Generator[int, None, int | None]:
        """Checks a whole file, and yields the bytes of every part of it. In the end returns the root of its checksums,
        or None if it cannot be read just now. Raises `DamagedFile`.
        """

    def damaged(self) -> Sequence[FileDamage]:
        """Files that anybody found to be damaged, in any process, until they are forgotten."""

    def forget_damage(self, site: str, file: str) -> None:
        """Forgets that a file is damaged: it was replaced, or nobody needs it any more."""

    def list(self) -> Iterable[tuple[str, str, float]]:
        """Site, file and age in seconds of all that is there."""

    def delete(self, site: str, file: str) -> None: ...


class Runner(Protocol[Made]):
    """Runs work items (`run.push.items`)."""

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Made]]:
        """One outcome for each item, in their order. What an item raises is its error and nobody else's."""


class Evaluate(Protocol):
    """Evaluates a query from scratch, by the rules that SQL has everywhere here."""

    def __call__(self, recomputed: FullQuery, tables: Mapping[str, pa.Table], t: int, functions: Functions) -> pa.Table:
        """The answer at time t (microseconds), its columns as `recomputed.fields`.

        `tables` hold the sources' rows, each as often as it occurs, with columns named `source.column`.
        """


class Neighbours(Protocol):
    """Other sites, as the engine of one site sees them: what it has brought from them, by the name of its own log.

    Raises `ConnectError` where a site does not answer.
    """

    def reach(self) -> Mapping[str, int]:
        """How far each copy can be brought, as far as its site has told. Asks nobody."""

    def find_starts(self, copies: Collection[str]) -> Mapping[str, int]:
        """The times after which changes of copies are kept; those whose logs are not there yet are missing."""

    def read_contents(self, copy: str, t: int) -> pa.Table:
        """The rows of a copy at a time, as often as they occur (`__w`). From then on its changes are kept for us."""

    def bring(self, copies: Collection[str], t: int) -> None:
        """Returns when copies that are there have reached a time; raises `ConnectError` if that takes too long."""


class Delivery(Protocol):
    """A copy of a view that other programs read. Each step is all or nothing, its time included.

    What is done twice is noticed: `Conflict` if the copy is not where it is expected, `Fenced` if someone else has
    taken over. `CopyLocked` and `CopyChanged` are what other people do to it.
    """

    def delivered(self) -> int | None:
        """The time that the copy has reached; None if there is none, or one that only `start` can make right."""

    def start(self, rows: pa.Table, t: int) -> None:
        """Makes the copy hold exactly these rows, whatever it held before."""

    def apply(self, changes: pa.Table, after: int, upto: int) -> None:
        """Brings the copy from one time to another; `changes` are columns and `__w`, consolidated."""

    def check(self, t: int) -> None:
        """Raises `CopyChanged` if somebody else has changed the copy since it was brought to time `t`."""

    def drop(self) -> None:
        """Removes the copy; there may be none."""

    def close(self) -> None: ...


class FeedStore(Protocol):
    """What people read of a feed: events, whom they follow, and what is stored ahead for them.

    Every step is all or nothing, its time included, for events and for each part. What is done twice is noticed:
    `Conflict` if a part is not where it is expected, `Fenced` if someone else has taken over.
    """

    def take_over(self) -> Mapping[int, int]:
        """The times of parts, and of events as part `EVENTS_PART`. Those that only a start can make right are missing.

        An earlier holder is fenced off from then on.
        """

    def start_events(self, events: pa.Table, t: int) -> None:
        """Makes the store hold exactly these events (`EVENTS`), whatever it held before."""

    def apply_events(self, changes: pa.Table, after: int, upto: int) -> None:
        """Brings events from one time to another (`EVENT_CHANGES`). Who reads at a time before sees what was then."""

    def start(self, rows: PartRows, t: int) -> None:
        """Makes a part hold exactly these rows, whatever it held before."""

    def apply(self, changes: PartChanges, after: int, upto: int) -> None:
        """Brings some parts from one time to another; raises `CopyChanged` if somebody else has changed them."""

    def flip(self, flips: Sequence[Flip]) -> None:
        """Has pairs read in another way as soon as that is right: on read at once, ahead when it is stored.

        What a part has passed is left as it is.
        """

    def purge(self) -> int:
        """Deletes events that nobody can read any more; how many."""

    def sizes(self) -> FeedSizes: ...

    def find_since(self, consumer: str, producer: str) -> int | None:
        """The time since when a pair is stored ahead or on read, as it is now; None if nobody knows the pair."""

    def drop(self) -> None:
        """Removes all of the feed; there may be nothing."""

    def close(self) -> None: ...


class FeedTarget(Protocol):
    """Where a feed's store is: a value that can be sent to whoever works on it."""

    def open_store(self, epoch: int) -> FeedStore: ...

    def open_reader(self) -> FeedReader: ...

    def make_trial(self, feed: str) -> FeedTarget:
        """Another feed in the same store, of the same project, whose sessions can be told from all others."""

    def open_meter(self) -> FeedMeter | None:
        """Counts what the store does for the sessions of a trial that are open now; None if nobody can see that."""


class FeedMeter(Protocol):
    """Counts the processor seconds of a store's server."""

    def read_seconds(self) -> float:
        """Seconds so far; only differences mean something. Raises `ConnectError` if what is counted is gone."""

    def close(self) -> None: ...


class FeedReader(Protocol):
    """What a feed server needs of a store. It changes only what consumers say of themselves, and counts."""

    def read_page(self, consumer: str, rules: PageRules, cursor: PageCursor | None = None) -> FeedRead | None:
        """All that a page can be made of, in one round trip; None while the part is not there."""

    def read_ends(self, consumer: str, t: int, keep: int, floor: Place | None = None) -> Mapping[str, Place] | None:
        """The oldest events of those whom a consumer follows and of whom the store keeps no more: those with `keep`
        events, all of them after `floor`. None if the part is not as of the time `t` any more.
        """

    def read_page_and_ends(
        self, consumer: str, rules: PageRules, cursor: PageCursor | None, keep: int
    ) -> tuple[FeedRead, Mapping[str, Place]] | None:
        """Both at once, so that the part cannot move on in between. It costs more than one after the other, or keeps
        others waiting; None while the part is not there.
        """

    def read_newest(self, producers: Sequence[str], limit: int) -> Sequence[PageEntry]:
        """The newest events of each producer, as far as events are known."""

    def read_changes(self, asked: Sequence[tuple[str, StreamPlace]]) -> Sequence[FeedChanges | None]:
        """What changed for each consumer after a place, in one round trip; None while its part is not there."""

    def count_unread(self, consumer: str) -> int | None:
        """Entries that are newer than the last one seen, or all of them; None while the part is not there."""

    def mark_seen(self, consumer: str, place: Place) -> None:
        """The consumer has seen this entry and what is older; one that was said before and is newer stays."""

    def hide(self, consumer: str, producer: str, kind: str) -> None:
        """The consumer does not see the producer from now on, whatever is stored. `kind` is mute or block."""

    def unhide(self, consumer: str, producer: str, kind: str) -> None: ...

    def read_hidden(self, consumer: str) -> Sequence[tuple[str, str]]:
        """Producer and kind of all that is hidden."""

    def add_counts(self, kind: str, counts: Mapping[str, float], at: float, half_life_s: float) -> None:
        """Adds to counters that fade: after a half-life, half of a count is left. `at` is in seconds since 1970."""

    def read_counts(self, kind: str) -> Mapping[str, tuple[float, float]]:
        """Counters by id, each with the time at which it was that large."""

    def close(self) -> None: ...
