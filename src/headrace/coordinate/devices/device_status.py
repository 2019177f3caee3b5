"""Builds what `status` and `devices status` tell of templates and devices, and `devices plan` of one device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from headrace.coordinate.devices.loop import DeviceLoop
from headrace.coordinate.devices.placer import Placer
from headrace.model.catalogue import Catalogue
from headrace.model.cloud_messages import CountedMessages
from headrace.model.device_messages import CLOUD, Document
from headrace.model.errors import UnknownName, UsageError, nearest_name
from headrace.model.explanation import WhyPlacedPair
from headrace.model.plan import Plan
from headrace.plan.place.explain_running import explain_running_pair
from headrace.plan.place.handover import TemplatePair


def template_documents(plan: Plan, loop: DeviceLoop) -> list[dict[str, Any]]:
    """All templates that are declared. One that does not run says why."""
    with loop.turn:
        return [_describe_template(plan, loop, name) for name in plan.catalogue.templates]


def _describe_template(plan: Plan, loop: DeviceLoop, name: str) -> dict[str, Any]:
    group, placer = plan.catalogue.templates[name].devices, loop.placer
    if placer is None or name not in loop.kept.templates:
        return _describe_missing(plan, name, group)
    members = loop.members.get(group, frozenset())
    pairs = {pair: at for pair, at in placer.handover.standing.items() if pair.template == name}
    now, in_cloud = placer.count_traffic(name)
    hosts = {at for at in pairs.values() if at != CLOUD}
    away = [placer.presence.seen[one].since_s for one in hosts if _is_away(placer, one)]
    told = loop.told.get(group)
    return {
        "id": name,
        "group": group,
        "state": "running",
        "reason": None,
        "devices": len(members),
        "online": sum(1 for one in members if placer.presence.is_online(one)),
        "pairs": len(pairs),
        "on_devices": sum(1 for at in pairs.values() if at != CLOUD),
        "moving": sum(1 for pair in placer.handover.moves if pair.template == name),
        "messages_s": now.messages_s,
        "all_cloud_messages_s": in_cloud.messages_s,
        "stale_since": min(away, default=None),
        "stale_devices": len(away),
        "refused": sum(1 for template, _ in placer.handover.refused if template == name),
        "redeployment": None
        if told is None
        else {
            "cost_s": told.cost_s,
            "best_s": told.best_s,
            "loss": told.loss,
            "moving": told.moving,
            "ratio": told.ratio,
            "bound": told.bound,
        },
    }


def _is_away(placer: Placer, device: str) -> bool:
    return placer.presence.is_known(device) and not placer.presence.is_online(device)


def _describe_missing(plan: Plan, name: str, group: str) -> dict[str, Any]:
    return {
        "id": name,
        "group": group,
        "state": "refused" if (reason := find_refusal(plan, name)) is not None else "loading",
        "reason": reason,
        "devices": 0,
        "online": 0,
        "pairs": 0,
        "on_devices": 0,
        "moving": 0,
        "messages_s": None,
        "all_cloud_messages_s": None,
        "stale_since": None,
        "stale_devices": 0,
        "refused": 0,
        "redeployment": None,
    }


def find_refusal(plan: Plan, template: str) -> str | None:
    """Why nobody keeps a template's results; None if somebody does."""
    view = plan.catalogue.templates[template].view
    if any(entry.view == view for entry in plan.contracts):
        return None
    contracts = {name for name, one in plan.catalogue.contracts.items() if one.view == view}
    return next((one.detail for one in plan.rejected if one.contract in contracts), "no contract keeps its results")


# Devices


