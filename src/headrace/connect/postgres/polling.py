"""Reads the log of a database with ordinary queries, for databases behind poolers that do not support replication.

Each look decodes the log again from the position of the slot, so it costs more than a stream, especially while a
transaction stays open for long. Messages that were seen but not confirmed come again with the next look; they are
skipped here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import psycopg

from headrace.connect.postgres.sessions import connect_session, reason
from headrace.model.errors import ConnectError
from headrace.run.capture.position import format_lsn

CHANGES_AT_ONCE = 50_000
"""A look ends after this many messages, at the end of a transaction."""

LOOK_EVERY_S = 0.2


class PolledLog:
    """Messages in the order of the log, transactions only when they are committed."""

    comes_again = False

    def __init__(self, dsn: str, slot: str, publications: Sequence[str], start_lsn: int) -> None:
        self._dsn = dsn
        self._slot = slot
        self._publications = ",".join(f'"{name}"' for name in publications)
        self._messages: deque[bytes] = deque()
        self._confirmed = self._given = start_lsn
        self._session = connect_session(dsn)
        self._asked = 0.0
        self.confirm(start_lsn, start_lsn)

    @property
    def silent_s(self) -> float:
        """Nothing is sent that was not asked for: a server that does not answer fails."""
        return 0.0

    def receive(self, wait_s: float) -> bytes | None:
        deadline = time.monotonic() + wait_s
        while not self._messages:
            now = time.monotonic()
            if now >= self._asked + LOOK_EVERY_S and self._confirmed >= self._given:
                self._look()
                self._asked = now
            elif now >= deadline or self._confirmed < self._given:
                return None
            else:
                time.sleep(min(LOOK_EVERY_S, deadline - now))
        return self._messages.popleft()

    def confirm(self, lsn: int, forget: int) -> None:
        """Lets the server forget the log up to here; then there may be another look.

        All of it: a look always begins there, and ends after so many messages.
        """
        self._confirmed = max(self._confirmed, lsn)
        query = (
            "SELECT pg_replication_slot_advance(slot_name, %(lsn)s::pg_lsn) FROM pg_replication_slots"
            " WHERE slot_name = %(slot)s AND confirmed_flush_lsn < %(lsn)s::pg_lsn"
        )
        try:
            self._session.execute(query, {"slot": self._slot, "lsn": format_lsn(lsn)})
        except psycopg.Error as error:
            raise self._say_lost(error) from None

    def answer(self, at_once: bool = False) -> None:
        """Nobody asks."""

    def close(self) -> None:
        self._session.close()

    def _look(self) -> None:
        query = (
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1',"
            " 'publication_names', %s, 'messages', 'true')"
        )
        try:
            cursor = self._session.cursor(binary=True)
            cursor.execute(query, [self._slot, CHANGES_AT_ONCE, self._publications])
            self._messages.extend(row["data"] for row in cursor)
        except psycopg.Error as error:
            raise self._say_lost(error) from None
        ends = [data for data in self._messages if data[:1] == b"C"]
        if ends:
            self._given = int.from_bytes(ends[-1][10:18], "big")

    def _say_lost(self, error: psycopg.Error) -> ConnectError:
        return ConnectError(f"the changes cannot be read: {reason(error, self._dsn)}")
