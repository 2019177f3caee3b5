"""Metrics for Prometheus: the status of every contract, and counts of what was pushed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.app.running import ServiceHost
from headrace.doors.api.device_metrics import collect_devices
from headrace.doors.api.feed_metrics import collect_feeds


def metrics_text(host: ServiceHost) -> str:
    registry = CollectorRegistry()
    registry.register(_HostCollector(host))
    return generate_latest(registry).decode()


class _HostCollector(Collector):
    def __init__(self, host: ServiceHost) -> None:
        self._host = host

    def collect(self) -> Iterator[Metric]:
        status = self._host.status()
        yield from _of_contracts(status["contracts"])
        yield from _of_vertices(self._host)
        yield from _of_checks(status["checks"])
        yield from collect_feeds(self._host, status["feeds"])
        yield from collect_devices(self._host, status["templates"])
        up = status["service"]["engine"]["state"] == "running"
        upkeep = "Time that upkeep of logs has taken: merging files, and writing new bases."
        yield CounterMetricFamily("headrace_upkeep_seconds", upkeep, status["service"]["upkeep_seconds"])
        yield GaugeMetricFamily("headrace_engine_up", "Whether the engine is up; 0 while it restarts.", up)
        kept = GaugeMetricFamily(
            "headrace_slot_kept_bytes", "Log that a database keeps for Headrace.", labels=["database"]
        )
        for slot in status["slots"]:
            if "kept_bytes" in slot:
                kept.add_metric([slot["database"]], slot["kept_bytes"])
        yield kept
        sent = CounterMetricFamily(
            "headrace_link_bytes",
            "Bytes sent between sites: changes, and the rows of new views.",
            labels=["from", "to"],
        )
        for link in status["links"]:
            sent.add_metric([link["from"], link["to"]], link["sent_bytes"])
        yield sent
        yield from _of_links(status["links"])


def _of_links(links: list[dict[str, Any]]) -> Iterator[Metric]:
    gauges = {
        "bytes_s": ("headrace_link_bytes_per_second", "Bytes that arrive over a link each second."),
        "capacity_bytes_s": (
            "headrace_link_capacity_bytes_per_second",
            "Bytes that a link carried each second while more were on their way.",
        ),
        "believed_bytes_s": (
            "headrace_link_believed_bytes_per_second",
            "Bytes that plans expect a link to carry each second: measured, else declared.",
        ),
        "waiting_bytes": ("headrace_link_waiting_bytes", "Bytes that wait to be sent over a link."),
        "behind_s": ("headrace_link_behind_seconds", "How old what has come over a link is."),
    }
    for field, (name, text) in gauges.items():
        gauge = GaugeMetricFamily(name, text, labels=["from", "to"])
        for link in links:
            if link.get(field) is not None:
                gauge.add_metric([link["from"], link["to"]], link[field])
        yield gauge
    cut = GaugeMetricFamily(
        "headrace_link_cut", "Whether the site where a link begins is silent.", labels=["from", "to"]
    )
    for link in links:
        cut.add_metric([link["from"], link["to"]], link["state"] == "cut")
    yield cut


def _of_contracts(contracts: list[dict[str, object]]) -> Iterator[Metric]:
    gauges = {
        "lag_s": (
            "headrace_lag_seconds",
            "How far a view, or the copy of it that is delivered, is behind its sources.",
        ),
        "latency_s": (
            "headrace_event_latency_seconds",
            "Mean time from the commit of a row at its source until readers of a view have it, in the last minute.",
        ),
        "longest_latency_s": (
            "headrace_longest_event_latency_seconds",
            "Longest time from the commit of a row at its source until readers of a view have it, in the last minute.",
        ),
        "freshness_s": ("headrace_freshness_seconds", "How far a view may be behind its sources."),
        "prediction_error": (
            "headrace_prediction_error_ratio",
            "Relative error within which the duration of nine of ten pushes was predicted.",
        ),
        "cost_h": (
            "headrace_cost_dollars_per_hour",
            "Average cost of a contract per hour: resources and penalty.",
        ),
        "measured_at": ("headrace_measured_timestamp_seconds", "When the numbers of a contract were measured."),
    }
    for field, (name, text) in gauges.items():
        gauge = GaugeMetricFamily(name, text, labels=["contract"])
        for contract in contracts:
            value = contract.get(field)
            if isinstance(value, int | float):
                gauge.add_metric([str(contract["id"])], value)
        yield gauge
    violations = CounterMetricFamily("headrace_violations", "How often a promise was broken.", labels=["contract"])
    for contract in contracts:
        violations.add_metric([str(contract["id"])], float(str(contract["violations"])))
    yield violations


def _of_checks(checks: dict[str, Any]) -> Iterator[Metric]:
    labels = ["kind", "name"]
    checked = GaugeMetricFamily(
        "headrace_checked_timestamp_seconds", "When a source or view was last checked in the background.", labels=labels
    )
    differs = GaugeMetricFamily(
        "headrace_check_differs", "Whether the last check of a source or view found wrong rows.", labels=labels
    )
    for one in checks["subjects"]:
        if one["checked"] is not None:
            checked.add_metric([one["kind"], one["name"]], one["checked"])
        differs.add_metric([one["kind"], one["name"]], one["found"] == "different")
    yield checked
    yield differs
    yield GaugeMetricFamily("headrace_check_pass_seconds", "How long it takes to check everything.", checks["pass_s"])
    used = "Time of one core that background checks have used."
    yield CounterMetricFamily("headrace_check_cpu_seconds", used, checks["seconds"])
    yield CounterMetricFamily("headrace_check_bytes", "Bytes that background checks have read.", checks["bytes"])


def _of_vertices(host: ServiceHost) -> Iterator[Metric]:
    accounts = host.service.accounts
    counters = (
        ("headrace_pushes", "Pushes of a vertex.", accounts.pushes),
        ("headrace_pushed_rows", "Rows that pushes of a vertex produced.", accounts.rows),
        ("headrace_pushed_bytes", "Bytes that pushes of a vertex wrote.", accounts.bytes),
    )
    for name, text, values in counters:
        counter = CounterMetricFamily(name, text, labels=["vertex"])
        for vertex, value in list(values.items()):
            counter.add_metric([vertex], value)
        yield counter
