"""Metrics of feeds for Prometheus: of the service about all of them, and of one feed server about what it served."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.app.feed_serving import BUCKETS_S, FeedServing, PagesTimed
from headrace.app.running import ServiceHost

GAUGES = {
    "pairs": ("headrace_feed_pairs", "Pairs of a consumer and a producer."),
    "stored_ahead": ("headrace_feed_stored_ahead_pairs", "Pairs that are stored ahead."),
    "lag_s": ("headrace_feed_lag_seconds", "How far the store of a feed is behind."),
}


def collect_feeds(host: ServiceHost, feeds: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """`feeds` are those of the status."""
    for field, (name, text) in GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=["feed"])
        for feed in feeds:
            if feed[field] is not None:
                gauge.add_metric([feed["id"]], feed[field])
        yield gauge
    told = {one.feed: one for one in host.service.feed_pages.told()}
    entries = GaugeMetricFamily("headrace_feed_entries", "Entries that are stored ahead.", labels=["feed"])
    for name, one in told.items():
        if one.entries is not None:
            entries.add_metric([name], one.entries)
    yield entries
    yield from _tell_pages({name: one.timed for name, one in told.items()})
    yield from _tell_decisions(host)
    if host.feed_servers is not None:
        yield from _tell_servers(host)


def _tell_pages(timed: Mapping[str, PagesTimed]) -> Iterator[Metric]:
    pages = CounterMetricFamily("headrace_feed_pages", "Pages of a feed that were read.", labels=["feed"])
    seconds = HistogramMetricFamily("headrace_feed_page_seconds", "How long pages took.", labels=["feed"])
    for name, one in timed.items():
        pages.add_metric([name], one.pages)
        bounds = [*map(str, BUCKETS_S), "+Inf"]
        seconds.add_metric([name], list(zip(bounds, accumulate(one.buckets), strict=True)), one.seconds)
    yield pages
    yield seconds


def _tell_decisions(host: ServiceHost) -> Iterator[Metric]:
    decided = host.feeds.deciding.tell()
    flips = CounterMetricFamily("headrace_feed_flips", "Pairs that changed sides.", labels=["feed"])
    shed = GaugeMetricFamily(
        "headrace_feed_shed_producers", "Producers that are read because the store is late.", labels=["feed"]
    )
    for name, one in decided.items():
        flips.add_metric([name], one.flips)
        shed.add_metric([name], len(one.shed))
    yield flips
    yield shed


def _tell_servers(host: ServiceHost) -> Iterator[Metric]:
    assert host.feed_servers is not None
    told = host.feed_servers.tell()
    running = sum(one.state.value == "running" for one in told)
    yield GaugeMetricFamily("headrace_feed_servers_up", "Feed servers that serve.", running)
    restarts = sum(one.restarts for one in told)
    yield CounterMetricFamily("headrace_feed_server_restarts", "Feed servers that ended by themselves.", restarts)
    streams = sum(one.streams for one in told)
    yield GaugeMetricFamily("headrace_feed_streams", "Streams that feed servers serve.", streams)


class FeedServerCollector(Collector):
    """What one feed server has served, of the feeds that a caller may use; `streams` are counts by feed. Servers that
    share its port have counts of their own.
    """

    def __init__(self, serving: FeedServing, streams: Mapping[str, int], may_use: Callable[[str], bool]) -> None:
        self._serving = serving
        self._streams = streams
        self._may_use = may_use

    def collect(self) -> Iterator[Metric]:
        pages = self._serving.door.pages
        names = [name for name in pages.keepers.progress() if self._may_use(name)]
        yield from _tell_pages({name: pages.reads.timed(name) for name in names})
        streams = sum(count for name, count in self._streams.items() if self._may_use(name))
        yield GaugeMetricFamily("headrace_feed_streams", "Streams that this server serves.", streams)
        process = GaugeMetricFamily("headrace_feed_server", "The process that answers.", labels=["pid"])
        process.add_metric([str(os.getpid())], 1)
        yield process
