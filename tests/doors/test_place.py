"""`headrace place`: instances and tables in, one document or a few lines out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.doors.cli.main import run
from tests.plan.place import exhaustive
from tests.plan.place.documents import UP_DEARER, single


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """The exit status and the one document on stdout."""
    status = run(["place", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


def write_json(folder: Path, document: object) -> Path:
    file = folder / "instance.json"
    file.write_text(json.dumps(document))
    return file


def write_table(folder: Path, rows: list[tuple[Any, ...]], form: str = "parquet", **more: list[Any]) -> Path:
    file = folder / f"pairs.{form}"
    columns = dict(zip(("a", "b", "rate_ab", "rate_ba"), map(list, zip(*rows, strict=True)), strict=True))
    table = pa.table({**columns, **more})
    pq.write_table(table, file) if form == "parquet" else csv.write_csv(table, file)
    return file


def test_an_instance_is_answered_with_exactly_the_documented_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write_json(tmp_path, {"kind": "single", "cu": 1, "cd": 1, "pairs": [["alice", "bob", 1, 360]]})
    status, answer = ask(capsys, file)
    seconds = answer.pop("seconds")
    assert status == 0
    assert 0 <= seconds < 10
    assert answer == {
        "cost": 2,
        "all_cloud_cost": 361,
        "improvement": 180.5,
        "lower_bound": 2,
        "optimal": True,
        "method": "local thresholds",
        "placement": {"alice|bob": "bob"},
    }


def test_a_cost_of_nothing_has_no_improvement(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    status, answer = ask(capsys, write_json(tmp_path, {"kind": "single", "pairs": []}))
    assert (status, answer["cost"], answer["improvement"], answer["optimal"]) == (0, 0, None, True)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_table_gets_a_column_that_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str):
    rows = [("alice", "bob", 1.5, 360.0), ("bob", "carl", 0.25, 0.25)]
    file = write_table(tmp_path, rows, form, note=["first", "second"])
    out = tmp_path / f"out.{form}"
    status, answer = ask(capsys, file, "--up", "1", "--down", "0.5", "--out", out)
    written = pq.read_table(out) if form == "parquet" else csv.read_csv(out)
    assert status == 0
    assert answer.keys() == {
        *("cost", "all_cloud_cost", "improvement", "lower_bound", "optimal", "method", "seconds", "devices", "pairs")
    }
    assert (answer["devices"], answer["pairs"]) == (3, 2)
    assert written.column_names == ["a", "b", "rate_ab", "rate_ba", "note", "at"]
    assert written["at"].to_pylist() == ["b", "a"]
    assert written["rate_ba"].to_pylist() == [360.0, 0.25]


def test_a_table_and_the_same_instance_have_the_same_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rng = random.Random(3)
    for _ in range(20):
        document = single(rng, UP_DEARER)
        if not document["pairs"] or any(rate > 10**9 for pair in document["pairs"] for rate in pair[2:]):
            continue
        table = write_table(tmp_path, [tuple(pair) for pair in document["pairs"]])
        _, by_table = ask(capsys, table, "--up", document["cu"], "--down", document["cd"])
        _, by_instance = ask(capsys, write_json(tmp_path, document))
        assert by_table["cost"] == by_instance["cost"] == float(exhaustive.best_cost(exhaustive.problem(document)) or 0)


@pytest.mark.parametrize(
    ("name", "content", "arguments", "message"),
    [
        ("x.json", '{"kind": "single", "pairs": [["a", "a", 1, 1]]}', [], "paired with itself"),
        ("x.json", r'{"kind": "single", "pairs": [["\ud800", "b", 1, 1]]}', [], "half a character"),
        ("x.json", '{"kind": "single", "pairs": [["a", "b", NaN, 1]]}', [], "must be finite"),
        ("x.json", "", [], "the file is empty"),
        ("x.csv", "", [], "the file is empty"),
        ("x.csv", "a,b\n1,2\n", [], 'column "rate_ab" is missing'),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,1,2,3\n", [], "paired with itself"),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,-2,3\n", [], "negative"),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,inf,3\n", [], "not finite"),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,x,3\n", [], "not numbers"),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,2,3\n", ["--up", "-1"], '--up is "-1"'),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,2,3\n", ["--down", "1e999999999"], '--down is "1e999999999"'),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,2,3\n", ["--down", "nan"], '--down is "nan"'),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,2,3\n", ["--out", "x.txt"], "neither .parquet nor .csv"),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,2,3\n", ["--engine", "dask"], 'no engine "dask"'),
        ("x.csv", "a,b,rate_ab,rate_ba\n1,2,2,3\n", ["--why", "1,9"], 'device "9" is in no pair'),
        ("x.json", '{"kind": "single", "pairs": []}', ["--up", "2"], "work only with tables"),
        ("x.json", '{"kind": "single", "pairs": []}', ["--why", "a,b"], 'no view "a,b"'),
    ],
)
def test_wrong_input_ends_with_2_and_says_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, arguments: list[str], message: str
):
    file = tmp_path / name
    file.write_text(content)
    status, answer = ask(capsys, file, *arguments)
    assert status == 2
    assert message in answer["errors"][0]["message"]


def test_a_placement_that_cannot_be_is_a_mistake_of_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    document = {
        "kind": "dag",
        "sources": {"s": "d"},
        "devices": {"d": {"capacity": 0}},
        "ops": [{"id": "o", "inputs": [["s", 1]], "pin": "d"}],
    }
    status, answer = ask(capsys, write_json(tmp_path, document))
    assert status == 2
    assert answer["errors"][0]["message"] == 'what is pinned to device "d" is more than its capacity'


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_table_without_rows_costs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str):
    file, out = tmp_path / f"pairs.{form}", tmp_path / f"out.{form}"
    table = pa.table({name: pa.array([], pa.int64()) for name in ("a", "b", "rate_ab", "rate_ba")})
    pq.write_table(table, file) if form == "parquet" else csv.write_csv(table, file)
    status, answer = ask(capsys, file, "--out", out)
    assert (status, answer["cost"], answer["improvement"], answer["pairs"], answer["devices"]) == (0, 0, None, 0, 0)
    written = pq.read_table(out) if form == "parquet" else csv.read_csv(out)
    assert written.column_names == ["a", "b", "rate_ab", "rate_ba", "at"]


def test_a_table_may_be_written_over_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write_table(tmp_path, [("alice", "bob", 1, 360)])
    for _ in range(2):
        assert ask(capsys, file, "--out", file)[0] == 0
        assert pq.read_table(file).to_pylist() == [{"a": "alice", "b": "bob", "rate_ab": 1, "rate_ba": 360, "at": "b"}]


def test_a_view_is_explained_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write_table(tmp_path, [("alice", "bob", 1, 360), ("bob", "carl", 5, 5)])
    assert run(["place", str(file), "--why", "alice,bob", "--per", "h"]) == 0
    text = capsys.readouterr().out
    assert "on bob's device: 360/h stay local, 1/h comes down; 2 messages/h instead of 361" in text


def test_text_says_what_was_decided_and_how_good_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write_json(tmp_path, {"kind": "single", "pairs": [["alice", "bob", 1, 360]]})
    assert run(["place", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["1 view placed", "cost 2: the least possible"]
    assert lines[-1].split() == ["alice|bob", "bob"]


def test_a_table_of_some_size_is_placed_at_the_cost_that_its_column_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The written places, priced by the definition, cost what the summary says."""
    random_numbers = np.random.default_rng(4)
    a, b = random_numbers.integers(0, 3_000, (2, 40_000))
    a, b = a[a != b], b[a != b]
    rates = np.rint(random_numbers.lognormal(0, 1.75, (2, len(a))) * 1000).astype(np.int64)
    file, out = tmp_path / "pairs.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"a": a, "b": b, "rate_ab": rates[0], "rate_ba": rates[1]}), file)
    _, answer = ask(capsys, file, "--up", "5", "--down", "1", "--out", out)
    placed = {"a": a.tolist(), "b": b.tolist()}
    places = dict(enumerate(pq.read_table(out)["at"].to_pylist()))
    pairs: list[list[Any]] = [
        [f"d{one}", f"d{other}", int(rate_a), int(rate_b), str(row)]
        for row, (one, other, rate_a, rate_b) in enumerate(zip(placed["a"], placed["b"], *rates, strict=True))
    ]
    given = exhaustive.problem({"kind": "single", "cu": 5, "cd": 1, "pairs": pairs})
    where = {str(row): {"cloud": "cloud", "a": pairs[row][0], "b": pairs[row][1]}[at] for row, at in places.items()}
    assert exhaustive.cost(given, where) == answer["cost"]
    assert answer["optimal"]
