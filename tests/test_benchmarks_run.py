"""Benchmarks that are too long for the suite are run at a tiny size: that all is there, and that answers are equal."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bench.device_router import main as run_device_router
from bench.engine_ours import keep_by_pushes, push_one_row
from bench.engine_peers import DuckAnew, DuckByHand, open_duck
from bench.engine_windows import OURS, measure_windows
from bench.feed_pages import main as run_feed_pages
from bench.feed_streams import main as run_feed_streams
from bench.feeds import main as run_feeds
from bench.feeds_calibrate import read_prices
from bench.feeds_fan_out import follow_evenly
from bench.feeds_flash import HIGGS, read_burst
from bench.feeds_said import Said
from bench.feeds_target import read_target
from bench.flink import FlinkFailed, make_flink
from bench.nexmark import QUERIES
from bench.nexmark import main as run_nexmark
from bench.sql import main as run_sql
from bench.workloads.follows import make_follows
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


@pytest.mark.parametrize("name", OURS)
def test_windows_and_joins_of_neighbours_come_to_the_rows_that_duckdb_computes(name: str) -> None:
    assert measure_windows(name, rows=200, pushes=2).push.wall > 0


def test_a_collection_of_queries_is_counted_and_its_refusals_are_grouped(capsys: pytest.CaptureFixture[str]) -> None:
    collection = Path(__file__).parent / "queries" / "collection"
    run_sql([str(collection), "--list"])
    said = capsys.readouterr().out
    outcomes = dict(re.findall(r"^shop/views\.sql:(\d+): ([a-z ]+)", said, re.MULTILINE))
    assert [int(number) for number, outcome in outcomes.items() if outcome == "incremental"] == [1, 2, 3, 8, 9, 13, 14]
    assert (outcomes["5"], outcomes["6"], outcomes["7"]) == ("in full", "refused", "mistake")
    assert "4" not in outcomes, "an equal query is counted once"
    assert "10 queries that a parser reads, 1 that none does" in said
    assert re.search(r"^maintained incrementally +7 +70\.0 %\nwith auto +8 +80\.0 %$", said, re.MULTILINE)
    assert "     1  aggregate: try_sum  (1 taken by auto)\n" in said
    assert '     1  column "..." does not exist' in said


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
    kinds = "service,store,feed server"
    with pytest.raises(SystemExit) as ended:
        run_feeds(["--check", "--for", "14s", "--kill-every", "3.5", "--kill", kinds, "--readers", "2"])
    said = capsys.readouterr().out
    assert ended.value.code == 0, said
    assert re.search(r"^kills: .*feed server [1-9]", said, re.MULTILINE), said
    assert re.search(r"^home +[1-9]", said, re.MULTILINE) and re.search(r"^wall +[1-9]", said, re.MULTILINE)


TINY_WAYS = ["--runs", "1", "--size", "0.0005", "--dense", "1", "--reads", "40"]
PRICED = [*TINY_WAYS, "--prices", "H=30,L=10,read=400,event=100"]
TINY_LOAD = ["--size", "0.0005", "--rps", "20", "--for", "4s"]
TINY = {
    "ratios": (["--ratios", "1,8,64", *TINY_WAYS], r"^ +64( +[0-9.]+ s){3}"),
    "skew": (["--skew", "0.3,1", *PRICED], r"^ +0\.3( +[0-9.]+ s){3}"),
    "thresholds": (["--thresholds", "0,10", *PRICED], r"^ +10 +[0-9.]+ s"),
    "peers": (["--peers", *PRICED], r"^7 idle days +[0-9]+ %"),
    "table2": (["--table2", *TINY_LOAD], r"p50 at most 15 ms: [0-9.]+ ms"),
    "capacity": (["--capacity", *TINY_LOAD, "--events", "20"], r"entries/s on [0-9.]+ cores"),
    "target": (
        ["--target", "p95=500ms", "--saved", "0.2,0.8", *PRICED, *TINY_LOAD],
        r"(^per (pair|consumer) +(20|80) % +[0-9]+ %.*\n){4}",
    ),
    "fan-out": (["--fan-out", "2,6", *PRICED], r"^ +6 +204 +[0-9]+ % +[0-9.]+ s"),
    "flash": (["--flash", *TINY_LOAD], r"^decided again +[0-9.]+"),
    "redis": (["--ratios", "8", *PRICED, "--store", "redis"], r"^ +8( +[0-9.]+ s){3}"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", TINY)
def test_the_evaluation_of_the_paper_runs_on_a_live_feed_at_a_tiny_size(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, pattern = TINY[name]
    with pytest.raises(SystemExit) as ended:
        run_feeds([*words, "--plot", str(tmp_path)])
    said = capsys.readouterr().out
    assert ended.value.code == 0, said
    assert re.search(pattern, said, re.MULTILINE), said
    assert list(tmp_path.glob("feeds_live_*.png"))


def test_a_benchmark_that_runs_with_the_local_engine_only_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    for what in ("--ratios", "--fan-out", "--peers", "--capacity"):
        with pytest.raises(SystemExit) as ended:
            run_feeds([what, "--engine", "spark"])
        assert ended.value.code == 2
        assert f"{what} runs with the local engine only" in capsys.readouterr().err


def test_everybody_has_as_many_followers_as_a_fan_out_says() -> None:
    people = make_follows(np.random.default_rng(1), size=0.0005)
    for fan_out, followers in ((5, 5), (1000, len(people.query_rate))):
        feeds = follow_evenly(np.random.default_rng(2), people, fan_out)
        assert set(np.bincount(feeds.producer).tolist()) == {followers}
        assert len(set(zip(feeds.consumer.tolist(), feeds.producer.tolist(), strict=True))) == len(feeds)


def test_pages_are_expected_newest_first_and_of_followed_producers_only() -> None:
    said = Said()
    said.follow([("anna", "bob"), ("anna", "carol"), ("dave", "eve")])
    said.post([("bob", 1, "1"), ("eve", 2, "2"), ("carol", 3, "3"), ("bob", 3, "4")])
    assert said.expect("anna") == [("bob", "4"), ("carol", "3"), ("bob", "1")]
    page = {"entries": [{"producer": producer, "id": id_, "time": id_} for producer, id_ in said.expect("anna")]}
    assert said.is_right("anna", page) and said.may_be_right("anna", page)
    assert not said.may_be_right("dave", page)
    assert not said.may_be_right("anna", {"entries": page["entries"][::-1]})
    assert not said.is_right("anna", {"entries": page["entries"][:2]})


def test_a_burst_that_is_not_on_this_machine_is_said_to_be_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_feeds(["--burst", "--activity", "/nowhere/higgs.parquet"])
    assert ended.value.code == 0 and "/nowhere/higgs.parquet is missing" in capsys.readouterr().out


@pytest.mark.skipif(not HIGGS.exists(), reason="the events of a real burst are not on this machine")
def test_a_real_burst_becomes_follows_and_posts_with_a_peak() -> None:
    feeds, posts = read_burst(HIGGS, 0.01, 100.0, 1)
    times = [at for at, _ in posts]
    assert len(feeds) > 1000 and times == sorted(times) and times[-1] < 100.0
    counts = [sum(1 for at in times if start <= at < start + 10) for start in range(0, 100, 10)]
    assert max(counts) > 5 * sorted(counts)[len(counts) // 2] > 0
    assert {int(producer[1:]) for _, producer in posts} <= set(range(len(feeds.event_rate)))


def test_a_target_and_prices_are_read_as_people_write_them() -> None:
    assert read_target("p95=20ms") == ("p95", 0.02)
    assert read_prices("H=30,L=10").pull == pytest.approx(1e-5)
    for read, text in ((read_target, "20ms"), (read_prices, "H=30,M=1")):
        with pytest.raises(ValueError, match=r"p95=20ms|not M"):
            read(text)


def test_pages_are_the_same_by_the_framework_and_by_the_short_way(capsys: pytest.CaptureFixture[str]) -> None:
    run_feed_pages(["--pages", "40", "--runs", "1", "--size", "0.0005"])
    said = capsys.readouterr().out
    assert re.search(r"short way +\d+ ", said) and "of the framework's time" in said


def test_every_stream_is_told_what_its_consumer_follows(capsys: pytest.CaptureFixture[str]) -> None:
    run_feed_streams(["--streams", "20", "--seconds", "3", "--size", "0.001"])
    assert "entries were told, exactly those expected" in capsys.readouterr().out


def test_rows_of_devices_reach_partners_and_the_source_by_router_and_broker(capsys: pytest.CaptureFixture[str]) -> None:
    run_device_router(["--sessions", "10", "--messages", "60", "--seconds", "2"])
    said = capsys.readouterr().out
    assert "every partner has the last row, and so has the source" in said and "ratio of processor time" in said
