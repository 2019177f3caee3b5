"""Asks a database how much log it keeps for us: log that we do not read fills its disk."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.sessions import Connection, connect_session
from headrace.connect.postgres.slots import slot_state
from headrace.model.errors import ConnectError


@dataclass(slots=True)
class SlotWatch:
    """Watches the slot of one database."""

    settings: CaptureSettings
    _session: Connection | None = None

    def look(self) -> dict[str, object]:
        name, slot = self.settings.database, self.settings.names.slot
        try:
            if self._session is None:
                self._session = connect_session(self.settings.dsn)
            state = slot_state(self._session, slot)
        except (psycopg.Error, ConnectError) as error:
            self.close()
            reason = error.message if isinstance(error, ConnectError) else "the database does not answer"
            return {"database": name, "slot": slot, "error": reason}
        if state is None:
            return {"database": name, "slot": slot, "error": "the slot does not exist"}
        return {
            "database": name,
            "slot": slot,
            "active": state.active,
            "wal_status": state.wal_status,
            "kept_bytes": state.kept_bytes,
            "behind_bytes": state.behind_bytes,
            "safe_bytes": state.safe_bytes,
        }

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
