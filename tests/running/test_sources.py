"""What goes with a source that nobody reads any more."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.ledger.statements import WRITE_NOTE
from headrace.model.log import Commit
from headrace.site.folder import Folder
from headrace.site.sources.captures import Captures
from headrace.site.sources.sources import Sources


def test_all_notes_about_a_source_go_with_it_so_that_its_files_are_read_again(tmp_path: Path) -> None:
    its_own = {"loaded:clicks", "load:clicks", "shape:clicks", "quarantine:clicks", "watermark:clicks", "missed:clicks"}
    its_own |= {"file:clicks:monday.csv", "rejected:clicks:tuesday.csv", "gone:clicks", "position:folder:clicks"}
    others = {"loaded:clicks2", "file:clicks2:monday.csv", "position:clicks", "audit:clicks", "file:other:clicks:x"}
    with closing(open_sqlite(tmp_path / "ledger.db")) as ledger:
        lease = ledger.acquire("service", "here", 60.0)
        with ledger._database.write() as transaction:  # texts that nobody can read go, too
            transaction.change(WRITE_NOTE, [(name, "x") for name in its_own | others])
        sources = Sources(ledger, Captures(Folder(tmp_path), {}), threading.Event())
        ledger.commit(lease, Commit(notes=sources.forget_notes_about(["clicks"])))
        assert ledger.notes().keys() == others
