"""Every kind of note is read as it was written, by this version and by the ones before; a damaged one harms nobody."""

from __future__ import annotations

import ast
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.connect.ledger.statements import FORMAT, MAKE_FORMAT, MIGRATIONS
from headrace.model import notes
from headrace.model.catalogue import DeltaFolder, PostgresTable
from headrace.model.notes import (
    ABOUT_SOURCES,
    KINDS,
    AuditRecord,
    CapturedUpTo,
    CaptureFailing,
    CaptureSlot,
    CapturingTables,
    ChargedUpTo,
    CheckedSubjects,
    ContractAccount,
    CopyReached,
    CutReached,
    DeliveredCopy,
    GoneFiles,
    Halted,
    KeptFeedStore,
    LastLook,
    Learnt,
    LogKeys,
    MeasuredPrices,
    Note,
    NotifiedUpTo,
    PlanMoves,
    ProjectHome,
    RejectedFile,
    SourceDiffers,
    SourceFingerprint,
    SourceLoaded,
    SourceLoading,
    SourceMend,
    SourceMissed,
    SourceObsolete,
    SourceShape,
    SourceStopped,
    SourceUnreadable,
    SourceUnwatched,
    SourceWhole,
    StepsBegun,
    StepsDone,
    StepsToDo,
    TakenFile,
    ViewDiffers,
    WantedTime,
    Watermark,
    note_keys,
    read_document,
    read_note,
    read_notes,
)

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headrace"

