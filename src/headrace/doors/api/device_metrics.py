"""Metrics of templates and devices for Prometheus: who is there, what runs where, and how many messages that takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.app.running import ServiceHost

GAUGES = {
    "devices": ("headrace_template_devices", "Devices of a template's group."),
    "online": ("headrace_template_devices_online", "Devices that are connected."),
    "pairs": ("headrace_template_pairs", "Pairs of a template."),
    "on_devices": ("headrace_template_pairs_on_devices", "Pairs that run on devices; the others run in the cloud."),
    "moving": ("headrace_template_pairs_moving", "Pairs on the way to another place."),
    "messages_s": ("headrace_template_messages_per_second", "Messages as pairs are placed, at measured rates."),
    "all_cloud_messages_s": (
        "headrace_template_all_cloud_messages_per_second",
        "Messages if all pairs ran in the cloud.",
    ),
    "stale_devices": ("headrace_template_stale_devices", "Devices that run pairs and are away."),
}


def collect_devices(host: ServiceHost, templates: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """`templates` are those of the status."""
    if not templates:
        return
    for field, (name, text) in GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=["template"])
        for one in templates:
            if one[field] is not None:
                gauge.add_metric([one["id"]], one[field])
        yield gauge
    counts = host.devices.loop.counts
    messages = CounterMetricFamily("headrace_device_messages", "Messages of devices.", labels=["direction", "kind"])
    size = CounterMetricFamily("headrace_device_bytes", "Bytes of messages of devices.", labels=["direction", "kind"])
    for direction, kinds in (("up", counts.up), ("down", counts.down)):
        for kind, counted in kinds.items():
            messages.add_metric([direction, kind], counted.messages)
            size.add_metric([direction, kind], counted.bytes)
    yield messages
    yield size
    refused = CounterMetricFamily(
        "headrace_device_refused_messages", "Messages that had no effect, by reason.", labels=["reason"]
    )
    for reason, number in counts.refused.items():
        refused.add_metric([reason], number)
    yield refused
