"""Decides where in the log of a database a capture goes on: where the last one stopped, or at a slot of its own."""

from __future__ import annotations

from collections.abc import Callable

from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.slots import SlotState, create_slot, drop_slot, slot_state
from headrace.connect.postgres.waits import watch_open_transactions
from headrace.model.errors import ConnectError
from headrace.model.notes import CapturedUpTo, read_note
from headrace.run.capture.clock import next_time
from headrace.run.capture.position import Position, parse_lsn
from headrace.run.ports import Ledger

NoteWait = Callable[[ConnectError], None]


def find_position(
    session: Connection, settings: CaptureSettings, ledger: Ledger, now: Callable[[], int], note_wait: NoteWait
) -> tuple[Position, str | None]:
    """Where to go on, and why the log before that is lost, if it is or was never there."""
    slot = settings.names.slot
    note = read_note(ledger, CapturedUpTo, settings.database)
    state = slot_state(session, slot)
    last = None if note is None else Position.from_note(note)
    if last is not None and state is not None and _continues(state, last, read_log_end(session)):
        return last, None
    # A slot that does not continue where we stopped is of no use, and would keep log until the disk is full.
    drop_slot(session, slot)
    with watch_open_transactions(settings.dsn, note_wait):
        lsn = create_slot(session, slot)
    position = Position(lsn, next_time(last.t if last else 0, now()), now(), slot)
    return position, _say_lost(state)


def read_log_end(session: Connection) -> int:
    row = session.execute("SELECT pg_current_wal_lsn()::text AS lsn").fetchone()
    assert row is not None
    return parse_lsn(row["lsn"])


def _say_lost(state: SlotState | None) -> str:
    if state is None:
        return "the database has lost our place in its log"
    if state.lost:
        return "the database discarded log before it was read"
    return "the database was restored, or somebody else moved our place in its log"


def _continues(state: SlotState, last: Position, log_end: int) -> bool:
    """Whether the slot has the log from where we stopped.

    One that stands later than we do is not the one that we left: it was made after that one was lost, and then nothing
    was committed any more. A log that ends before where we stopped is of a database that was restored. One that has
    become long enough again does not have the transaction that was taken last (`LastCommit`).
    """
    return not state.lost and state.confirmed_lsn <= last.start and last.lsn <= log_end
