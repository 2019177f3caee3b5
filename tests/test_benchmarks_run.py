"""Benchmarks that are too long for the suite are run at a tiny size: that all is there, and that answers are equal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.engine_ours import keep_by_pushes, push_one_row
from bench.engine_peers import DuckAnew, DuckByHand, open_duck
from bench.feed_pages import main as run_feed_pages
from bench.feed_streams import main as run_feed_streams
from bench.feeds import main as run_feeds
from bench.flink import FlinkFailed, make_flink
from bench.nexmark import QUERIES
from bench.nexmark import main as run_nexmark
from bench.workloads.nexmark import AUCTIONS, BIDS, PEOPLE, ROUND, Nexmark
from bench.workloads.tweets import COLUMNS, Tweets
from headrace.doors.cli.main import run
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform

ROWS, CHANGED, PUSHES = 2_000, 200, 12


def test_the_list_of_benchmarks_names_those_of_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "list"]) == 0
    named = [line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert {"engine", "nexmark"} <= set(named)


def test_pushes_come_to_the_rows_that_duckdb_computes_and_maintains(tmp_path: Path) -> None:
    tweets = Tweets(ROWS)
    contents = {name: tweets.contents(name) for name in COLUMNS}
    batches = [tweets.batch(CHANGED) for _ in range(PUSHES)]
    kept, digests = keep_by_pushes(HereRunner(perform), tmp_path, contents, batches)
    assert len(kept.push.cpus) == PUSHES and kept.upkeep_steps and kept.written["change"]
    for kind in (DuckAnew, DuckByHand):
        with open_duck(kind, contents, 1, tmp_path) as duck:
            for batch in batches:
                duck.take(batch)
                duck.keep()
            assert duck.digests() == digests
    one_row = push_one_row(HereRunner(perform), tmp_path, contents, tweets, 1)
    assert 0 < one_row.cpu < 10


def test_events_of_nexmark_have_the_public_proportions_and_follow_from_the_seed() -> None:
    events = Nexmark(seed=3).events(0, 10 * ROUND)
    sizes = {name: rows.num_rows for name, rows in events.items()}
    assert sizes == {"person": 10 * PEOPLE, "auction": 10 * AUCTIONS, "bid": 10 * BIDS}
    assert events == Nexmark(seed=3).events(0, 10 * ROUND) != Nexmark(seed=4).events(0, 10 * ROUND)


def test_nexmark_at_a_tiny_size_has_equal_answers_to_all_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_nexmark(
        ["--events", "4000", "--batches", "3", "--without-spark", "--without-flink", "--scratch", str(tmp_path)]
    )
    said = capsys.readouterr().out
    assert "equal answers: Headrace, --engine local, DuckDB anew" in said
    assert all(query in said for query in QUERIES)


def test_a_python_without_flink_is_named_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match='there is no Flink in the Python "none"\\n  hint: install it there'):
        run_nexmark(["--flink-python", "none"])
    assert not capsys.readouterr().out


def test_an_environment_that_cannot_be_made_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FlinkFailed, match=r"cannot make a Python environment in .*\n  hint: can you write there\?"):
        make_flink(tmp_path / "file" / "flink")


@pytest.mark.long
def test_pages_of_running_feeds_equal_sql_while_processes_are_killed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_feeds(["--check", "--for", "12s", "--kill-every", "5", "--kill", "service,store", "--readers", "2"])
    said = capsys.readouterr().out
    assert ended.value.code == 0, said
    assert re.search(r"^home +[1-9]", said, re.MULTILINE) and re.search(r"^wall +[1-9]", said, re.MULTILINE)


@pytest.mark.long
def test_costs_of_storing_ahead_and_reading_are_compared_at_a_tiny_size(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_feeds(["--ratios", "1,8,64", "--runs", "1", "--size", "0.0005", "--reads", "40"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "calibrated: H" in said
    assert re.search(r"^ +64( +[0-9.]+ s){3}", said, re.MULTILINE)


def test_pages_are_the_same_by_the_framework_and_by_the_short_way(capsys: pytest.CaptureFixture[str]) -> None:
    run_feed_pages(["--pages", "40", "--runs", "1", "--size", "0.0005"])
    said = capsys.readouterr().out
    assert re.search(r"short way +\d+ ", said) and "of the framework's time" in said


def test_every_stream_is_told_what_its_consumer_follows(capsys: pytest.CaptureFixture[str]) -> None:
    run_feed_streams(["--streams", "20", "--seconds", "3", "--size", "0.001"])
    assert "entries were told, exactly those expected" in capsys.readouterr().out
