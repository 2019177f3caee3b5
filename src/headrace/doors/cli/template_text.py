"""What `plan` and `why` tell people and programs about templates."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.doors.cli.output import table, wrap
from headrace.model import amounts
from headrace.model.explanation import WhyPlacedPair, WhyTemplate
from headrace.model.plan import Plan
from headrace.model.template_plan import DeviceTraffic, TemplatePlan


def template_lines(plan: Plan) -> Iterator[str]:
    """Templates that are kept, in a table. Why others are refused is said of their contracts."""
    kept = [one for one in plan.templates if one.reason is None]
    if not kept:
        return
    head = ["template", "on devices", "messages", "all in the cloud"]
    rows = [
        [one.template, _say_placed(one), "not known" if one.placed is None else _say(one.placed), _say(one.all_cloud)]
        for one in kept
    ]
    yield from table(rows, indent=0, head=head)
    for one in kept:
        if one.placed is None:
            yield from wrap(f"where its pairs run is not known before it runs: {one.unread}", f"{one.template}: ", "  ")
    yield ""


def _say_placed(one: TemplatePlan) -> str:
    pairs = amounts.format_count(one.pairs)
    return f"{pairs} pairs" if one.on_devices is None else f"{amounts.format_count(one.on_devices)} of {pairs} pairs"


def _say(traffic: DeviceTraffic) -> str:
    return f"{_round(traffic.messages_s)}/s, {amounts.format_bandwidth(float(f'{traffic.bytes_s:.3g}'))}"


def _round(number: float) -> str:
    return amounts.format_number(float(f"{number:.3g}"))


def why_template_text(answer: WhyTemplate) -> Iterator[str]:
    one = answer.plan
    verdict = "is refused" if one.reason is not None else f"is kept; its results are view {one.view}"
    yield from wrap(f'template "{one.template}" {verdict}', "", "  ")
    if one.reason is not None:
        yield from wrap(one.detail, "  because ", "    ")
    placed = one.placed
    rows = [
        ["devices", amounts.format_count(one.devices)],
        ["pairs", _say_placed(one) + ("" if one.on_devices is None else " run on a device")],
        ["all in the cloud", _say(one.all_cloud) + ("" if one.all_cloud.messages_down_s else ", all from devices")],
    ]
    if one.derived:
        rows.append(["sent as rows of", f"{', '.join(one.derived)}, which devices compute themselves"])
    if placed is not None:
        up, down = _round(placed.messages_up_s), _round(placed.messages_down_s)
        rows.append(["as placed", f"{_say(placed)}: {up}/s from devices, {down}/s to them"])
        rows.append(["", _say_saved(one.all_cloud, placed)])
        rows.append(["decided by", one.method])
    yield from table(rows)
    if placed is None:
        yield from wrap(f"where pairs run is not known before it runs: {one.unread}", "  ", "    ")
    load = [f"{_round(cores)} cores at {site}" for site, cores in one.cpu.items()]
    if load:
        yield from wrap(f"{', '.join(load)} with every pair in the cloud, as it begins", "  the cloud's share takes ")


def _say_saved(all_cloud: DeviceTraffic, placed: DeviceTraffic) -> str:
    if placed.cost <= 0.0:
        return "nothing has to be sent" if all_cloud.cost > 0.0 else "nothing is sent either way"
    saved = all_cloud.cost / placed.cost
    if f"{saved:.2f}" == "1.00":
        return "as much as with all in the cloud"
    return f"with all in the cloud it would cost {saved:.2f} times as much"


def why_placed_pair_text(answer: WhyPlacedPair) -> Iterator[str]:
    yield f'template "{answer.template}": pair {",".join(answer.devices)} runs'
    for line in answer.because.splitlines():
        yield from wrap(line.strip(), "  ", "    ")


def why_placed_pair_document(answer: WhyPlacedPair) -> dict[str, object]:
    return {
        "kind": "placed pair",
        "template": answer.template,
        "devices": list(answer.devices),
        **answer.numbers,
        "because": answer.because,
    }