def devices_document(catalogue: Catalogue, loop: DeviceLoop) -> dict[str, Any]:
    """All devices of running templates, and what the router has counted. Times are in seconds since 1970."""
    with loop.turn:
        placer, away = loop.placer, loop.broker_away
        members = {} if placer is None else loop.members
        devices = [
            _describe_device(catalogue, loop, group, device)
            for group, ids in sorted(members.items())
            for device in sorted(ids, key=_sort_ids)
        ]
        return {
            "devices": devices,
            "broker": {"away_since": None if away is None else away[0], "reason": None if away is None else away[1]},
            "messages": {"up": _describe_sums(loop.counts.up), "down": _describe_sums(loop.counts.down)},
            "refused": dict(loop.counts.refused),
        }


def _describe_sums(kinds: Mapping[str, CountedMessages]) -> dict[str, Any]:
    return {kind: one._asdict() for kind, one in kinds.items()}


def _sort_ids(device: str) -> tuple[int, str]:
    """Numbers by their value."""
    return (len(device) if device.isdigit() else 1_000, device)


def _describe_device(catalogue: Catalogue, loop: DeviceLoop, group: str, device: str) -> dict[str, Any]:
    placer = loop.placer
    assert placer is not None
    seen, told = placer.presence.seen.get(device), placer.handover.told.get(device)
    pairs = placer.find_pairs(device)
    runs = Counter(pair.template for pair in pairs if placer.handover.standing.get(pair) == device)
    streams = [stream.name for stream in catalogue.devices[group].streams]
    counted = loop.counts.streams.get(device, {})
    return {
        "id": device,
        "group": group,
        "online": seen is not None and seen.is_online,
        "since": None if seen is None else seen.since_s,
        "plan": None if told is None else told.plan,
        "took": placer.handover.took.get(device),
        "pairs": len(pairs),
        "views": dict(sorted(runs.items())),
        "sends": [] if told is None else [one.stream for one in told.send],
        "rates": {stream: placer.rates.find_rate(device, stream) for stream in streams},
        "messages": sum(one.messages for one in counted.values()),
        "waiting": sum(1 for pair in pairs if pair in placer.handover.moves),
        "dropped": {} if seen is None or seen.hello is None else dict(seen.hello.dropped),
        "refused": {template: why for (template, one), why in placer.handover.refused.items() if one == device},
    }


def document_of_device(loop: DeviceLoop, device: str) -> dict[str, Any]:
    """What a device was told last. Raises `UnknownName`."""
    with loop.turn:
        known = sorted({one for ids in loop.members.values() for one in ids})
        if device not in known:
            hint = nearest_name(device, known) or "`headrace devices status` lists them"
            raise UnknownName(f'there is no device "{device}"', hint)
        assert loop.placer is not None
        told = loop.placer.handover.told.get(device, Document(0))
        return {
            "device": device,
            "plan": told.plan,
            "took": loop.placer.handover.took.get(device),
            "run": [
                {"template": one.template, "side": one.side, "partners": list(one.partners), "program": one.program}
                for one in told.run
            ],
            "send": [{"stream": one.stream, "every_s": one.every_s} for one in told.send],
            "take": [{"stream": one.stream, "device": one.device, "every_s": one.every_s} for one in told.take],
            "program_bytes": {name: len(text) for name, text in told.programs.items()},
        }


# Pairs


def why_of_pair(loop: DeviceLoop, template: str, devices: tuple[str, ...]) -> WhyPlacedPair | None:
    """Why a pair runs where it does; None while its template does not run. Raises `UnknownName` for a pair that is not
    there.
    """
    with loop.turn:
        kept = loop.kept.templates.get(template)
        if loop.placer is None or kept is None:
            return None
        if len(devices) != len(kept.sides):
            count = "1 device" if len(kept.sides) == 1 else f"{len(kept.sides)} devices"
            hint = f"write {template}:{','.join('ID' for _ in kept.sides)}"
            raise UsageError(f'a pair of template "{template}" has {count}', hint)
        running = loop.placer.describe_pair(TemplatePair(template, devices))
        if running is None:
            what = f'template "{template}" has no pair {",".join(devices)}'
            raise UnknownName(what, "its table has a row for every pair")
        return explain_running_pair(running)
