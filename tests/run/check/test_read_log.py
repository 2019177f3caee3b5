"""What a log held at any time is known, also at times before its base, and mending is tried less and less often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.connect.files import FileStore
from headrace.model.log import NEVER, Log, PieceKind
from headrace.model.relation import Field
from headrace.model.types import BIGINT
from headrace.run.check.mend import Mend, choose_mend
from headrace.run.check.read_log import in_window, is_known_at, read_contents_at, repeat_by_weight
from headrace.run.operators.reading import schema_of
from headrace.run.rows.hashes import hash_of

COLUMNS = (Field("r.a", BIGINT),)
CHANGES = {1: [(5, 1), (6, 2)], 2: [(5, -1), (7, 1)], 3: [(6, -1)], 4: [(5, 1), (7, -1)]}
"""By time: values and weights."""


def held_at(t: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for time, changes in CHANGES.items():
        for value, weight in changes if time <= t else ():
            found[value] += weight
    return +found


def table_of(rows: list[tuple[int, int, int]]) -> pa.Table:
    values, times, weights = zip(*rows, strict=True) if rows else ((), (), ())
    orders = pa.array([0] * len(rows), pa.int32())
    return pa.table(
        [pa.array(values, pa.int64()), pa.array(times, pa.int64()), orders, pa.array(weights, pa.int64())],
        schema=schema_of(COLUMNS),
    )


@pytest.mark.parametrize("base_t", [None, 1, 3, 4])
def test_a_log_is_read_as_of_any_time_that_its_changes_lead_to(base_t: int | None, tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    pieces = [
        store.write("us", table_of([(value, time, weight) for value, weight in changes]), "c").as_piece(
            PieceKind.CHANGE, time - 1, time, len(changes)
        )
        for time, changes in CHANGES.items()
    ]
    if base_t is not None:
        rows = table_of([(value, base_t, weight) for value, weight in held_at(base_t).items()])
        pieces.append(store.write("us", rows, "b").as_piece(PieceKind.BASE, NEVER, base_t, rows.num_rows))
    log = Log("r", "us", 4, 0, tuple(pieces))
    for t in range(5):
        assert is_known_at(log, t)
        rows = repeat_by_weight(read_contents_at(store, log, COLUMNS, t))
        assert Counter(rows.column("r.a").to_pylist()) == held_at(t)
    assert not is_known_at(log, 5)


def test_every_hash_lies_in_one_stretch() -> None:
    hashes = hash_of(table_of([(value, 1, 1) for value in range(1000)]), ["r.a"])
    found = [place for number in range(7) for place in in_window(hashes, number, 7).tolist()]
    assert sorted(found) == list(range(1000))


def test_mending_is_gentle_first_then_thorough_and_then_waits() -> None:
    assert choose_mend([], 100.0) is Mend.GENTLY
    assert choose_mend([100.0], 101.0) is Mend.THOROUGHLY
    assert choose_mend([100.0, 101.0], 102.0) is Mend.NOT_NOW
    assert choose_mend([100.0, 101.0], 701.0) is Mend.THOROUGHLY
    assert choose_mend([100.0, 101.0, 701.0], 4000.0) is Mend.NOT_NOW
    assert choose_mend([100.0], 100.0 + 86_400.0) is Mend.GENTLY
