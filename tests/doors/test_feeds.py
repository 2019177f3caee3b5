"""`headrace feeds decide`: instances and tables in, one document or a few lines out."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.doors.cli.main import run
from tests.plan.feeds.exhaustive import best
from tests.plan.feeds.instances import MODELS, Document, feeds, latency

INSTANCE = {
    "kind": "feeds", "H": 3, "L": 1, "model": "rpc", "producers": {"slow": 1, "fast": 9},
    "consumers": {"c": {"rate": 6, "follows": ["slow", "fast"]}},
}  # fmt: skip


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """The exit status and the one document on stdout."""
    status = run(["feeds", "decide", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


def write_instance(folder: Path, document: object) -> Path:
    file = folder / "instance.json"
    file.write_text(json.dumps(document))
    return file


def write_tables(folder: Path, document: Document, form: str = "parquet") -> list[object]:
    """The same instance as tables, and the options that go with them."""
    own: dict[str, Any] = {
        name: entry if isinstance(entry, dict) else {"rate": entry} for name, entry in document["producers"].items()
    }
    consumers = document["consumers"].items()
    tables: dict[str, Any] = {
        "p": {"producer": list(own), "rate": [float(entry["rate"]) for entry in own.values()]}
        | {price: [float(entry.get(price, document[price])) for entry in own.values()] for price in ("H", "L")},
        "c": {"consumer": [n for n, _ in consumers], "rate": [float(entry["rate"]) for _, entry in consumers]},
        "f": {"consumer": [n for n, entry in consumers for _ in entry["follows"]],
              "producer": [p for _, entry in consumers for p in entry["follows"]]},
    }  # fmt: skip
    files = {name: folder / f"{name}.{form}" for name in tables}
    for name, columns in tables.items():
        table = pa.table(columns)
        pq.write_table(table, files[name]) if form == "parquet" else csv.write_csv(table, files[name])
    return [
        files["f"], "--producers", files["p"], "--consumers", files["c"], "-H", document["H"], "-L", document["L"],
        "--L0", document.get("L0", 0), "--model", document.get("model", "batch"), "--k", document.get("k", 10),
    ]  # fmt: skip


def test_an_instance_is_answered_with_exactly_the_documented_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    status, answer = ask(capsys, write_instance(tmp_path, INSTANCE))
    seconds = answer.pop("seconds")
    assert (status, 0 <= seconds < 10) == (0, True)
    assert answer == {
        "cost": 9,
        "push_all_cost": 30,
        "pull_all_cost": 12,
        "lower_bound": 9,
        "optimal": True,
        "push": [["c", "slow"]],
    }


def test_people_get_the_same_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["feeds", "decide", str(write_instance(tmp_path, INSTANCE)), "--why", "c<-fast"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 follows: 1 stored ahead (50.0 %), 1 on read",
        "cost 9; all ahead 30, all on read 12",
        "no assignment costs less",
        "  store ahead  c <- slow",
        "on read: 9 events/h against 6 reads/h",
        "  storing ahead costs 27/h, reading 6/h",
    ]


def test_why_is_part_of_the_document_when_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    _, answer = ask(capsys, write_instance(tmp_path, INSTANCE), "--why", "c<-slow", "--per", "min")
    assert answer["why"].startswith("stored ahead: 1 events/min against 6 reads/min")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_tables_and_instances_get_the_same_decisions(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str):
    random = Random(form)
    for _ in range(30):
        document = feeds(random, random.choice(MODELS))
        if not any(consumer["follows"] for consumer in document["consumers"].values()):
            continue
        out = tmp_path / f"out.{form}"
        status, answer = ask(capsys, *write_tables(tmp_path, document, form), "--out", out)
        _, expected = ask(capsys, write_instance(tmp_path, document))
        assert status == 0
        rows = pq.read_table(out) if form == "parquet" else csv.read_csv(out)
        decided = [[row["consumer"], row["producer"]] for row in rows.to_pylist() if row["decision"] == "push"]
        assert decided == expected["push"]
        assert rows.column_names == ["consumer", "producer", "decision"]
        for cost in ("cost", "push_all_cost", "pull_all_cost", "lower_bound"):
            assert answer[cost] == pytest.approx(expected[cost], rel=1e-12)
        assert (answer["pairs"], answer["pushed"]) == (rows.num_rows, len(decided))
        assert "push" not in answer


def test_tables_take_latency_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    random = Random("targets")
    for _ in range(30):
        document = {**feeds(random, random.choice(["rpc", "batch"])), "latency": latency(random)}
        if not any(consumer["follows"] for consumer in document["consumers"].values()):
            continue
        target = document["latency"]
        options = (
            ["--mean-pulls", target["max"]]
            if target["kind"] == "mean_pulls"
            else ["--percentile", target["q"], "--max-pulls", target["max_pulls"]]
        )
        status, answer = ask(capsys, *write_tables(tmp_path, document), *options)
        assert (status, answer["optimal"]) == (0, True)
        assert answer["cost"] == pytest.approx(float(best(document).cost), rel=1e-12)


def test_other_columns_of_the_follows_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = write_tables(tmp_path, INSTANCE)
    follows = Path(str(arguments[0]))
    table = pq.read_table(follows)
    table = table.append_column("since", pa.array([2020, 2021])).append_column("decision", pa.array(["?", "?"]))
    pq.write_table(table, follows)
    assert ask(capsys, *arguments, "--out", tmp_path / "out.parquet")[0] == 0
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [
        {"consumer": "c", "producer": "slow", "since": 2020, "decision": "push"},
        {"consumer": "c", "producer": "fast", "since": 2021, "decision": "pull"},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("{", "not JSON"),
        (json.dumps({**INSTANCE, "H": -3}), '"H" must not be negative, but is -3'),
        (json.dumps({**INSTANCE, "consumers": {"c": {"rate": 6, "follows": ["slwo"]}}}), "unknown producer"),
        (json.dumps({**INSTANCE, "model": "amortised", "latency": {"kind": "mean_pulls", "max": 0}}), "latency target"),
        (json.dumps({"kind": "composite", "H": 1, "L": 1, "nodes": {"a": {}}, "edges": [["a", "a"]]}), "circle"),
        (json.dumps({**INSTANCE, "producers": {"\ud800": 1}}), "half a character"),
    ],
    ids=["empty", "syntax", "negative", "unknown", "latency", "circle", "half a character"],
)
def test_a_wrong_instance_is_one_document_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
):
    file = tmp_path / "instance.json"
    file.write_text(text)
    status, answer = ask(capsys, file)
    assert status == 2
    assert message in answer["errors"][0]["message"]
    assert answer["errors"][0]["file"] == str(file)
    assert {"message", "file", "line", "column", "hint"} == answer["errors"][0].keys()


@pytest.mark.parametrize(
    "more",
    [
        ["-H", "3"],
        ["--L0", "5"],
        ["--model", "rpc"],
        ["--mean-pulls", "1"],
        ["--percentile", "1"],
        ["--engine", "spark"],
    ],
)
def test_an_option_for_tables_is_refused_rather_than_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
):
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(INSTANCE))
    status, answer = ask(capsys, file, *more)
    assert status == 2
    assert answer["errors"][0]["hint"] == f"leave out {more[0]}"


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(INSTANCE), encoding="utf-8-sig")
    assert ask(capsys, file)[0] == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["-H", "three"], '-H must be a number, not "three"'),
        (["-L", "-1"], "-L must not be negative, but is -1"),
        (["-H", "inf"], "-H must be finite, not Infinity"),
        (["--model", "rcp"], 'there is no model "rcp"'),
        (["--k", "0"], "-k must be from 1 to 100000, not 0"),
        (["--model", "recency", "--mean-pulls", "1"], 'a latency target does not go with model "recency"'),
        (["--percentile", "95"], "--percentile must be at most 1, not 95"),
        (["--percentile", "0.9", "--mean-pulls", "1"], "--mean-pulls and --percentile are two targets"),
        (["--out", "out.txt"], '"out.txt" is neither .parquet nor .csv'),
        (["--why", "c->fast"], '"c->fast" is not a pair'),
        (["--why", "c<-nobody"], '"c" does not follow "nobody"'),
        (["--engine", "spark", "--mean-pulls", "1"], "targets, methods and --why need all pairs in one place"),
        (["--producers", "nowhere.parquet"], 'no file "nowhere.parquet"'),
    ],
)
def test_wrong_options_are_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str):
    status, answer = ask(capsys, *write_tables(tmp_path, {**INSTANCE, "model": "batch"}), *more)
    assert (status, answer["errors"][0]["message"]) == (2, message)


def test_a_table_alone_says_what_else_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    follows = write_tables(tmp_path, INSTANCE)[0]
    status, answer = ask(capsys, follows)
    assert (status, answer["errors"][0]["message"]) == (2, "a table of follows needs rates and prices")


def test_deciding_a_table_loads_no_heavy_packages(tmp_path: Path):
    arguments = [*map(str, write_tables(tmp_path, INSTANCE)), "--out", str(tmp_path / "out.parquet"), "--json"]
    heavy = ("pandas", "scipy", "sqlglot", "rustworkx", "pyspark")
    script = f"""
import sys
from headrace.doors.cli.main import run
assert run(["feeds", "decide", *{arguments!r}]) == 0
print("loaded:", *(name for name in {heavy} if name in sys.modules), file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    # On a busy machine progress is told before it.
    assert (ran.returncode, ran.stderr.splitlines()[-1].strip()) == (0, "loaded:")
    assert Fraction(json.loads(ran.stdout)["cost"]) == 9
