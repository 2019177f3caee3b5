"""The log of a database as it is written: START_REPLICATION on a slot, messages of `pgoutput`, and feedback.

server -> us    w  bytes of one message        k  how far the log is, and whether to answer at once
us -> server    r  how far we have it, so that the server may forget the log up to there
"""

from __future__ import annotations

import contextlib
import select
import struct
import time
from collections.abc import Sequence

import psycopg
from psycopg import pq

from headrace.connect.postgres.sessions import connect_replication, connect_session, reason
from headrace.model.errors import ConnectError
from headrace.run.capture.pgoutput import POSTGRES_EPOCH_US
from headrace.run.capture.position import format_lsn

HEADER = 25
"""Bytes before a message: its kind, where the log is, its end, the time."""

ASK_AFTER_S = 2.0
"""A server that has sent nothing for this long is asked whether it is there."""
ANSWER_EVERY_S = 5.0
"""The server gives up on a client that says nothing for `wal_sender_timeout`, 60 s by default."""

FREE_WITHIN_S = 15.0


LOST_STATES = ("42704", "58P01")
"""What the server says of a publication that did not exist at this place of the log, and of log that is gone. Asking
again would get the same answer for ever."""


class LogUnreadable(ConnectError):
    """The slot cannot be read any more, however often one tries."""


class LogStream:
    """Streams from a slot, from `start_lsn` on. `confirm` says what may be forgotten; nothing else does."""

    comes_again = True

    def __init__(self, dsn: str, slot: str, publications: Sequence[str], start_lsn: int) -> None:
        self._dsn = dsn
        self._confirmed = start_lsn
        self._answered = 0.0
        self._heard = time.monotonic()
        self._asked: float | None = None
        self._connection = connect_replication(dsn)
        try:
            self._start(slot, publications, start_lsn)
        except BaseException:
            self._connection.close()
            raise

    def _start(self, slot: str, publications: Sequence[str], start_lsn: int) -> None:
        """A slot may still be held by the session of a process that ended without a word; only we hold the lease."""
        names = ",".join(f'"{name}"' for name in publications)
        options = f"proto_version '2', publication_names '{names}', streaming 'on', messages 'true'"
        command = f'START_REPLICATION SLOT "{slot}" LOGICAL {format_lsn(start_lsn)} ({options})'
        deadline = time.monotonic() + FREE_WITHIN_S
        while True:
            result = self._connection.pgconn.exec_(command.encode())
            if result.status == pq.ExecStatus.COPY_BOTH:
                return
            said = result.error_message.decode(errors="replace").strip()
            if "is active for PID" not in said or time.monotonic() > deadline:
                what = f'slot "{slot}" cannot be read: {said.removeprefix("ERROR:").strip()}'
                raise _say_unreadable(result, what)
            free_slot(self._dsn, slot)

    @property
    def silent_s(self) -> float:
        """Counts the seconds for which the server has not answered our question whether it is there."""
        if self._asked is None or select.select([self._connection.pgconn.socket], [], [], 0.0)[0]:
            return 0.0  # what came while we stood still has not been read yet
        return time.monotonic() - self._asked

    def receive(self, wait_s: float) -> bytes | None:
        """The next message, or None if none came within the time. Answers the server's questions on the way."""
        connection = self._connection.pgconn
        deadline = time.monotonic() + wait_s
        while True:
            count, data = self._next()
            if count > 0:
                if data[0] == 0x77:
                    return bytes(data[HEADER:])
                self._keepalive(bytes(data))
            else:
                left = deadline - time.monotonic()
                self.answer()
                if not select.select([connection.socket], [], [], max(0.0, left))[0]:
                    return None
                self._consume()

    def confirm(self, lsn: int, forget: int) -> None:
        self._confirmed = max(self._confirmed, forget)
        self.answer(at_once=True)

    def answer(self, at_once: bool = False) -> None:
        """Say that we are there, when it is time to. To be called during long work."""
        now = time.monotonic()
        asks = self._asked is None and now - self._heard > ASK_AFTER_S
        if not at_once and not asks and now - self._answered < ANSWER_EVERY_S:
            return
        self._answered = now
        if asks:
            self._asked = now
        clock = int(time.time() * 1e6) - POSTGRES_EPOCH_US
        lsn = self._confirmed
        try:
            self._connection.pgconn.put_copy_data(struct.pack("!cQQQqB", b"r", lsn, lsn, lsn, clock, asks))
            self._connection.pgconn.flush()
        except psycopg.Error as error:
            raise self._say_lost(error) from None

    def close(self) -> None:
        """Lets the slot go: the server notices at once that the session ended."""
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    def _next(self) -> tuple[int, memoryview]:
        try:
            count, data = self._connection.pgconn.get_copy_data(1)
        except psycopg.Error as error:
            raise self._say_lost(error) from None
        if count < 0:
            raise self._say_ended()
        return count, data

    def _consume(self) -> None:
        try:
            self._connection.pgconn.consume_input()
            self._heard, self._asked = time.monotonic(), None
        except psycopg.Error as error:
            raise self._say_lost(error) from None

    def _keepalive(self, data: bytes) -> None:
        if data[17]:
            self.answer(at_once=True)

    def _say_ended(self) -> ConnectError:
        """What the server said when it ended the stream; nothing, if it shut down in an orderly way."""
        result = self._connection.pgconn.get_result()
        said = result.error_message.decode(errors="replace").strip() if result else ""
        first = said.splitlines()[0] if said else "without a word, as when it shuts down"
        return _say_unreadable(result, f"the server ended the stream of changes: {first}", "its log says more")

    def _say_lost(self, error: psycopg.Error) -> ConnectError:
        return ConnectError(f"the stream of changes broke off: {reason(error, self._dsn)}")


def _say_unreadable(result: pq.abc.PGresult | None, what: str, hint: str | None = None) -> ConnectError:
    state = b"" if result is None else result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    return LogUnreadable(what, hint) if state.decode() in LOST_STATES else ConnectError(what, hint)


def free_slot(dsn: str, slot: str) -> None:
    """End the session that reads a slot, and wait a moment for it to go."""
    query = (
        "SELECT pg_terminate_backend(active_pid, 2000) FROM pg_replication_slots"
        " WHERE slot_name = %s AND active_pid IS NOT NULL"
    )
    with connect_session(dsn) as session:
        session.execute(query, [slot])
