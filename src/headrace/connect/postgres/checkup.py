"""Reads the clock of a database and how much log it keeps for us, before and while a project runs on it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg

from headrace.connect.postgres.sessions import connect_reading, reason
from headrace.connect.postgres.slots import SlotState, slot_state
from headrace.connect.postgres.waits import find_open_transactions
from headrace.model.errors import ConnectError

LONG_S = 5.0
"""A transaction that has been open for longer may keep a slot from being made for longer still."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """`ahead_s` is what the database's clock shows minus ours, give or take half of the `round_trip_s`."""

    version: str
    ahead_s: float
    round_trip_s: float
    slot: SlotState | None
    waits_for: ConnectError | None = None
    """What keeps the slot from being made."""


def check_up(address: str, slot: str) -> Checkup:
    """Raises ConnectError, without the password."""
    try:
        with connect_reading(address) as session:
            session.execute("SELECT 1")
            asked = time.time()
            row = session.execute(
                "SELECT extract(epoch FROM clock_timestamp())::float8 AS now, version() AS version"
            ).fetchone()
            answered = time.time()
            assert row is not None
            version = " ".join(str(row["version"]).split()[:2])
            ahead = float(row["now"]) - (asked + answered) / 2
            state = slot_state(session, slot)
            waits_for = find_open_transactions(session, LONG_S) if state is None else None
            return Checkup(version, ahead, answered - asked, state, waits_for)
    except psycopg.Error as error:
        raise ConnectError(f"it stopped answering: {reason(error, address)}") from None
