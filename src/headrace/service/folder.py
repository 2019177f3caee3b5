"""Where a project's state lives: `.headrace/` in its folder, for its owner alone.

ledger.db       what is committed          data/SITE/     files of logs
running.plan    the plan that runs         plan.json      the same as a plan document
status.json     what `status` shows        service.json   who runs it, and how to reach them
measured.json   what was measured last     forced.json    what forced contracts were promised
spark/          scratch and log of Spark   capture/       scratch and logs of captures

Commands that only look at small files are quick: what reads tables and plans is imported when it is needed.
"""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.connect.files import FileStore
    from headrace.model.plan import Plan
    from headrace.run.ports import Ledger

RUNNING_FORMAT = "running/5"


@dataclass(frozen=True, slots=True)
class Folder:
    """The state of the project in `project`."""

    project: Path

    @property
    def root(self) -> Path:
        return self.project / ".headrace"

    def prepare(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")

    @property
    def exists(self) -> bool:
        return (self.root / "ledger.db").exists()

    def ledger(self) -> Ledger:
        from headrace.connect.ledger.sqlite import open_sqlite

        return open_sqlite(self.root / "ledger.db", is_stored=self.store().has)

    def store(self) -> FileStore:
        from headrace.connect.files import FileStore

        return FileStore(self.root / "data")

    @property
    def spark(self) -> Path:
        return self.root / "spark"

    def capture(self, database: str) -> Path:
        return self.root / "capture" / database

    # What runs

    def save_running(self, plan: Plan, document: Mapping[str, Any]) -> None:
        """The plan is saved as it is in memory; another version of Headrace plans anew from the project instead."""
        self._replace("running.plan", pickle.dumps((_version(), plan)))
        self.write_json("plan.json", document)

    def running(self) -> Plan | None:
        """The plan that ran last; None if there is none, or another version saved it."""
        from headrace.model.plan import Plan

        try:
            version, plan = _PlanReader(io.BytesIO((self.root / "running.plan").read_bytes())).load()
        except (OSError, ValueError, TypeError, AttributeError, ImportError, EOFError, pickle.UnpicklingError):
            return None
        return plan if version == _version() and isinstance(plan, Plan) else None

    @property
    def running_version(self) -> int | None:
        """Differs when another plan runs; None if none does."""
        try:
            return (self.root / "running.plan").stat().st_mtime_ns
        except FileNotFoundError:
            return None

    # Small files

    def write_json(self, name: str, value: object) -> None:
        self._replace(name, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode())

    def read_json(self, name: str) -> Any | None:
        """None if there is no such file, or not a whole one."""
        try:
            return json.loads((self.root / name).read_bytes())
        except (OSError, ValueError):
            return None

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def _replace(self, name: str, content: bytes) -> None:
        """All or nothing, and for the owner's eyes only."""
        unfinished = self.root / f".{name}.{os.getpid()}"
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        unfinished.replace(self.root / name)


class _PlanReader(pickle.Unpickler):
    """Reads plans and nothing else: whoever wrote the file cannot have anything run here."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if module.startswith("headrace.model.") else _PLAIN.get((module, name))
        if not isinstance(found, type):
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a plan")
        return found


_PLAIN = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (set, frozenset, dt.date, dt.datetime, dt.timedelta, decimal.Decimal)
}


def _version() -> tuple[str, str, tuple[int, int]]:
    return RUNNING_FORMAT, metadata.version("headrace"), sys.version_info[:2]
