"""Drops the slot and publications of a database after its last capture, so that it keeps no more log for us.

The slot's lease prevents dropping and capturing at the same time: the second process is told that the slot is held.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.connect.ledger.holder import this_holder
from headrace.connect.postgres.sessions import connect_session, database_errors
from headrace.connect.postgres.slots import CaptureNames, remove_capture, slot_state
from headrace.run.ports import Ledger

LEASE_S = 600.0
"""Longer than it takes, also where the database stands still for a while. Who was killed holds nothing any more."""
STATEMENT_TIMEOUT = b"SET statement_timeout = '20s'"
"""The server would wait for a lock even after we have ended, and drop what somebody else makes meanwhile."""


def give_back(names: CaptureNames, dsn: str, ledger: Ledger, called_off: Callable[[], bool]) -> None:
    """Raises `LeaseHeld` while somebody captures with that slot; until this returns nobody starts to.

    Safe to repeat: what is gone already is not missed. What was called off may have been done in part.
    """
    lease = ledger.acquire(names.lease, this_holder(), LEASE_S)
    try:
        with connect_session(dsn) as session, database_errors(dsn):
            session.execute(STATEMENT_TIMEOUT)
            remove_capture(session, names, called_off)
    finally:
        ledger.release(lease)


def is_left(slot: str, dsn: str) -> bool:
    """Whether a slot is there that nobody reads."""
    with connect_session(dsn) as session, database_errors(dsn):
        state = slot_state(session, slot)
    return state is not None and not state.active