SLOT = "headrace_shop_main_0a1b2c3d"
STORED: list[tuple[Note, str, str]] = [
    (
        CapturedUpTo("main", 7, 5, {"lsn": "1/2A", "slot": SLOT}),
        "position:main",
        f'{{"commit_time": 5, "lsn": "1/2A", "slot": "{SLOT}", "t": 7}}',
    ),
    (CapturedUpTo("folder:clicks", 7, 5), "position:folder:clicks", '{"t": 7, "commit_time": 5}'),
    (CapturingTables("main", "0123456789abcdef"), "capturing:main", "0123456789abcdef"),
    (CaptureFailing("main", "it is away", None), "failing:main", '{"why": "it is away", "hint": null}'),
    (CutReached("main", "f00d", 7), "cut:main", "f00d 7"),
    (SourceLoaded("orders", 1_700_000_000_000_000), "loaded:orders", "1700000000000000"),
    (
        SourceLoading("orders", ("1", "a"), 3, (("2", "b"),), repeats=True, begun=True, estimate=12.0),
        "load:orders",
        '{"last": ["1", "a"], "rows": 3, "again": [["2", "b"]], "repeats": true, "begun": true, "estimate": 12.0}',
    ),
    (
        SourceLoading("clicks"),
        "load:clicks",
        '{"last": null, "rows": 0, "again": [], "repeats": false, "begun": false, "estimate": null}',
    ),
    (
        SourceStopped("orders", 'column "a" is gone: it was "int"'),
        "quarantine:orders",
        'column "a" is gone: it was "int"',
    ),
    (SourceMend("orders", "ALTER TABLE orders ..."), "mend:orders", "ALTER TABLE orders ..."),
    (
        SourceUnwatched("orders", "may not", "ALTER ROLE ..."),
        "unwatched:orders",
        '{"why": "may not", "hint": "ALTER ROLE ..."}',
    ),
    (
        SourceUnreadable("orders", 'role "r" may not read it', "GRANT ..."),
        "unreadable:orders",
        '{"why": "role \\"r\\" may not read it", "hint": "GRANT ..."}',
    ),
    (SourceMissed("orders", 7), "missed:orders", "7"),
    (SourceObsolete("orders", "its table was created again"), "obsolete:orders", "its table was created again"),
    (SourceWhole("orders", 7), "whole:orders", "7"),
    (SourceFingerprint("orders", '{"oid": 7}'), "fingerprint:orders", '{"oid": 7}'),
    (SourceShape("orders", '{"kind": "table"}'), "shape:orders", '{"kind": "table"}'),
    (Watermark("clicks", 9), "watermark:clicks", "9"),
    (
        TakenFile("clicks", "a:b.csv", 7, 2, 64, 1_700_000_000_000_000_001),
        "file:clicks:a:b.csv",
        '{"t": 7, "rows": 2, "bytes": 64, "modified_ns": 1700000000000000001}',
    ),
    (
        TakenFile("clicks", "gone.csv", 7, 2, 64, 9, "f00d", 8),
        "file:clicks:gone.csv",
        '{"t": 7, "rows": 2, "bytes": 64, "modified_ns": 9, "digest": "f00d", "gone_at": 8}',
    ),
    (TakenFile("clicks", "old.csv", 7, 2, 64), "file:clicks:old.csv", '{"t": 7, "rows": 2, "bytes": 64}'),
    (
        RejectedFile("clicks", "b.csv", 'the file has no column "at"'),
        "rejected:clicks:b.csv",
        'the file has no column "at"',
    ),
    (GoneFiles("clicks", 2, 3, "b.csv"), "gone:clicks", '{"files": 2, "rows": 3, "last": "b.csv"}'),
    (LogKeys("d:x|x@us", (("x.a", "x.b"), ())), "keys:d:x|x@us", '[["x.a", "x.b"], []]'),
    (Halted("v", "division by zero", 3, 4), "halted:v", '{"why": "division by zero", "since": 3, "tried": 4}'),
    (
        Halted("v", "it differs", 3, 4, differs=True),
        "halted:v",
        '{"why": "it differs", "since": 3, "tried": 4, "differs": true}',
    ),
    (SourceDiffers("orders", "1 missing", 3), "differs:orders", '{"what": "1 missing", "since": 3}'),
    (ViewDiffers("fresh", "1 missing", 3), "wrong:fresh", '{"what": "1 missing", "since": 3}'),
    (WantedTime(7), "wanted", "7"),
    (CheckedSubjects("[]"), "checks", "[]"),
    (AuditRecord("fresh", '{"looks": 1}'), "audit:fresh", '{"looks": 1}'),
    (CopyReached("fresh", 7), "delivered:fresh", "7"),
    (NotifiedUpTo("near", 7), "notified:near", "7"),
    (ChargedUpTo(7), "charged", "7"),
    (ContractAccount("fresh", '{"cpu": 1.0}'), "account:fresh", '{"cpu": 1.0}'),
    (LastLook('{"at": 1}'), "look", '{"at": 1}'),
    (Learnt('{"version": 3}'), "learnt", '{"version": 3}'),
    (PlanMoves("[]"), "moves", "[]"),
    (MeasuredPrices("home", "{}"), "prices:home", "{}"),
    (
        KeptFeedStore("shop", "home", "redis", "${URL}"),
        "feed_store:home:4cd295001203",
        '{"project": "shop", "feed": "home", "store": "redis", "address": "${URL}"}',
    ),
    (StepsToDo('{"format": "headrace/1"}'), "steps", '{"format": "headrace/1"}'),
    (StepsDone(3), "steps_done", "3"),
    (StepsBegun(2), "steps_begun", "2"),
    (
        DeliveredCopy("shop", "orders", "open_orders", DeltaFolder("out/${WHERE}")),
        "copy:orders:5f370a678ee4",
        '{"project": "shop", "contract": "orders", "view": "open_orders", "place": {"path": "out/${WHERE}"}}',
    ),
    (
        DeliveredCopy("shop", "orders", "open_orders", PostgresTable("${DSN}", "orders")),
        "copy:orders:cc0e2d40f365",
        '{"project": "shop", "contract": "orders", "view": "open_orders",'
        ' "place": {"dsn": "${DSN}", "table": "orders"}}',
    ),
    (
        CaptureSlot(SLOT, "shop:/here", "main", "${DSN}"),
        f"slot:{SLOT}",
        '{"project": "shop:/here", "database": "main", "dsn": "${DSN}"}',
    ),
    (
        ProjectHome("vm", "/shop/.headrace", 5, 6),
        "home",
        '{"machine": "vm", "folder": "/shop/.headrace", "folder_number": 5, "ledger_number": 6}',
    ),
]
"""Notes, and their names and texts as version 0.1.0 wrote them."""


