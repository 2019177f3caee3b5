"""Reports troubles of sources and captures: sources that were stopped, and captures that make no progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from headrace.model.notes import (
    CaptureFailing,
    SourceMend,
    SourceStopped,
    SourceUnreadable,
    SourceUnwatched,
    read_notes,
)
from headrace.run.ports import Ledger
from headrace.site.sources.captures import Captures, RunningCapture
from headrace.site.sources.soundness import read_source_states
from headrace.site.troubles import CAPTURE, REREAD, SOURCE, Troubles

MEND_TABLE = "fix its table, or change the project's files and run `headrace apply`"
STILL = (
    "`kill -CONT PID` if somebody suspended it; otherwise its database, or the disk, does not answer it. The service "
    "replaces it after a while"
)
HELD_BACK = "other sites have not taken what was read of it before"
MEND_REREAD = "wait: its views are right again once it is read"
MEND_CAPTURE = "it resumes by itself once this is fixed; `headrace doctor` checks the database"


def report_source_troubles(troubles: Troubles, ledger: Ledger, captures: Captures) -> None:
    """Reports troubles of sources, as far as captures have told."""
    mends = {name: mend.how for name, mend in read_notes(ledger, SourceMend).items()}
    unwatched = {
        SOURCE + name: (f'source "{name}" has no trigger: {note.why}', note.hint)
        for name, note in read_notes(ledger, SourceUnwatched).items()
    }
    unreadable = {
        SOURCE + name: (f'source "{name}" cannot be read again: {note.why}; its changes still come', note.hint)
        for name, note in read_notes(ledger, SourceUnreadable).items()
    }
    stopped = {
        SOURCE + name: (f'source "{name}" is stopped: {note.why}', mends.get(name, MEND_TABLE))
        for name, note in read_notes(ledger, SourceStopped).items()
    }
    running = dict(captures.running)
    states = read_source_states(ledger)
    reread = {REREAD + name: (states.say_reread(name), MEND_REREAD) for name in states.missed}
    troubles.report_exactly(REREAD, reread, {REREAD + name: t / 1e6 for name, t in states.missed.items()})
    troubles.report_exactly(SOURCE, dict(_thread_troubles(ledger, running)) | unwatched | unreadable | stopped)
    troubles.report_exactly(CAPTURE, dict(_process_troubles(ledger, running)))


def _process_troubles(ledger: Ledger, running: Mapping[str, RunningCapture]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Troubles of captures that are processes: what they have told the ledger, else how they end again and again."""
    failing = read_notes(ledger, CaptureFailing)
    for name, one in running.items():
        if one.still_since is not None and one.process is not None:
            since = time.strftime("%H:%M:%S UTC", time.gmtime(one.still_since))
            what = f"capture of {name}: its process {one.process.pid} has stood still since {since}"
            yield CAPTURE + name, (what, STILL.replace("PID", str(one.process.pid)))
        elif name in failing:
            yield CAPTURE + name, (f"capture of {name}: {failing[name].why}", failing[name].hint or MEND_CAPTURE)
        elif one.task.in_own_process and (why := one.standstill) is not None:
            yield (
                CAPTURE + name,
                (
                    f"capture of {name}: {why}",
                    one.hint or f"`.headrace/capture/{name}/capture.log` may say why; {MEND_CAPTURE}",
                ),
            )


def _thread_troubles(ledger: Ledger, running: Mapping[str, RunningCapture]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Troubles of captures that are threads: what cannot be read, and what they have told the ledger."""
    for one in running.values():
        if one.task.in_own_process:
            continue
        if (why := one.standstill) is not None:
            for source in sorted(one.task.sources):
                yield SOURCE + source, (f'source "{source}" cannot be read: {why}', one.hint or MEND_CAPTURE)
        else:
            yield from ((SOURCE + source, (what, hint)) for source, what, hint in one.task.find_troubles(ledger))


def find_held_up_sources(ledger: Ledger, captures: Captures) -> dict[str, str]:
    """Sources of which nothing more comes now, and why: they were stopped, or their capture stands still."""
    found = {name: stopped.why for name, stopped in read_notes(ledger, SourceStopped).items()}
    found = {**dict.fromkeys(captures.find_held_back(), HELD_BACK), **found}
    failing = read_notes(ledger, CaptureFailing)
    for name, running in list(captures.running.items()):
        still = None if running.still_since is None else "its capture stands still"
        why = still or running.standstill or (failing[name].why if name in failing else None)
        if why is not None:
            found = {**dict.fromkeys(running.task.sources, why), **found}
    return found
