"""The ledger of `run.ports` on any `LedgerDatabase`: everything that does not depend on the kind of database.

A commit is one transaction. Its first statement locks the lease's row and checks its epoch, so a commit is either
before the next holder's acquisition or fenced; there is nothing between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.connect.ledger import statements as sql
from headrace.connect.ledger.database import LedgerDatabase, Row, Transaction
from headrace.connect.ledger.event_rows import add_events, forget_events, read_events
from headrace.connect.ledger.holder import is_gone, say_holder
from headrace.connect.ledger.rows import logs_of, row_to_add, row_to_create, row_to_move
from headrace.model.errors import Conflict, ConnectError, DamagedLedger, Fenced, LeaseHeld
from headrace.model.event_wire import EventsAsked, NumberedEvent
from headrace.model.log import Commit, CommitMark, Edit, HeldLease, Lease, Log
from headrace.model.note_texts import RemovedNote
from headrace.model.notes import NoteChange

IsStored = Callable[[str, str], bool]
"""Whether a file of a site is there."""

NAMES_AT_ONCE = 10_000
"""Databases limit the parameters of a statement, SQLite to 32,766."""


DELETED_AT_ONCE = 500
"""Others wait meanwhile."""


class SqlLedger:
    """Brings the tables of an older version up to date, and refuses those of a newer one.

    `clock` replaces the database's own, in seconds; only the ends of leases depend on it. With `is_stored`, a commit
    that names a file which is not there any more is refused: its writer stood still until the file was swept away.
    """

    def __init__(
        self, database: LedgerDatabase, clock: Callable[[], float] | None = None, is_stored: IsStored | None = None
    ) -> None:
        self._database = database
        self._is_stored = is_stored
        self._now = clock or database.now
        try:
            with database.migrate() as transaction:
                _migrate(transaction, database.name)
        except BaseException:
            database.close()
            raise

    def acquire(self, name: str, holder: str, seconds: float) -> Lease:
        """A process of this machine that has ended holds nothing any more, however long its lease was given for."""
        # Asked before the transaction: PostgreSQL's clock is read in one of its own, which would wait for this one.
        now = self._now()
        with self._database.write() as transaction:
            for former, epoch, _ in transaction.rows(sql.READ_LEASE, [name]):
                if former is not None and is_gone(str(former)):
                    transaction.change(sql.RELEASE_LEASE, [(name, former, epoch)])
            taken = transaction.change(sql.TAKE_LEASE, [(name, holder, now + seconds, now)])
            ((current, epoch, until),) = transaction.rows(sql.READ_LEASE, [name])
        assert isinstance(epoch, int) and isinstance(until, float)
        if not taken:
            raise LeaseHeld(f'{say_holder(str(current))} holds the lease "{name}" for another {until - now:.0f} s')
        return Lease(name, holder, epoch)

    def find_lease(self, name: str) -> HeldLease | None:
        now = self._now()
        with self._database.read() as transaction:
            rows = transaction.rows(sql.READ_LEASE, [name])
        for holder, epoch, until in rows:
            if holder is not None:
                return HeldLease(Lease(name, str(holder), int(epoch or 0)), float(until or 0.0), now)
        return None

    def renew(self, lease: Lease, seconds: float) -> None:
        until = self._now() + seconds
        with self._database.write() as transaction:
            if not transaction.change(sql.RENEW_LEASE, [(until, *_identity(lease))]):
                raise _say_fenced(transaction, lease)

    def release(self, lease: Lease) -> None:
        """Nothing can be committed under it any more. A lease that was lost already stays with its new holder."""
        with self._database.write() as transaction:
            transaction.change(sql.RELEASE_LEASE, [_identity(lease)])

    def commit(self, lease: Lease, commit: Commit) -> None:
        # Everyone touches logs in the same order: transactions wait for each other, but never in a circle.
        edits = sorted(commit.edits, key=lambda edit: edit.log)
        _check(edits)
        with self._database.write() as transaction:
            # The lease comes first: its row lock keeps out a new holder until this commit is done, so that what was
            # checked here still holds when it becomes visible.
            _hold(transaction, lease)
            # Logs are forgotten before edits: a commit may forget a log and create it again under the same name.
            forgotten = [(name,) for name in sorted(commit.forget)]
            transaction.change(sql.FORGET_LOG, forgotten)
            transaction.change(sql.FORGET_PIECES, forgotten)
            _move(transaction, edits)
            _exchange_pieces(transaction, edits)
            self._check_stored(transaction, edits)
            _write_notes(transaction, commit.notes)
            transaction.change(sql.WRITE_COMMIT_MARK, [(m.database, m.t, m.commit_time) for m in commit.commit_marks])
            add_events(transaction, commit.events)

    def _check_stored(self, transaction: Transaction, edits: list[Edit]) -> None:
        """Runs after the names are written: from here on nobody sweeps these files away."""
        new = {edit.log: edit.add for edit in edits if edit.add}
        if self._is_stored is None or not new:
            return
        sites = {str(name): str(site) for name, site, *_ in _rows_of(transaction, sql.READ_LOGS, "name", sorted(new))}
        lost = [(log, p.file) for log, pieces in new.items() for p in pieces if not self._is_stored(sites[log], p.file)]
        if lost:
            raise Conflict(f"some of these files no longer exist: {_some(lost)}")

    def logs(self, names: Iterable[str] | None = None) -> Mapping[str, Log]:
        with self._database.read() as transaction:
            if names is None:
                found = transaction.rows(sql.READ_LOGS), transaction.rows(sql.READ_PIECES)
            else:
                wanted = sorted(set(names))
                logs = _rows_of(transaction, sql.READ_LOGS, "name", wanted)
                found = logs, _rows_of(transaction, sql.READ_PIECES, "log", wanted)
        try:
            return logs_of(*found)
        except (ValueError, TypeError) as error:  # a kind that there is not, a text for a number
            raise DamagedLedger(self._database.name, f"a log or a file of a log cannot be read ({error})") from error

    def times(self) -> Mapping[str, int]:
        with self._database.read() as transaction:
            return {str(name): int(t or 0) for name, t in transaction.rows(sql.READ_TIMES)}

    def notes(self, prefix: str = "") -> Mapping[str, str]:
        with self._database.read() as transaction:
            return {str(name): str(value) for name, value in transaction.rows(sql.READ_NOTES, [prefix, prefix])}

    def commit_marks(self, database: str, after: int, limit: int = 1) -> tuple[CommitMark, ...]:
        with self._database.read() as transaction:
            rows = transaction.rows(sql.READ_COMMIT_MARKS, [database, after, limit])
        return tuple(CommitMark(str(name), int(t or 0), int(commit_time or 0)) for name, t, commit_time in rows)

    def forget_commit_marks(self, lease: Lease, before: int) -> None:
        with self._database.write() as transaction:
            _hold(transaction, lease)
            transaction.change(sql.FORGET_COMMIT_MARKS, [(before,)])

    def events(self, asked: EventsAsked) -> tuple[NumberedEvent, ...]:
        return read_events(self._database, asked)

    def forget_events(self, lease: Lease, before: int, routine_bytes: int, other_bytes: int) -> int:
        with self._database.write() as transaction:
            _hold(transaction, lease)
            return forget_events(transaction, before, (other_bytes, routine_bytes))

    def files(self) -> frozenset[str]:
        with self._database.read() as transaction:
            return frozenset(f"{site}/{file}" for site, file in transaction.rows(sql.READ_FILES))

    def delete_unnamed(self, files: Sequence[tuple[str, str]], delete: Callable[[str, str], None]) -> int:
        # In parts, since nobody can commit meanwhile. The names are read under the lock: a commit that names one of
        # these files is either seen here, or comes later and finds the file gone (`_check_stored`).
        deleted = 0
        for at in range(0, len(files), DELETED_AT_ONCE):
            some = files[at : at + DELETED_AT_ONCE]
            with self._database.alone() as transaction:
                named = set(_rows_of(transaction, sql.READ_FILES, "file", sorted({file for _, file in some})))
                for site, file in some:
                    if (site, file) not in named:
                        delete(site, file)
                        deleted += 1
        return deleted

    def close(self) -> None:
        self._database.close()


def _migrate(transaction: Transaction, name: str) -> None:
    transaction.change(sql.MAKE_FORMAT)
    ((found,),) = transaction.rows(sql.READ_FORMAT)
    present = int(found or 0)
    if present > sql.FORMAT:
        raise ConnectError(
            f'the ledger in "{name}" has format {present}, this version of Headrace knows formats up to {sql.FORMAT}',
            hint="run the newer version of Headrace that wrote it",
        )
    for number in range(present, sql.FORMAT):
        for statement in sql.MIGRATIONS[number]:
            transaction.change(statement)
        transaction.change(sql.WRITE_FORMAT, [(number + 1,)])


def _identity(lease: Lease) -> Row:
    return lease.name, lease.holder, lease.epoch


def _hold(transaction: Transaction, lease: Lease) -> None:
    if not transaction.change(sql.CHECK_LEASE, [_identity(lease)]):
        raise _say_fenced(transaction, lease)


def _say_fenced(transaction: Transaction, lease: Lease) -> Fenced:
    rows = transaction.rows(sql.READ_LEASE, [lease.name])
    holder, epoch, _ = rows[0] if rows else (None, 0, 0)
    now = f"{say_holder(str(holder))} holds epoch {epoch}" if holder is not None else "nobody holds it"
    return Fenced(f'{say_holder(lease.holder)} lost the lease "{lease.name}" of epoch {lease.epoch}: {now}')


def _check(edits: list[Edit]) -> None:
    """What no caller may ask for, whatever is in the ledger."""
    assert len({edit.log for edit in edits}) == len(edits), "a commit changes a log once"
    for edit in edits:
        assert edit.expected is None or edit.t >= edit.expected, f'log "{edit.log}" would go back in time'


def _move(transaction: Transaction, edits: list[Edit]) -> None:
    new = [row_to_create(edit) for edit in edits if edit.expected is None]
    old = [row_to_move(edit) for edit in edits if edit.expected is not None]
    if transaction.change(sql.CREATE_LOG, new) < len(new):
        names = ", ".join(f'"{row[0]}"' for row in new)
        raise Conflict(f"one of these logs to be created is there already: {names}")
    if transaction.change(sql.MOVE_LOG, old) < len(old):
        raise _not_at_expected(transaction, edits)


def _not_at_expected(transaction: Transaction, edits: list[Edit]) -> Conflict:
    expected = {edit.log: edit.expected for edit in edits if edit.expected is not None}
    moved_to = {edit.log: edit.t for edit in edits}
    present = {str(name): t for name, t in _rows_of(transaction, sql.READ_TIMES, "name", sorted(expected))}
    wrong = [
        f'"{log}" at {present.get(log)}, not {t}' for log, t in expected.items() if present.get(log) != moved_to[log]
    ]
    return Conflict(f"logs are not where they were expected: {'; '.join(wrong)}")


def _exchange_pieces(transaction: Transaction, edits: list[Edit]) -> None:
    dropped = [(edit.log, file) for edit in edits for file in edit.drop]
    new = [row_to_add(edit.log, piece) for edit in edits for piece in edit.add]
    if transaction.change(sql.DROP_PIECE, dropped) < len(dropped):
        raise Conflict(f"some of these files are not in their logs any more: {_some(dropped)}")
    if transaction.change(sql.ADD_PIECE, new) < len(new):
        raise Conflict(f"some of these files are in their logs already: {_some([(row[0], row[2]) for row in new])}")


def _some(pairs: Sequence[Row]) -> str:
    shown = ", ".join(f'"{file}" of "{log}"' for log, file in pairs[:10])
    return shown if len(pairs) <= 10 else f"{shown} and {len(pairs) - 10} more"


def _write_notes(transaction: Transaction, changes: tuple[NoteChange, ...]) -> None:
    texts = {one.name: None if isinstance(one, RemovedNote) else one.to_text() for one in changes}
    transaction.change(sql.REMOVE_NOTE, [(name,) for name, text in sorted(texts.items()) if text is None])
    transaction.change(sql.WRITE_NOTE, [row for row in sorted(texts.items()) if row[1] is not None])


def _rows_of(transaction: Transaction, statement: str, column: str, names: list[str]) -> list[Row]:
    parts = [names[at : at + NAMES_AT_ONCE] for at in range(0, len(names), NAMES_AT_ONCE)]
    return [row for part in parts for row in transaction.rows(statement + sql.among(column, len(part)), part)]
