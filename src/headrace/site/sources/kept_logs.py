"""Looks every few seconds at how much each source keeps for us until we have read it, for `status`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.run.source_port import CaptureTask, LogWatch


@dataclass(slots=True)
class KeptLogs:
    """Belongs to one thread; others read `found`, which is replaced whole."""

    found: list[dict[str, object]] = field(default_factory=list)
    _watches: dict[str, tuple[CaptureTask, LogWatch | None]] = field(default_factory=dict)

    def look(self, tasks: Mapping[str, CaptureTask]) -> None:
        for name, (task, watch) in list(self._watches.items()):
            if tasks.get(name) != task:
                del self._watches[name]
                if watch is not None:
                    watch.close()
        for name, task in tasks.items():
            if name not in self._watches:
                self._watches[name] = task, task.watch_log()
        watches = [watch for _, (_, watch) in sorted(self._watches.items())]
        self.found = [watch.look() for watch in watches if watch is not None]

    def close(self) -> None:
        self.look({})
