"""Decides which pairs of a feed to store ahead, from an instance or from tables.

Deciding needs no project, so this module does not import the code that reads one, and the command starts quickly.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.plan.feeds.instance import Latency
    from headrace.plan.feeds.tables import DefaultPrices

Progress = Callable[[str], None]
"""Is told what goes on."""


@dataclass(frozen=True, slots=True)
class FeedTables:
    """What goes with a table of follows, in place of a JSON instance; amounts as they were typed."""

    producers: Path
    consumers: Path
    store_price: str
    fetch_price: str
    batch_price: str = "0"
    model: str = "batch"
    shown: int = 10
    mean_pulls: str | None = None
    percentile: str | None = None
    most_pulls: int = 0
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class FeedsQuestion:
    """How targets are met, and about which pair (who, whom) to say why, with rates per `unit`."""

    method: str = "exact"
    why: tuple[str, str] | None = None
    unit: str = "h"


@dataclass(frozen=True, slots=True)
class FeedsReport:
    """`answer` is the answer document; `why` is about the pair that was asked for."""

    answer: Mapping[str, object]
    pairs: int
    stored_ahead: int
    why: str | None = None


def decide_feeds(file: Path, question: FeedsQuestion) -> FeedsReport:
    """Decide a JSON instance."""
    from headrace.connect.text_file import read_text
    from headrace.plan.feeds.document import answer, decide_instance, read_instance
    from headrace.plan.feeds.explain import why
    from headrace.plan.feeds.latency import LatencyMethod

    with _no_collection():
        named = read_instance(read_text(file), str(file))
        started = perf_counter()
        decision = decide_instance(named, LatencyMethod(question.method))
        document = answer(named, decision, perf_counter() - started)
    said = str(why(named, decision.ahead, *question.why, question.unit)) if question.why else None
    return FeedsReport(document, len(decision.ahead), int(decision.ahead.sum()), said)


def decide_feed_tables(follows: Path, tables: FeedTables, question: FeedsQuestion, progress: Progress) -> FeedsReport:
    """Decide every row of a table of follows, and write it with a column `decision`."""
    from headrace.connect.tables.files import format_of
    from headrace.connect.tables.follows import read_follows
    from headrace.connect.tables.output import write_with_column
    from headrace.plan.feeds.decide import decide
    from headrace.plan.feeds.explain_pair import find_pair, why_pair
    from headrace.plan.feeds.latency import LatencyMethod
    from headrace.plan.feeds.tables import TableSize, feeds_from_columns, table_answer

    prices, target = _read_options(tables)
    table = read_follows(follows, tables.producers, tables.consumers, progress)
    feeds = feeds_from_columns(table.consumer, table.producer, table.query_rate, table.event_rate, prices, table.prices)
    pair = find_pair(table.find(*question.why), *question.why) if question.why else None
    progress("deciding")
    started = perf_counter()
    decision = decide(feeds, target, LatencyMethod(question.method))
    seconds = perf_counter() - started
    if tables.out is not None:
        progress(f"writing {tables.out}")
        codes = decision.ahead.view("uint8")
        write_with_column(follows, format_of(follows), tables.out, "decision", codes, ("pull", "push"))
    size = TableSize(len(feeds), int(decision.ahead.sum()), len(table.query_rate), len(table.event_rate))
    said = str(why_pair(feeds, decision.ahead, pair, question.unit)) if pair is not None else None
    return FeedsReport(table_answer(decision, size, seconds), size.pairs, size.stored_ahead, said)


def decide_feed_tables_on_spark(follows: Path, tables: FeedTables, master: str, progress: Progress) -> FeedsReport:
    """Decides feeds by Spark, for tables beyond one machine; without targets."""
    from functools import partial
    from tempfile import TemporaryDirectory

    from headrace.connect.spark.executors import needing_executors
    from headrace.connect.spark.feeds import decide_follows
    from headrace.connect.spark.follow_rates import FollowFiles
    from headrace.connect.spark.properties import SparkSettings
    from headrace.connect.spark.session import start_session
    from headrace.plan.feeds.tables import TableSize, decide_rows, table_answer, table_decision

    prices, _ = _read_options(tables)
    files = FollowFiles(follows, tables.producers, tables.consumers)
    with TemporaryDirectory() as scratch:
        progress("starting Spark")
        session = start_session(
            SparkSettings(Path(scratch), "headrace feeds", master, partitions=16, memory="4g", executor_memory="1g")
        )
        try:
            progress("deciding")
            started = perf_counter()
            rules = partial(decide_rows, prices=prices)
            with needing_executors(session):
                found = decide_follows(session, files, rules, not prices.pricing.is_per_pair, tables.out)
            seconds = perf_counter() - started
        finally:
            session.stop()
    size = TableSize(found.pairs, found.stored_ahead, found.consumers, found.producers)
    return FeedsReport(table_answer(table_decision(*found.costs), size, seconds), size.pairs, size.stored_ahead)


def _read_options(tables: FeedTables) -> tuple[DefaultPrices, Latency | None]:
    """Prices and target as values, and a look at where to write: mistakes in words come before hours of work."""
    from headrace.connect.tables.output import output_format
    from headrace.plan.feeds.typed import read_prices, read_target

    prices = read_prices(tables.store_price, tables.fetch_price, tables.batch_price, tables.model, tables.shown)
    target = read_target(tables.mean_pulls, tables.percentile, tables.most_pulls, prices.pricing.model)
    if tables.out is not None:
        output_format(tables.out)
    return prices, target


@contextmanager
def _no_collection() -> Iterator[None]:
    """Millions of names and numbers are made here and none is garbage: looking for some would double the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
