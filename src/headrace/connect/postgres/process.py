"""Capture of one database as a process of its own: `python -m headrace.connect.postgres.process CONFIG.json`.

The configuration is a JSON file, or a line on standard input if the name is `-`; each further line is a new
configuration. It contains no secrets: the address of the database is in the environment variable that it names. The
process reports events as JSON lines on standard output.
SIGTERM, or the end of its parent, ends the process after the current batch. The next process continues exactly there,
also after a kill.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from headrace.connect.files import FileStore
from headrace.connect.input_lines import lines_of
from headrace.connect.lean_start import keep_pandas_out
from headrace.connect.ledger.holder import this_holder
from headrace.connect.ledger.postgres import open_postgres
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings, SourceChanged, SourceRecovered, StreamFrom
from headrace.connect.postgres.polling import PolledLog
from headrace.connect.postgres.replication import LogStream
from headrace.connect.signals import note_signals
from headrace.connect.small_memory import keep_giving_back
from headrace.model.errors import ConnectError, Fenced, LeaseHeld, UsageError
from headrace.model.log import Commit
from headrace.model.notes import CaptureFailing, read_note
from headrace.model.type_names import type_named
from headrace.run.capture.spool import CapturedTable
from headrace.run.ports import Ledger, Store
from headrace.run.source_port import LONGEST_STEP_S

AGAIN_AFTER_S = (0.5, 1.0, 2.0, 5.0, 10.0)
"""How long to wait before another attempt when the database does not answer; the last holds for all further ones."""

LOOK_AT_PARENT_EVERY_S = 2.0
"""Standard input says at once that our parent has ended, where that says what to capture."""
NOTED_WITHIN_S = 5.0
ENDS_WITHIN_S = 6.0
"""How long a batch may go on after we were told to end."""


def _type_name(text: str) -> str:
    if type_named(text) is None:
        raise ValueError(f'no type is called "{text}"')
    return text


class TableFile(BaseModel):
    """One source. Columns map names to types as they are written in project files."""

    model_config = ConfigDict(extra="forbid")
    source: str
    site: str
    table: str
    columns: dict[str, Annotated[str, BeforeValidator(_type_name)]]
    key: list[str] = []
    appends: bool = False
    static: bool = False
    has_trigger: bool = False

    def captured(self) -> CapturedTable:
        columns = tuple((name, type_) for name, text in self.columns.items() if (type_ := type_named(text)) is not None)
        flags = self.appends, self.static, self.has_trigger
        return CapturedTable(self.source, self.site, self.table, columns, tuple(self.key), *flags)


class ConfigFile(BaseModel):
    """What a capture process is told. The ledger is a file, or a PostgreSQL whose address is in a variable."""

    model_config = ConfigDict(extra="forbid")
    project: str
    database: str
    dsn_variable: str
    ledger: Path | None = None
    ledger_variable: str | None = None
    store: Path
    scratch: Path
    tables: list[TableFile]
    method: Literal["replication", "polling"] = "replication"
    step_s: float = LONGEST_STEP_S

    def open_ledger(self, environment: Mapping[str, str]) -> Ledger:
        if self.ledger_variable is not None:
            return open_postgres(_variable(self.ledger_variable, environment), is_stored=FileStore(self.store).has)
        if self.ledger is None:
            raise UsageError("the configuration names no ledger")
        return open_sqlite(self.ledger, is_stored=FileStore(self.store).has)

    def settings(self, environment: Mapping[str, str]) -> CaptureSettings:
        dsn = _variable(self.dsn_variable, environment)
        stream: StreamFrom = LogStream if self.method == "replication" else PolledLog
        tables = tuple(table.captured() for table in self.tables)
        return CaptureSettings(self.project, self.database, dsn, tables, self.scratch, stream, self.step_s)


def _variable(name: str, environment: Mapping[str, str]) -> str:
    if name not in environment:
        raise UsageError(f'the environment variable "{name}" is not set')
    return environment[name]


def parse_config(text: str) -> ConfigFile:
    try:
        return ConfigFile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"the configuration is wrong at {where}: {first['msg']}") from None


@dataclass
class Wanted:
    """What is to be captured: may change at any time."""

    settings: CaptureSettings


def run(wanted: Wanted, ledger: Ledger, store: Store, stop: threading.Event, tell: Callable[..., None]) -> None:
    """Capture until told to stop. A database that does not answer is asked again; a lost lease ends it.

    Why it does not answer is noted. A capture that works removes the note, whoever wrote it.
    """
    failures = 0
    while not stop.is_set():
        settings = wanted.settings
        try:
            capture = Capture(settings, ledger, store)
        except (ConnectError, LeaseHeld) as error:
            _report_failure(ledger, settings.database, error, tell)
            failures = _wait(failures, stop)
            continue
        try:
            tell("opened", database=settings.database)
            while not stop.is_set() and wanted.settings is settings:
                for report in capture.step(settings.step_s).progress:
                    tell("loading", source=report.source, rows=report.rows, estimate=report.estimate,
                         seconds_left=report.seconds_left, complete=report.complete)  # fmt: skip
                failures = 0
        except ConnectError as error:
            _report_failure(ledger, settings.database, error, tell)
            failures = _wait(failures, stop)
        finally:
            with suppress(ConnectError):  # a ledger that cannot be written: the leases run out
                capture.close()


def _report_failure(ledger: Ledger, database: str, error: Exception, tell: Callable[..., None]) -> None:
    """Tells of a failure, and notes it under a lease of its own: that of the capture may be what is missing. A ledger
    that fails too is asked later.
    """
    if isinstance(error, SourceRecovered | SourceChanged):
        tell("recovered", message=str(error))
        return
    tell("failed", message=str(error), hint=getattr(error, "hint", None))
    note = CaptureFailing(database, str(error), getattr(error, "hint", None))
    with suppress(ConnectError, LeaseHeld, Fenced):
        if read_note(ledger, CaptureFailing, database) != note:
            lease = ledger.acquire(f"failure of {database}", this_holder(), NOTED_WITHIN_S)
            ledger.commit(lease, Commit(notes=(note,)))
            ledger.release(lease)


def _follow(wanted: Wanted, lines: Iterable[str], environment: Mapping[str, str], stop: threading.Event) -> None:
    """Who tells us what to capture holds the pipe open as long as it lives."""
    for line in lines:
        wanted.settings = parse_config(line).settings(environment)
    stop.set()


def _wait(failures: int, stop: threading.Event) -> int:
    stop.wait(AGAIN_AFTER_S[min(failures, len(AGAIN_AFTER_S) - 1)])
    return failures + 1


def _end_with_parent(parent: int, stop: threading.Event) -> None:
    """Our parent process is gone, perhaps killed: the next one will start its own capture, which needs our lease.

    A database that hangs never answers. The process then exits at once, as if it were killed.
    """
    while not stop.wait(LOOK_AT_PARENT_EVERY_S):
        if os.getppid() != parent:
            stop.set()
    time.sleep(ENDS_WITHIN_S)
    _tell("abandoned", message="the database did not answer")
    os._exit(1)


def _tell(event: str, **fields: object) -> None:
    with suppress(OSError):  # a full disk: what matters is in the ledger
        print(json.dumps({"event": event, **fields}), flush=True)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m headrace.connect.postgres.process CONFIG.json", file=sys.stderr)
        return 2
    keep_pandas_out()
    stop = threading.Event()
    threading.Thread(target=keep_giving_back, args=(stop,), name="give back memory", daemon=True).start()
    with note_signals(stop):
        return _capture(arguments[0], stop)


def _capture(source: str, stop: threading.Event) -> int:
    """Captures as configured, in a file or on standard input."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(), stop), daemon=True).start()
    try:
        lines = lines_of(sys.stdin.fileno()) if source == "-" else iter([Path(source).read_text()])
        config = parse_config(next(lines, ""))
        settings = config.settings(os.environ)
        ledger = config.open_ledger(os.environ)
    except (UsageError, ConnectError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    wanted = Wanted(settings)
    if source == "-":
        threading.Thread(target=_follow, args=(wanted, lines, os.environ, stop), daemon=True).start()
    try:
        run(wanted, ledger, FileStore(config.store), stop, _tell)
    except Fenced as error:
        _tell("fenced", message=str(error))
        return 1
    finally:
        ledger.close()
    _tell("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
