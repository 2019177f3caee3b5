"""Where a project's state lives: `.headrace/` in its folder, for its owner alone.

ledger.db       what is committed          data/SITE/     files of logs
running.json    the plan that runs         plan.json      the same as a plan document, for people
status.json     what `status` shows        service.json   who runs it, and how to reach them
measured.json   what was measured last     forced.json    what forced contracts were promised
spark/          scratch and log of Spark   capture/       scratch and logs of captures
audit/          files of audits that run   feeds/         a PostgreSQL for feeds that name no store

A missing file means that nothing has run yet. A file that exists but cannot be read means nothing: the caller gets an
`UnreadableState`, because continuing without the file could forget promises, or start a second service.
Code that reads tables and plans is imported only when needed, so commands that read small files are quick.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.model.errors import ConnectError, UnreadableState, WireError
from headrace.site.private_folder import close_to_others

if TYPE_CHECKING:
    from headrace.connect.files import FileStore
    from headrace.model.plan import Plan
    from headrace.run.ports import Ledger

RUNNING_FILE = "running.json"
FORCED_FILE = "forced.json"
OLD_RUNNING_FILE = "running.plan"
"""The plan as Headrace 0.1 kept it: a pickle, which is never read."""

MENDING = {
    RUNNING_FILE: "move it away: `headrace up` then plans from the project's files, and continues with the rows it has",
    FORCED_FILE: "remove it: contracts that were forced are refused again until `headrace apply --force` names them",
    "status.json": "a running service writes it again within a second; if none runs, remove it",
    "feed_apps.json": "remove it: all tokens end, and `headrace feeds tokens add` gives apps new ones",
    "service.json": "if no service runs the project any more, remove it; otherwise stop that process first",
}
"""What to do about a file that is damaged."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The state of the project in `project`."""

    project: Path

    @property
    def root(self) -> Path:
        return self.project / ".headrace"

    def prepare(self) -> bool:
        """Makes the folder, or closes one that is there to other users; whether they could read it until now."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            return close_to_others(self.root)
        except OSError as error:
            hint = "is there space on its disk, and may we write there?"
            raise ConnectError(f'"{self.root}" cannot be written: {error.strerror}', hint) from error

    @property
    def exists(self) -> bool:
        return (self.root / "ledger.db").exists()

    def ledger(self) -> Ledger:
        from headrace.connect.ledger.sqlite import open_sqlite

        return open_sqlite(self.root / "ledger.db", is_stored=self.store().has)

    def check_ledger(self) -> None:
        """Raises `DamagedLedger`; does nothing if there is none."""
        from headrace.connect.ledger.sqlite import check_sqlite

        if self.exists:
            check_sqlite(self.root / "ledger.db")

    def purge_ledger(self) -> None:
        """Leaves nothing in the ledger's files of what was removed from it. Call it while nobody runs the project."""
        from headrace.connect.ledger.sqlite import purge_sqlite

        purge_sqlite(self.root / "ledger.db")

    def store(self) -> FileStore:
        from headrace.connect.files import FileStore

        return FileStore(self.root / "data")

    @property
    def spark(self) -> Path:
        return self.root / "spark"

    @property
    def audit(self) -> Path:
        return self.root / "audit"

    def capture(self, database: str) -> Path:
        return self.root / "capture" / database

    # What runs

    def save_running(self, plan: Plan, document: Mapping[str, Any]) -> None:
        from headrace.model.wire import write_wire

        self._replace(RUNNING_FILE, write_wire(plan, metadata.version("headrace")).encode())
        self.write_json("plan.json", document)

    def running(self) -> Plan | None:
        """The plan that ran last; None if there is none. Raises UnreadableState for one of Headrace 0.1 as well."""
        from headrace.model.plan import Plan
        from headrace.model.wire import read_wire

        written = self._read(RUNNING_FILE)
        if written is None:
            self._refuse_old()
            return None
        try:
            plan = read_wire(written, Plan)
        except WireError as error:
            raise self.unreadable(RUNNING_FILE, str(error)) from error
        if plan.site is not None:
            return plan  # its files are those of the whole project, which is not in this folder
        # The folder was named from where `up` was started, and may have been moved since.
        return replace(plan, catalogue=replace(plan.catalogue, directory=str(self.project.absolute())))

    @property
    def is_of_old_version(self) -> bool:
        """Whether Headrace 0.1 ran the project last: its plan is not read, `up` loads the views anew."""
        return self.running_version is None and (self.root / OLD_RUNNING_FILE).exists()

    def _refuse_old(self) -> None:
        if self.is_of_old_version:
            what = f'"{self.root / OLD_RUNNING_FILE}" is the plan of Headrace 0.1, which this version does not read'
            raise UnreadableState(what, "`headrace up` loads the views again; replication slots are kept")

    @property
    def running_version(self) -> int | None:
        """Differs when another plan runs; None if none does."""
        try:
            return (self.root / RUNNING_FILE).stat().st_mtime_ns
        except FileNotFoundError:
            return None

    # Small files

    def write_json(self, name: str, value: object, indent: int | None = 2, is_durable: bool = False) -> None:
        written = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False).encode()
        self._replace(name, written, is_durable)

    def read_json(self, name: str) -> Any | None:
        """None if there is no such file. Raises UnreadableState for one that is not whole."""
        written = self._read(name)
        try:
            return None if written is None else json.loads(written)
        except (ValueError, RecursionError) as error:
            raise self.unreadable(name, f"it is not JSON, or not all of it ({error})") from error

    def would_change(self, path: Path, change: Callable[[str], str]) -> bool:
        text = _read_any(path)
        return change(text) != text

    def rewrite(self, path: Path, change: Callable[[str], str]) -> None:
        """Puts another text in place of that of a file below the folder. Bytes that are no text stay as they are."""
        before = _read_any(path)
        after = change(before)
        if after != before:
            self._replace(str(path.relative_to(self.root)), after.encode(errors="surrogateescape"))

    def unreadable(self, name: str, why: str) -> UnreadableState:
        """What to raise about a file that is there and does not hold what it should."""
        return UnreadableState(f'"{self.root / name}" cannot be read: {why}', MENDING.get(name))

    def _read(self, name: str) -> bytes | None:
        file = self.root / name
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            hint = f"only the user who runs the project can read it: `ls -ld {file}` shows who that is"
            raise UnreadableState(f'"{file}" cannot be read: {error.strerror}', hint) from error

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def _replace(self, name: str, content: bytes, is_durable: bool = False) -> None:
        """All or nothing, and for the owner's eyes only. What is durable is there after a loss of power as well: that
        takes milliseconds, which most files are not worth.
        """
        unfinished = (self.root / name).with_name(f".{Path(name).name}.{os.getpid()}")
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(self.root / name)
        if is_durable:
            _sync_folder((self.root / name).parent)


def _sync_folder(folder: Path) -> None:
    """Which file has a name is safe from now on."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_any(path: Path) -> str:
    return path.read_text(errors="surrogateescape")
