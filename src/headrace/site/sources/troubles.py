"""Reports troubles of sources and captures: sources that were stopped, and captures that make no progress."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.connect.postgres.capture import CaptureSettings
from headrace.connect.tables.folder import FolderStream
from headrace.model.notes import RejectedFile, SourceMend, SourceStopped, read_notes
from headrace.run.ports import Ledger
from headrace.site.sources.captures import Captures, RunningCapture
from headrace.site.sources.folder_sources import MEND_FILE
from headrace.site.troubles import CAPTURE, SOURCE, Troubles

LONGEST_EVENT = 4000
MEND_TABLE = "fix its table, or change the project's files and run `headrace apply`"
MEND_CAPTURE = "it resumes by itself once this is fixed; `headrace doctor` checks the database"


def report_source_troubles(troubles: Troubles, ledger: Ledger, captures: Captures) -> None:
    """As far as captures have told: in the ledger, or in their logs."""
    mends = {name: mend.how for name, mend in read_notes(ledger, SourceMend).items()}
    sources = {
        SOURCE + name: (f'source "{name}" is stopped: {stopped.why}', mends.get(name, MEND_TABLE))
        for name, stopped in read_notes(ledger, SourceStopped).items()
    }
    running = dict(captures.running)
    troubles.report_exactly(SOURCE, dict(_folder_troubles(ledger, running)) | sources)
    failures = {
        name: capture_failure(captures.folder.capture(name))
        for name, one in running.items()
        if isinstance(one.settings, CaptureSettings)
    }
    told = {CAPTURE + name: (f"capture of {name}: {why}", hint) for name, (why, hint) in failures.items() if why}
    troubles.report_exactly(CAPTURE, told)


def _folder_troubles(ledger: Ledger, running: Mapping[str, RunningCapture]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Folders that cannot be looked into, and files in them that cannot be read."""
    for one in running.values():
        if not isinstance(one.settings, FolderStream):
            continue
        source = one.settings.source
        rejected = sorted(read_notes(ledger, RejectedFile, source).items())
        if one.error is not None:
            yield SOURCE + source, (f'source "{source}" cannot be read: {one.error}', one.hint or MEND_CAPTURE)
        elif rejected:
            _, first = rejected[0]
            more = f" (and {len(rejected) - 1} more)" if len(rejected) > 1 else ""
            yield SOURCE + source, (f'source "{source}" leaves out file "{first.file}"{more}: {first.why}', MEND_FILE)


def held_up_sources(ledger: Ledger, captures: Captures) -> dict[str, str]:
    """Sources of which nothing more comes now, and why: they were stopped, or their capture stands still."""
    found = {name: stopped.why for name, stopped in read_notes(ledger, SourceStopped).items()}
    for name, running in list(captures.running.items()):
        why = running.error or capture_failure(captures.folder.capture(name))[0]
        if why is not None:
            found = {**dict.fromkeys(running.sources, why), **found}
    return found


def capture_failure(scratch: Path) -> tuple[str | None, str]:
    """Why a capture stands still, and how to fix it; None if the last that it told is something else."""
    try:
        last = (scratch / "capture.log").read_bytes()[-LONGEST_EVENT:].splitlines()[-1]
        event = json.loads(last)
    except (OSError, ValueError, IndexError):
        return None, MEND_CAPTURE
    failed = isinstance(event, dict) and event.get("event") == "failed"
    return (str(event["message"]), str(event.get("hint") or MEND_CAPTURE)) if failed else (None, MEND_CAPTURE)