class Texts:
    """A ledger of which only the notes are there."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def notes(self, prefix: str = "") -> Mapping[str, str]:
        return {name: text for name, text in self.texts.items() if name.startswith(prefix)}


def test_every_kind_of_note_is_among_those_below():
    assert {type(note) for note, _, _ in STORED} == set(KINDS)
    assert len({kind.prefix() for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize(("note", "name", "text"), STORED)
def test_notes_of_earlier_versions_are_read(note: Note, name: str, text: str):
    assert note.name == name
    ledger = Texts({name: text, "looks": "x", "audit2:a": "x"})
    assert read_note(ledger, type(note), note.key) == note
    assert read_notes(ledger, type(note)) == {note.key: note}
    assert note_keys(ledger, type(note)) == [note.key]


@pytest.mark.parametrize(("note", "name", "earlier"), STORED)
def test_what_is_written_is_read_back_and_earlier_versions_read_it_too(note: Note, name: str, earlier: str):
    written = note.to_text()
    assert read_notes(Texts({name: written}), type(note)) == {note.key: note}
    if earlier.startswith("{"):
        assert json.loads(written).items() >= json.loads(earlier).items()
    else:
        assert written == earlier


DAMAGED = {
    CapturedUpTo: ("", "{}", "[]", '{"t": "x", "commit_time": 5}', '{"t": 7}', '{"t": 7, "commit_time": 5, "lsn": 3}'),
    CutReached: ("f00d", "f00d x", "a b c"),
    SourceLoaded: ("", "x", "1.5"),
    SourceLoading: ("{}", "null", '{"last": 1, "rows": 0, "again": [], "repeats": 0, "begun": 0, "estimate": null}'),
    SourceMissed: ("x",),
    Watermark: ("x",),
    TakenFile: ('{"t": 7}', '{"t": 7, "rows": 2, "bytes": "64"}'),
    GoneFiles: ('{"files": 2}',),
    LogKeys: ("{}", "[1]", '[["a", 1]]'),
    Halted: ('{"why": "x"}', '{"why": 1, "since": 3, "tried": 4}'),
    WantedTime: ("soon",),
    DeliveredCopy: ('{"project": "shop"}', '{"project": "a", "contract": "b", "view": "c", "place": {"x": "y"}}'),
    KeptFeedStore: ("{", '{"project": "shop", "feed": "home"}'),
    CaptureSlot: ("{", '{"project": "shop", "database": "main"}'),
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in DAMAGED.items() for text in texts])
def test_a_damaged_note_is_told_and_counts_as_missing(kind: type[Note], text: str, caplog: pytest.LogCaptureFixture):
    notes._warn_once.cache_clear()
    key = "a:b" if ":" in kind.stored_as else ""
    ledger = Texts({kind.name_of(key): text})
    with caplog.at_level(logging.WARNING):
        assert read_notes(ledger, kind) == {}
        assert read_note(ledger, kind, key) is None
    assert note_keys(ledger, kind) == [key], "whoever removes it finds it"
    (told,) = caplog.messages
    assert told.startswith(f'the note "{kind.name_of(key)}" in the ledger cannot be read, and counts as missing: ')


def test_a_document_of_another_version_is_told_and_counts_as_missing(caplog: pytest.LogCaptureFixture):
    notes._warn_once.cache_clear()
    assert read_document(Learnt('{"version": 2}'), lambda text: json.loads(text)["version"]) == 2
    assert read_document(Learnt('{"version": 2}'), lambda text: json.loads(text)["fits"]) is None
    assert caplog.messages == ["the note \"learnt\" in the ledger cannot be read, and counts as missing: 'fits'"]


def test_only_notes_of_the_source_are_found_among_those_about_files():
    ledger = Texts({"file:a:x": '{"t": 1, "rows": 1, "bytes": 1}', "file:ab:y": '{"t": 1, "rows": 1, "bytes": 1}'})
    assert [one.file for one in read_notes(ledger, TakenFile, "a").values()] == ["x"]


NO_NOTES = {("connect/postgres/slots.py", "slot:"), ("connect/postgres/cut.py", "cut:")}
"""A lease, and a mark in the log of a database: texts that begin like notes."""


def test_nobody_else_names_notes_or_reads_their_texts():
    """Names of notes are in `model/notes.py` alone, and so are calls of the ledger's `notes`."""
    begins = tuple(kind.prefix() for kind in KINDS if ":" in kind.stored_as)
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        module = str(file.relative_to(SOURCE))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(begins)
            calls = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "notes"
            text = ast.literal_eval(node) if names else "notes()"
            if (names or calls) and module != "model/notes.py" and (module, text) not in NO_NOTES:
                found.append(f"{module}: {text}")
    assert found == []


def test_the_page_about_state_has_every_kind_of_note_and_no_other():
    page = (ROOT / "docs" / "state.md").read_text(encoding="utf-8")
    section = page.partition("## Notes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert rows == [kind.stored_as for kind in KINDS]


def test_the_page_about_state_has_every_table_of_the_ledger_and_its_format():
    page = (ROOT / "docs" / "state.md").read_text(encoding="utf-8")
    section = page.partition("## Tables of the ledger")[2].partition("\n## ")[0]
    rows = [name for row in re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE) for name in re.findall("`(.*?)`", row)]
    texts = " ".join([MAKE_FORMAT, *(text for texts in MIGRATIONS for text in texts)])
    made = re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", texts)
    assert sorted(rows) == sorted(made)
    assert f"Its format is {FORMAT} " in section


def test_kinds_about_sources_are_those_that_say_so():
    about = {kind for kind in KINDS if kind.stored_as.partition(":")[2].partition(":")[0] == "SOURCE"}
    assert about == set(ABOUT_SOURCES)
