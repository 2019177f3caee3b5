"""Removes passwords that Headrace 0.2.0 stored: those of addresses that the project's file holds in clear.

This version keeps addresses without them. What an earlier one wrote is rewritten once, when the project starts: notes,
small files and logs. A copy is noted under a digest of its place, so its note gets another name; the copy stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from headrace.connect.ledger.holder import this_holder
from headrace.model.log import Commit
from headrace.model.notes import CaptureSlot, DeliveredCopy, NoteChange, StepsToDo, read_note, read_notes
from headrace.model.password import hide_in_document, hide_in_log, hide_password
from headrace.run.ports import Ledger
from headrace.site.folder import Folder
from headrace.site.process import SERVICE

LEASE_S = 30.0
LOGS = ("service.log", "service.log.1", "up.log", "up.errors", "capture/*/*.log*")


def hide_old_passwords(folder: Folder) -> bool:
    """Whether there were any. Call it before anybody runs the project; to do it again changes nothing."""
    if not folder.exists:
        return False
    documents = sorted(folder.root.glob("*.json"))
    with closing(folder.ledger()) as ledger:
        changes = tuple(_find_changes(ledger))
        if not changes and not any(folder.would_change(path, hide_in_document) for path in documents):
            return False
        lease = ledger.acquire(SERVICE, this_holder(), LEASE_S)
        ledger.commit(lease, Commit(notes=changes))
        ledger.release(lease)
    folder.purge_ledger()
    for path in (path for pattern in LOGS for path in sorted(folder.root.glob(pattern))):
        folder.rewrite(path, hide_in_log)
    for path in documents:  # last: if we die before, these have all of it done again
        folder.rewrite(path, hide_in_document)
    return True


def _find_changes(ledger: Ledger) -> Iterator[NoteChange]:
    """A note that is read has its place without the password, and so the name that it has from now on."""
    copies = read_notes(ledger, DeliveredCopy)
    for key, copy in copies.items():
        if copy.key != key:
            yield DeliveredCopy.remove(key)
            yield copy
    for slot in read_notes(ledger, CaptureSlot).values():
        if (hidden := hide_password(slot.dsn)) != slot.dsn:
            yield replace(slot, dsn=hidden)
    steps = read_note(ledger, StepsToDo)
    if steps is not None and (document := hide_in_document(steps.document)) != steps.document:
        yield StepsToDo(document)
