"""Asks databases every few seconds how much log they keep for us: log that we do not read fills their disks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from headrace.connect.postgres.capture import CaptureSettings
from headrace.connect.postgres.inspect import Connection
from headrace.connect.postgres.sessions import connect_session
from headrace.connect.postgres.slots import slot_state
from headrace.model.errors import ConnectError


@dataclass(slots=True)
class SlotWatch:
    found: list[dict[str, Any]] = field(default_factory=list)
    _sessions: dict[str, Connection] = field(default_factory=dict)

    def look(self, captures: Mapping[str, CaptureSettings]) -> None:
        for name in set(self._sessions) - set(captures):
            self._sessions.pop(name).close()
        self.found = [self._state(name, settings) for name, settings in sorted(captures.items())]

    def _state(self, name: str, settings: CaptureSettings) -> dict[str, Any]:
        slot = settings.names.slot
        try:
            if name not in self._sessions:
                self._sessions[name] = connect_session(settings.dsn)
            state = slot_state(self._sessions[name], slot)
        except (psycopg.Error, ConnectError) as error:
            broken = self._sessions.pop(name, None)
            if broken is not None:
                broken.close()
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
        for session in self._sessions.values():
            session.close()
        self._sessions = {}
