"""Drops the views of Headrace 0.1, whose plans this version does not read; sources are read and views loaded again.

Positions, replication slots and delivered copies stay as they are. Spools go with the views: what views had read was
trimmed from them, so a view that is loaded from a spool alone would lack rows.
"""

from __future__ import annotations

import logging

from headrace.model.log import Commit, Lease
from headrace.model.notes import LogKeys, note_keys, remove_notes_about
from headrace.run.capture.spool import SPOOL
from headrace.run.ports import Ledger
from headrace.site.folder import OLD_RUNNING_FILE, Folder

log = logging.getLogger("headrace.service")

OLD_STATE = (
    f"Headrace 0.1 wrote the state in .headrace ({OLD_RUNNING_FILE}), whose plans this version does not read:",
    "all sources are read and all views loaded again; replication slots are kept",
)


def forget_old_views(folder: Folder, ledger: Ledger, lease: Lease) -> None:
    """Does nothing unless Headrace 0.1 ran the project last."""
    if not folder.is_of_old_version:
        return
    log.warning("%s %s", *OLD_STATE)
    logs = tuple(sorted(ledger.times()))
    sources = frozenset(name.removeprefix(SPOOL) for name in logs if name.startswith(SPOOL))
    keys = tuple(LogKeys.remove(name) for name in note_keys(ledger, LogKeys))
    ledger.commit(lease, Commit(notes=(*keys, *remove_notes_about(ledger, sources)), forget=logs))
    # The file goes last: after a crash before that, the views are forgotten once more instead of being used.
    folder.remove(OLD_RUNNING_FILE)
