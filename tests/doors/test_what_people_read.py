"""What all commands print for people fits their terminal, and names datasets in words."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.doors.cli import main
from headrace.doors.cli.audit import audit_text
from headrace.doors.cli.output import Exit, table, wrap
from headrace.doors.cli.show import show_rows
from headrace.doors.cli.status_text import status_text
from headrace.site.log_words import LOG_WORDS
from headrace.site.reading import Seen
from tests.golden import check_golden

ROOT = Path(__file__).parents[2]
APPS, CITY = ROOT / "examples" / "apps", ROOT / "examples" / "city"
GOLDEN = ROOT / "tests" / "golden" / "commands"
WIDTHS = (60, 80, 120)

LONG = {
    "us": "north_america_production_east_one",
    "eu": "western_europe_production_central",
    "users": "registered_users_of_all_platforms",
    "tweets": "messages_written_by_people_in_town",
    "curloc": "current_locations_of_every_message",
    "nearby": "messages_near_restaurants_tonight",
    "activity": "activity_by_city_for_the_newspaper",
    "talkers": "most_talkative_people_of_this_week",
    "nearby_tweets": "messages_written_near_a_restaurant",
    "tweets_by_city": "number_of_messages_in_every_city_now",
    "top_talkers": "people_who_write_the_most_messages",
    "restaurants": "association_of_local_restaurants_ltd",
    "press": "department_of_press_and_publicity",
    "moderation": "volunteers_for_friendly_discussions",
}
"""Names of the sample project, and long ones in their place."""

ID = re.compile(r"\b[rd]:\S+@|~[0-9a-f]{6}\b")
"""What the ids of datasets look like."""


@pytest.fixture
def long_city(tmp_path: Path) -> Path:
    """The sample project with names of more than thirty characters."""
    names = re.compile(r"\b(" + "|".join(sorted(LONG, key=len, reverse=True)) + r")\b")
    for path in CITY.rglob("*"):
        if path.is_file() and ".headrace" not in path.parts:
            copy = tmp_path / "city" / names.sub(lambda found: LONG[found[0]], str(path.relative_to(CITY)))
            copy.parent.mkdir(exist_ok=True, parents=True)
            copy.write_text(names.sub(lambda found: LONG[found[0]], path.read_text()))
    return tmp_path / "city"


@pytest.fixture
def hasty_city(tmp_path: Path, long_city: Path) -> Path:
    """One promise that nobody can keep, and one for which a site is too slow."""
    text = (long_city / "headrace.yml").read_text().replace("freshness: 30 s", "freshness: 0.5 s")
    (long_city / "headrace.yml").write_text(re.sub(r"rate: 100 /s", "rate: 3000000 /s", text))
    return long_city


def read(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """All that a command says to people."""
    assert main.run(list(map(str, words))) in (Exit.DONE, Exit.NO, Exit.WRONG_USE)
    said = capsys.readouterr()
    return said.out + said.err


def check_width(text: str, width: int) -> None:
    """No line is longer, unless a single word is."""
    assert text.strip()
    long = [line for line in text.splitlines() if len(line) > width and " " in line.strip()]
    assert not long, f"longer than {width}:\n" + "\n".join(long)


def questions(folder: Path, contract: str, view: str, source: str) -> list[list[object]]:
    return [
        ["check", folder],
        ["plan", folder],
        ["why", contract, folder],
        ["why", view, folder],
        ["why", source, folder],
        ["whatif", contract, folder, "--freshness", "5s"],
        ["whatif", contract, folder, "--freshness", "0.01s"],
        ["apply", "--dry-run", folder],
        ["why", "nobody", folder],
        ["status", folder],
    ]


@pytest.mark.parametrize("width", [60, pytest.param(80, marks=pytest.mark.long)])
def test_answers_about_projects_fit_the_terminal_and_name_datasets_in_words(
    width: int, long_city: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    asked = questions(long_city, LONG["nearby"], LONG["top_talkers"], LONG["tweets"])
    if width == min(WIDTHS):
        asked += questions(CITY, "nearby", "top_talkers", "tweets") + questions(APPS, "wall", "pictures", "posts")
        asked += [["doctor", APPS]]
    for words in asked:
        text = read(capsys, *words)
        check_width(text, width)
        assert not ID.search(text), text


@pytest.mark.parametrize("width", [60, pytest.param(80, marks=pytest.mark.long)])
def test_refusals_fit_the_terminal_and_name_datasets_in_words(
    width: int, hasty_city: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    asked = questions(hasty_city, LONG["nearby"], LONG["top_talkers"], LONG["tweets"])
    texts = [read(capsys, *words) for words in asked]
    texts.append(read(capsys, "plan", hasty_city, "--wide-area", "mqo"))
    assert any("refused" in text for text in texts)
    for text in texts:
        check_width(text, width)
        assert not ID.search(text), text


@pytest.mark.parametrize("width", WIDTHS)
def test_mistakes_and_help_fit_the_terminal(
    width: int, long_city: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    project = long_city / "headrace.yml"
    project.write_text(project.read_text().replace("rows: 5M rows", "rows: 5M cows").replace("penalty", "penalties"))
    texts = [read(capsys, "check", long_city), read(capsys, "plan", long_city), read(capsys, "place", "nowhere.json")]
    texts += [read(capsys, "init", long_city.parent / ("a_new_project_with_a_long_name" * 2))]
    texts += [read(capsys, command, "--help") for command in main.COMMANDS]
    for text in texts:
        check_width(text, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_wrong_with_a_plan_is_said_in_words(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main.run(["plan", str(CITY), "--json"]) == Exit.DONE
    plan = json.loads(capsys.readouterr().out)
    for vertex in plan["vertices"]:
        vertex.update(arrival_s=1e9, rows=7.0)
    for edge in plan["edges"]:
        edge["in"] = [f"{one}ff" for one in edge["in"]]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    text = read(capsys, "check-plan", file)
    assert " at us" in text and "does not exist" in text
    check_width(text.replace(str(file), "FILE"), width)
    assert not ID.search(text), text


def test_logs_name_datasets_in_words() -> None:
    """That of a service and that of the demo."""
    said = "cut off by the budget of their site, to be loaded again: %s"
    record = logging.LogRecord(
        "headrace.service", logging.WARNING, "", 0, said, ("d:posts,users|users@us~7b51d7",), None
    )
    line = LOG_WORDS.format(record)
    assert line.endswith("to be loaded again: changes of posts x users made by users at us")


@pytest.mark.parametrize("width", WIDTHS)
def test_placements_and_feeds_fit_the_terminal(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    pairs, follows = tmp_path / "pairs.json", tmp_path / "follows.json"
    one, other = LONG["users"], LONG["tweets"]
    pairs.write_text(json.dumps({"kind": "single", "cu": 1, "cd": 1, "pairs": [[one, other, 1, 360]]}))
    feeds = {"H": 3, "L": 1, "producers": {one: 1.5}, "consumers": {other: {"rate": 6, "follows": [one]}}}
    follows.write_text(json.dumps(feeds))
    check_width(read(capsys, "place", pairs), width)
    check_width(read(capsys, "place", pairs, "--why", f"{one},{other}"), width)
    check_width(read(capsys, "feeds", "decide", follows), width)
    check_width(read(capsys, "feeds", "decide", follows, "--why", f"{other}<-{one}"), width)


CONTRACT = {
    "id": LONG["nearby"], "lag_s": 3.84, "freshness_s": 30.0, "violations": 2, "cost_h": 0.0141, "next_push_s": 18.57,
    "state": "failing", "forced": True, "running": "earlier version",
    "reason": '"d:tweets,users|tweets@eu~b600ec#nearby" could not be pushed: no space is left on the device',
    "refused": {"detail": "apply of r:top_talkers@us~3526c7 takes 1.2 s for every second of changes"},
}  # fmt: skip
RECORDED = {
    "service": {
        "state": "running", "pid": 7, "phase": "running", "written": 100.0,
        "error": "r:tweets@us~3526c7 cannot be read, since nobody knows where the storage of the site went",
        "engine": {"state": "restarting", "name": "Spark", "away_s": 12.34, "error": "no memory is left\nat java.lang"},
    },
    "contracts": [CONTRACT],
    "slots": [{"database": LONG["us"], "slot": "s", "wal_status": "reserved", "kept_bytes": 128_800}],
    "links": [
        {
            "from": LONG["us"],
            "to": LONG["eu"],
            "sent_bytes": 1_000_000,
            "simulated": True,
            "waiting_bytes": 20_000,
            "behind_s": 41.0,
            "state": "sending",
        }
    ],
    "checks": {
        "subjects": [
            {"kind": "source", "name": LONG["tweets"], "found": "equal", "checked": 90.0, "rows": 7, "done": 0.5},
            {"kind": "view", "name": LONG["nearby"], "found": "not checked", "checked": None, "rows": 0, "done": 0.0,
             "reason": "r:v@us~3526c7 is too large for this, and nobody knows how it could be divided"},
        ],
        "pass_s": 90.0, "seconds": 1.5, "bytes": 1_000,
    },
    "troubles": [{"what": "r:v@us~3526c7 is late", "since": 90.0, "hint": "start the database, or wait until it does"}],
    "moves": [
        {
            "at": 88.0, "contracts": [LONG["nearby"]], "because": [f"{LONG['tweets']} changes 500 rows/s, not 50"],
            "restores": [LONG["nearby"]], "saving_h": 0.0012, "migration": 0.00017, "made": ["a"], "dropped": [],
            "error": error,
        }
        for error in (None, "r:tweets@us~3526c7 cannot be loaded: the disk is full")
    ],
}  # fmt: skip
"""A status as a service writes it, with everything that can go wrong."""
WATCHED = {
    "id": LONG["nearby"], "episodes": 2, "violated_s": 12.5, "watched_s": 86400.0, "late_rows": 10_000,
    "rows": 1_000_000, "penalty": 10.0, "money": 10.25,
}  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_said_of_a_running_project_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    failed = {**RECORDED, "service": {**RECORDED["service"], "state": "failed"}}  # type: ignore[dict-item]
    rows = pa.table({LONG["users"]: ["one", "other"], LONG["tweets"]: ["some words that people wrote " * 9, None]})
    seen = Seen(LONG["nearby_tweets"], LONG["nearby"], 0, 1.5, 30.0, rows, 0.0)
    for text in (
        status_text(RECORDED, 160.0),
        status_text(failed, 160.0),
        audit_text({"contracts": [WATCHED]}, late=1),
        show_rows(seen, 20),
    ):
        check_width(text, width)
        assert not ID.search(text), text


def test_a_narrow_terminal_gets_a_field_on_every_line(
    long_city: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    check_golden(GOLDEN / "plan-60.txt", read(capsys, "plan", long_city))
    check_golden(GOLDEN / "status-60.txt", status_text(RECORDED, 160.0) + "\n")


@pytest.mark.parametrize(("columns", "width"), [("20", 60), ("60", 60), ("93", 93), ("500", 120), (None, 80)])
def test_lines_are_as_long_as_the_terminal_is_wide_within_reason(
    columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    lines = wrap(" ".join(["a"] * 500), "")
    assert max(map(len, lines)) in (width - 1, width)


def test_a_terminal_says_how_wide_it_is(tmp_path: Path) -> None:
    """A real terminal, as the operating system makes them."""
    import fcntl
    import struct
    import subprocess
    import sys
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 66, 0, 0))
    program = "from headrace.doors.cli.output import page_width; import sys; sys.exit(page_width())"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with os.fdopen(ours), os.fdopen(theirs) as stdout:
        ended = subprocess.run([sys.executable, "-c", program], stdout=stdout, env=environment, check=False)
    assert ended.returncode == 66


def test_words_that_belong_together_are_parted_only_where_they_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert table([["a", "b" * 30, "c" * 30]]) == ["  a", f"    {'b' * 30}", f"    {'c' * 30}"]
    assert max(map(len, wrap("\N{NO-BREAK SPACE}".join(["word"] * 30), "  "))) <= 60
