"""Reports troubles of sources and captures: sources that were stopped, and captures that make no progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.connect.tables.folder import FolderStream
from headrace.model.notes import CaptureFailing, RejectedFile, SourceMend, SourceStopped, read_notes
from headrace.run.ports import Ledger
from headrace.site.sources.captures import Captures, RunningCapture
from headrace.site.sources.folder_sources import MEND_FILE
from headrace.site.troubles import CAPTURE, SOURCE, Troubles

MEND_TABLE = "fix its table, or change the project's files and run `headrace apply`"
MEND_CAPTURE = "it resumes by itself once this is fixed; `headrace doctor` checks the database"


def report_source_troubles(troubles: Troubles, ledger: Ledger, captures: Captures) -> None:
    """As far as captures have told."""
    mends = {name: mend.how for name, mend in read_notes(ledger, SourceMend).items()}
    sources = {
        SOURCE + name: (f'source "{name}" is stopped: {stopped.why}', mends.get(name, MEND_TABLE))
        for name, stopped in read_notes(ledger, SourceStopped).items()
    }
    running = dict(captures.running)
    troubles.report_exactly(SOURCE, dict(_folder_troubles(ledger, running)) | sources)
    failing = {name: one for name, one in read_notes(ledger, CaptureFailing).items() if name in running}
    told = {
        CAPTURE + name: (f"capture of {name}: {one.why}", one.hint or MEND_CAPTURE) for name, one in failing.items()
    }
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


def find_held_up_sources(ledger: Ledger, captures: Captures) -> dict[str, str]:
    """Sources of which nothing more comes now, and why: they were stopped, or their capture stands still."""
    found = {name: stopped.why for name, stopped in read_notes(ledger, SourceStopped).items()}
    failing = read_notes(ledger, CaptureFailing)
    for name, running in list(captures.running.items()):
        why = running.error or (failing[name].why if name in failing else None)
        if why is not None:
            found = {**dict.fromkeys(running.sources, why), **found}
    return found
