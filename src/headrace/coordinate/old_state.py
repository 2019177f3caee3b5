"""Drops the views of Headrace 0.1, whose plans this version does not read; they are loaded again from the spools.

Spools, positions, replication slots and delivered copies stay as they are.
"""

from __future__ import annotations

import logging

from headrace.model.log import Commit, Lease
from headrace.model.notes import LogKeys, note_keys
from headrace.run.capture.spool import SPOOL
from headrace.run.ports import Ledger
from headrace.site.folder import OLD_RUNNING_FILE, Folder

log = logging.getLogger("headrace.service")

OLD_STATE = (
    f"Headrace 0.1 wrote the state in .headrace ({OLD_RUNNING_FILE}), whose plans this version does not read:",
    "all views are loaded again; captured changes and replication slots are kept",
)


def forget_old_views(folder: Folder, ledger: Ledger, lease: Lease) -> None:
    """Does nothing unless Headrace 0.1 ran the project last."""
    if not folder.is_of_old_version:
        return
    log.warning("%s %s", *OLD_STATE)
    views = tuple(sorted(name for name in ledger.times() if not name.startswith(SPOOL)))
    keys = tuple(LogKeys.remove(name) for name in note_keys(ledger, LogKeys))
    ledger.commit(lease, Commit(notes=keys, forget=views))
    # The file goes last: after a crash before that, the views are forgotten once more instead of being used.
    folder.remove(OLD_RUNNING_FILE)
