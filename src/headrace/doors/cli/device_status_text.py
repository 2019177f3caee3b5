"""What `status` tells of templates, `devices status` of devices, and `devices plan` of what one of them is to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.doors.cli.output import count, join_items, table, wrap
from headrace.model import amounts
from headrace.model.words import put_in_words

Document = dict[str, Any]

CLOUD = "cloud"
MOST_SHOWN = 50
MOST_NAMED = 8


def template_table(templates: Sequence[Document], now: float) -> Iterator[str]:
    """A line for each template, and what is unusual about it."""
    running = [one for one in templates if one["state"] == "running"]
    if running:
        head = ["template", "devices", "online", "pairs", "on devices", "messages", "all in the cloud"]
        yield from table([_template_row(one) for one in running], head=head)
    for one in templates:
        for said in _find_unusual(one, now):
            yield from wrap(f"{one['id']}: {said}", "  ", "    ")


def _template_row(one: Document) -> list[str]:
    return [
        one["id"],
        _count(one["devices"]),
        _count(one["online"]),
        _count(one["pairs"]),
        _share(one["on_devices"], one["pairs"]),
        _rate(one["messages_s"]),
        _rate(one["all_cloud_messages_s"]),
    ]


def _find_unusual(one: Document, now: float) -> Iterator[str]:
    if one["state"] == "refused":
        yield f"does not run: {put_in_words(one['reason'])}"
    elif one["state"] == "loading":
        yield "is being loaded"
    if one["moving"]:
        yield f"{count(one['moving'], 'pair')} on the way to another place"
    if one["stale_since"] is not None:
        away = "1 device that runs pairs is" if one["stale_devices"] == 1 else f"{one['stale_devices']} devices are"
        yield f"{away} away: some results are as they were {_ago(now - one['stale_since'])} ago"
    if one["refused"]:
        yield f"{count(one['refused'], 'device')} do not run it; see `headrace devices status`"
    costs = one["redeployment"]
    if costs is not None and costs["best_s"] < costs["cost_s"]:
        lost = f"{_number(costs['cost_s'])}/s instead of {_number(costs['best_s'])}/s"
        when = f"pairs move once {_number(costs['moving'])} are lost, {_number(costs['loss'])} so far"
        yield f"could cost less: {lost}; {when}"


def devices_text(document: Document, now: float) -> Iterator[str]:
    """All devices; of many, those first that somebody may have to look at."""
    devices = document["devices"]
    if not devices:
        yield "no devices are known yet; `headrace status` shows the progress"
        return
    online = sum(1 for one in devices if one["online"])
    yield f"{count(len(devices), 'device')}, {online} online"
    if document["broker"]["reason"] is not None:
        since = _ago(now - document["broker"]["away_since"])
        yield from wrap(f"the broker is away for {since}: {document['broker']['reason']}", "  ", "    ")
    shown = sorted(devices, key=_needs_look)[:MOST_SHOWN] if len(devices) > MOST_SHOWN else devices
    head = ["device", "state", "plan", "pairs", "runs", "sends", "rows/s", "waiting"]
    yield from table([_device_row(one, now) for one in shown], head=head)
    if len(shown) < len(devices):
        yield f"  and {len(devices) - len(shown):,} more; --json lists all"
    for one in shown:
        for template, why in one["refused"].items():
            yield from wrap(f"{one['id']} does not run {template}: {put_in_words(why)}", "  ", "    ")
        for stream, rows in one["dropped"].items():
            yield from wrap(f"{one['id']} lost {count(rows, 'row')} of {stream}: its buffer was full", "  ", "    ")
    yield from _message_lines(document)


def _needs_look(one: Document) -> tuple[bool, bool, bool]:
    return not one["refused"], one["online"] or not one["views"], not one["waiting"]


def _device_row(one: Document, now: float) -> list[str]:
    if one["since"] is None:
        state = "never seen"
    else:
        state = f"{'online' if one['online'] else 'away'} {_ago(now - one['since'])}"
    runs = ", ".join(f"{template} {number}" for template, number in one["views"].items())
    return [
        one["id"],
        state,
        _say_plan(one),
        _count(one["pairs"]),
        runs or "-",
        ", ".join(one["sends"]) or "-",
        ", ".join(_number(rate) for rate in one["rates"].values()),
        _count(one["waiting"]) if one["waiting"] else "-",
    ]


def _say_plan(one: Document) -> str:
    if one["plan"] is None:
        return "-"
    return str(one["plan"]) if one["took"] == one["plan"] else f"{one['plan']} (runs {one['took'] or '?'})"


def _message_lines(document: Document) -> Iterator[str]:
    kinds = {"s": "rows of streams", "r": "results", "control": "control"}
    rows = []
    for way, counted in document["messages"].items():
        for kind, one in counted.items():
            size = amounts.format_bytes(one["bytes"])
            rows.append([way, kinds.get(kind, kind), count(one["messages"], "message"), size])
    if rows:
        yield "since the router started"
        yield from table(rows)
    if document["refused"]:
        told = join_items(f"{number} {why}" for why, number in sorted(document["refused"].items()))
        yield from wrap(f"refused: {told}", "  ", "    ")


def plan_text(document: Mapping[str, Any]) -> Iterator[str]:
    """What a device is to do, in words."""
    if not document["plan"]:
        yield f'device "{document["device"]}" has nothing to do yet'
        return
    runs = "runs it" if document["took"] == document["plan"] else "has not taken it yet"
    yield f'device "{document["device"]}", document {document["plan"]}: it {runs}'
    for one in document["run"]:
        partners = [name for name in one["partners"] if name != document["device"]]
        with_ = f" with {_some(partners)}" if partners else " for itself"
        size = amounts.format_bytes(document["program_bytes"].get(one["program"], 0))
        side = f", as {one['side']} of the pair" if partners else ""
        yield from wrap(f"runs {one['template']}{with_}{side} (program {one['program']}, {size})", "  ", "    ")
    for one in document["send"]:
        yield f"  sends {one['stream']}{_say_every(one['every_s'])}"
    taken: dict[tuple[str, float], list[str]] = {}
    for one in document["take"]:
        taken.setdefault((one["stream"], one["every_s"]), []).append(one["device"])
    for (stream, every_s), devices in taken.items():
        origin = "the cloud" if devices == [CLOUD] else _some(devices)
        yield from wrap(f"takes {stream} of {origin}{_say_every(every_s)}", "  ", "    ")
    if not document["run"] and not document["send"]:
        yield "  sends nothing and runs nothing"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _say_every(every_s: float) -> str:
    return f", a row every {amounts.format_seconds(every_s)} at most" if every_s else ""


def _ago(seconds: float) -> str:
    return amounts.format_seconds(round(max(0.0, seconds)))


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.0%})" if whole else "0"


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{_number(per_s)}/s"


def _number(value: float) -> str:
    return amounts.format_number(float(f"{value:.3g}"))
