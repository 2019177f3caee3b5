"""Logs: what a vertex holds, as immutable files, and how one commit moves several of them on.

A log is the rows of one vertex over time. Its pieces are files of three kinds:

    change  rows (columns, t, o, w) with after < t <= upto: what readers of changes read
    base    the contents as of `upto`; kept only where contents are needed (relations, states of operators)
    index   the contents again, sorted by the hash of a key, for lookups: derived from the others, may be deleted

Contents at a time = base + changes after it. Changes up to `start` are gone. Times are microseconds of Headrace's own
clock. Files are named once, never overwritten, and several logs may name the same file; a file that no log names is
garbage.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.model.events import Event
from headrace.model.notes import NoteChange

NEVER = -(2**62)
"""Before every time."""


class PieceKind(StrEnum):
    CHANGE = "change"
    BASE = "base"
    INDEX = "run"  # as ledgers that exist call it


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it was written: its name in the store of a site, its size, and the root of its checksums.

    `root` is None of a file that was written before there were checksums, and has not been summed up since.
    """

    file: str
    bytes: int
    root: int | None

    def as_piece(
        self,
        kind: PieceKind,
        after: int,
        upto: int,
        rows: int,
        key: tuple[str, ...] = (),
        shard: int = 0,
        shards: int = 1,
    ) -> Piece:
        return Piece(kind, self.file, after, upto, rows, self.bytes, key, shard, shards, self.root)


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of a log. `after` is exclusive, `upto` inclusive; a base holds everything up to `upto`.

    Indexes name their `key` (columns), their shard, and how many shards there were. `file`, `bytes` and `root` are
    those of a `StoredFile` of the log's site.
    """

    kind: PieceKind
    file: str
    after: int
    upto: int
    rows: int
    bytes: int
    key: tuple[str, ...] = ()
    shard: int = 0
    shards: int = 1
    root: int | None = None

    @property
    def stored(self) -> StoredFile:
        return StoredFile(self.file, self.bytes, self.root)


@dataclass(frozen=True, slots=True)
class Log:
    """`t`: everything up to this time is in it. `start`: changes after this time can be read."""

    name: str
    site: str
    t: int
    start: int
    pieces: tuple[Piece, ...] = ()

    def of_kind(self, kind: PieceKind) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if piece.kind is kind)

    def changes(self, after: int, upto: int) -> tuple[Piece, ...]:
        """The files that hold changes of an interval, oldest first; they may hold more."""
        assert after >= self.start, f'log "{self.name}" has no changes before {self.start}, asked from {after}'
        found = [p for p in self.of_kind(PieceKind.CHANGE) if p.upto > after and p.after < upto]
        return tuple(sorted(found, key=lambda piece: (piece.after, piece.upto)))

    @property
    def base_t(self) -> int | None:
        """The time of the base; None if contents are not kept."""
        return max((piece.upto for piece in self.of_kind(PieceKind.BASE)), default=None)

    @property
    def contents(self) -> tuple[Piece, ...]:
        """Base, and the changes after it."""
        base = self.base_t
        after = (piece for piece in self.of_kind(PieceKind.CHANGE) if base is None or piece.after >= base)
        return (*self.of_kind(PieceKind.BASE), *after)

    def without_changes_up_to(self, start: int) -> Edit:
        """Changes up to this time are gone."""
        gone = tuple(sorted(piece.file for piece in self.of_kind(PieceKind.CHANGE) if piece.upto <= start))
        return Edit(self.name, self.t, self.t, drop=gone, start=max(start, self.start))

    def indexes(self, key: tuple[str, ...]) -> tuple[Piece, ...]:
        found = [p for p in self.of_kind(PieceKind.INDEX) if p.key == key]
        return tuple(sorted(found, key=lambda piece: (piece.shard, piece.after, piece.upto)))


@dataclass(frozen=True, slots=True)
class Edit:
    """How a commit changes one log. `expected` is the t that the log must have now, None for a log that must not exist.

    `drop` are files. `start` None leaves it as it is.
    """

    log: str
    expected: int | None
    t: int
    add: tuple[Piece, ...] = ()
    drop: tuple[str, ...] = ()
    start: int | None = None
    site: str = ""


@dataclass(frozen=True, slots=True)
class CommitMark:
    """What a source database had committed when it was captured up to `t`, and when: microseconds of our own clock."""

    database: str
    t: int
    commit_time: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Everything that one commit does. Of several `notes` of one name the last counts; `forget` drops logs; `events`
    tell what happened with it.
    """

    edits: tuple[Edit, ...] = ()
    notes: tuple[NoteChange, ...] = ()
    commit_marks: tuple[CommitMark, ...] = ()
    forget: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to commit under a name. A later holder has a larger epoch, and earlier ones are fenced off."""

    name: str
    holder: str
    epoch: int


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease and when it runs out unless it is renewed; both times are of the ledger's clock, in seconds."""

    lease: Lease
    until: float
    now: float

    @property
    def left_s(self) -> float:
        return self.until - self.now
