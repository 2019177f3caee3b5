"""What is wrong with pairs of templates, in words: devices that run them are away, or do not compute what they send."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from headrace.coordinate.devices.presence import Presence
from headrace.model.device_messages import CLOUD
from headrace.plan.place.handover import TemplatePair
from headrace.site.troubles import ABSENT, PLACEMENT

ABSENT_AFTER_S = 30.0
NAMED = 3
"""Devices that a trouble names."""
UNCOMPUTED = f"{PLACEMENT}view "

ToldTrouble = tuple[str, str]
"""What is wrong, and what mends it."""


def find_absent(
    standing: Mapping[TemplatePair, str], presence: Presence, now_s: float
) -> tuple[dict[str, ToldTrouble], dict[str, float]]:
    """Troubles of templates whose devices are away, and since when (seconds since 1970)."""
    absent: dict[str, set[str]] = {}
    for pair, at in standing.items():
        if at != CLOUD and not presence.is_online(at):
            absent.setdefault(pair.template, set()).add(at)
    found, since = dict[str, ToldTrouble](), dict[str, float]()
    for template, devices in absent.items():
        times = (seen.since_s for one in devices if (seen := presence.seen.get(one)) is not None)
        longest = min(times, default=now_s)
        if now_s - longest < ABSENT_AFTER_S:
            continue
        count = "1 device that runs pairs is" if len(devices) == 1 else f"{len(devices)} devices that run pairs are"
        what = (
            f'template "{template}": {count} away ({_name_some(devices)}); results of these pairs are as they were then'
        )
        hint = "results follow when they are back; a device that stays away is forgotten (`forget`)"
        found[f"{ABSENT}{template}"], since[f"{ABSENT}{template}"] = (what, hint), longest
    return found, since


def find_uncomputed(derived: Collection[str], refused: Mapping[tuple[str, str], str]) -> dict[str, ToldTrouble]:
    """Troubles of streams that devices derive, by what they refuse. A device that refuses a template leaves its pairs
    to the cloud. What it derives, nobody else can.
    """
    uncomputed: dict[str, dict[str, str]] = {}
    for (name, device), why in sorted(refused.items()):
        if name in derived:
            uncomputed.setdefault(name, {})[device] = why
    found = {}
    for name, devices in uncomputed.items():
        count = "1 device does" if len(devices) == 1 else f"{len(devices)} devices do"
        why = next(iter(devices.values()))
        told = f'{count} not compute view "{name}" ({_name_some(devices)}): {why}'
        hint = "change the view or its tables so that devices can compute it; see `headrace devices status`"
        found[f"{UNCOMPUTED}{name}"] = (f"{told}; results of their pairs are as they were before", hint)
    return found


def _name_some(devices: Iterable[str]) -> str:
    names = sorted(devices)
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
