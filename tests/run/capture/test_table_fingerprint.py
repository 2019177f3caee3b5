"""Which changes of a table make what was read of it worthless."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.run.capture.pgoutput import Relation, RelationColumn
from headrace.run.capture.table_fingerprint import (
    ColumnFingerprint,
    OtherColumn,
    OtherPartitions,
    OtherPublication,
    OtherServer,
    OtherTable,
    OtherType,
    PartFingerprint,
    PublicationFingerprint,
    RenamedLabel,
    RewrittenRows,
    TableChange,
    TableFingerprint,
    find_changes,
    find_relation_changes,
    find_replaced_parts,
    say_change,
)

ID = ColumnFingerprint("id", 1, 20, -1, {}, "700")
MOOD = ColumnFingerprint("mood", 3, 900, -1, {"901": "sad", "902": "glad"}, "700")
PART = PartFingerprint(800, 800, {"id": "700", "mood": "700"})
PUBLISHED = PublicationFingerprint(600, "650", 601, False, None, "iudt")
TABLE = TableFingerprint("7", "1", 800, (ID, MOOD), (PART,), PUBLISHED, "d", True, False, ())
VACUUMED = replace(PART, file=801)
DESCRIBED = replace(PART, written_by={"id": "700", "mood": "710"})


def with_mood(column: ColumnFingerprint) -> TableFingerprint:
    return replace(TABLE, columns=(ID, column))


@pytest.mark.parametrize(
    ("now", "changes"),
    [
        (TABLE, ()),
        (replace(TABLE, timeline="2"), ()),
        (replace(TABLE, parts=(VACUUMED,)), ()),
        (replace(TABLE, parts=(DESCRIBED,)), ()),
        (replace(TABLE, parts=(replace(DESCRIBED, file=801),)), (RewrittenRows(),)),
        (replace(TABLE, parts=(VACUUMED, replace(DESCRIBED, oid=802))), ()),
        (replace(TABLE, identity="f", key_is_unique=False, row_security=True, children=(802,)), ()),
        (replace(TABLE, system="8", oid=801), (OtherServer(),)),
        (replace(TABLE, oid=801, columns=()), (OtherTable(),)),
        (replace(TABLE, columns=(MOOD, replace(ID, number=4))), (OtherColumn("id"),)),
        (with_mood(replace(MOOD, type_oid=25, labels={})), (OtherType("mood"),)),
        (with_mood(replace(MOOD, modifier=9)), ()),
        (with_mood(replace(MOOD, labels={**MOOD.labels, "903": "mad"})), ()),
        (with_mood(replace(MOOD, labels={"901": "blue", "902": "glad"})), (RenamedLabel("mood", "sad", "blue"),)),
        (replace(TABLE, published=None), (OtherPublication(),)),
        (replace(TABLE, published=replace(PUBLISHED, entry=602)), (OtherPublication(),)),
        (replace(TABLE, published=replace(PUBLISHED, written_by="651", operations="i")), (OtherPublication(),)),
    ],
)
def test_only_changes_that_the_log_does_not_tell_count(now: TableFingerprint, changes: tuple[TableChange, ...]):
    assert find_changes(TABLE, now) == changes
    assert all(say_change(change) for change in changes)


def test_a_fingerprint_is_read_as_it_was_written():
    for table in (TABLE, replace(TABLE, published=None), replace(TABLE, published=replace(PUBLISHED, columns=(1, 3)))):
        assert TableFingerprint.from_text(table.to_text()) == table


@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        ([("id", 20), ("other", 25), ("mood", 900)], ()),
        ([("mood", 900), ("id", 20)], (OtherColumn("id"),)),
        ([("id", 20), ("mood", 25)], (OtherType("mood"),)),
        ([("id", 20)], ()),
    ],
)
def test_what_the_log_says_of_a_table_is_compared_too(columns: list[tuple[str, int]], changes: tuple[TableChange, ...]):
    told = tuple(RelationColumn(name, name == "id", type_oid, -1) for name, type_oid in columns)
    assert find_relation_changes(TABLE, Relation(0, 800, "public", "t", told)) == changes
    assert find_relation_changes(TABLE, Relation(0, 801, "public", "t", told)) == (OtherTable(),)


def test_a_partitioned_table_is_another_one_when_its_partitions_or_their_files_are_others() -> None:
    first, second = replace(PART, oid=801, file=801), replace(PART, oid=802, file=802)
    table = replace(TABLE, parts=(first, second))
    for parts in ((first,), (first, second, replace(PART, oid=803)), (first, replace(second, file=900))):
        assert find_changes(table, replace(table, parts=parts)) == (OtherPartitions(),)
    assert find_changes(table, table) == ()
    vacuumed = replace(table, parts=(replace(first, file=900), replace(second, file=901)))
    assert find_replaced_parts(table, vacuumed) == (801, 802) and find_replaced_parts(table, table) == ()
    assert find_changes(table, vacuumed, frozenset({801, 802})) == ()
    assert find_changes(table, vacuumed, frozenset({801})) == (OtherPartitions(),)
    rewritten = replace(table, parts=(replace(DESCRIBED, oid=801, file=900), second))
    assert find_replaced_parts(table, rewritten) == () and find_changes(table, rewritten) == (RewrittenRows(),)
    assert "attached, detached or truncated" in say_change(OtherPartitions())
