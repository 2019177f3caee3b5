"""What is noted about pushes: costs, rows that came late, and who goes first."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headrace.model.log import Commit, Edit, Piece, PieceKind
from headrace.run.schedule.next_push import Due
from headrace.site.auditor import Auditor, WatchedContract
from headrace.site.folder import Folder

SECOND = 1_000_000


def test_a_forced_contract_goes_after_all_others() -> None:
    forced = Due("a", "v", 1, deadline=10, late=False, forced=True)
    late = Due("b", "w", 1, deadline=5, late=True, gives_way=True)
    on_time = Due("c", "x", 1, deadline=99, late=False)
    assert sorted((forced, late, on_time), key=lambda due: due.urgency) == [on_time, late, forced]


def test_rows_that_come_later_than_promised_are_counted_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    ledger, store = folder.ledger(), folder.store()
    lease = ledger.acquire("service", "here", 30)
    auditor = Auditor(ledger, lambda: 100 * SECOND)
    ledger.commit(lease, Commit((Edit("view", None, 0, start=0, site="eu"),)))
    auditor.watch((WatchedContract("sales", "view", 10.0, 0.5, ()),))
    rows = pa.table({"__t": [80 * SECOND, 95 * SECOND, 95 * SECOND], "__w": [1, 1, -2]})
    file, size = store.write("eu", rows, "view")
    piece = Piece(PieceKind.CHANGE, file, 0, 95 * SECOND, 3, size)
    ledger.commit(lease, Commit((Edit("view", 0, 95 * SECOND, (piece,)),)))
    for _ in range(2):
        auditor.judge(store, {"view"}, 100 * SECOND)
        record = auditor.records["sales"]
        assert (record.rows, record.late_rows, record.penalty) == (4, 1, 0.5)
    ledger.close()
