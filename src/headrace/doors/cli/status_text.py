"""What `headrace status` tells people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from headrace.doors.cli.device_status_text import template_table
from headrace.doors.cli.feed_status_text import feed_table
from headrace.doors.cli.output import join_items, table, wrap
from headrace.model import amounts
from headrace.model.words import name_ids, put_in_words

Document = dict[str, Any]

TOLD_OF_ALL = frozenset({"stopped", "unresponsive", "loading"})
"""States that the first lines tell, with their reason, of the service as a whole."""
NAMED = 3
"""Vertices of a move that are named."""
WAITS = "small pushes continue without it; large pushes and loading wait"


def status_text(document: Document, now: float) -> str:
    service, slots, moves = document["service"], document["slots"], document.get("moves", ())
    troubles, links = _troubles(document.get("troubles", ()), now), _links(document.get("links", ()), now)
    checks = _checks(document.get("checks", {}), now)
    lines = (
        _service(service, now),
        _sites(document.get("sites", ())),
        troubles,
        _contracts(document),
        feed_table(document.get("feeds", ())),
        template_table(document.get("templates", ()), now),
        checks,
        links,
        _slots(slots),
        move_lines(moves, now),
    )
    return "\n".join(line for part in lines for line in part)


def _service(service: Document, now: float) -> Iterator[str]:
    age = now - service["written"]
    when = "" if age < 5 else f", {ago(age)}"
    match service["state"]:
        case "running":
            yield f"running as process {service['pid']}{when}"
        case "loading":
            yield from wrap(f"loading as process {service['pid']}: {service['phase']}{when}", "", "  ")
        case "unresponsive":
            yield from wrap(f"process {service['pid']} is unresponsive: these numbers are from {ago(age)}", "", "  ")
        case "stopped":
            yield f"stopped, {ago(age)}"
        case _:
            yield from wrap(f"failed: {put_in_words(service['error'])}; last seen {ago(age)}", "", "  ")
            yield "  `headrace up` continues from the last commit"
    yield from _engine(service.get("engine", {}))
    yield from _feed_servers(service.get("feed_servers", ()))
    yield from _devices(service.get("devices"))


def _troubles(troubles: Sequence[Document], now: float) -> Iterator[str]:
    for trouble in troubles:
        yield from wrap(
            f"{put_in_words(trouble['what'])} (for {short_seconds(max(0.0, now - trouble['since']))})", "  ", "    "
        )
        yield from wrap(f"hint: {trouble['hint']}", "    ", "      ")


def _engine(engine: Document) -> Iterator[str]:
    """Why lags may grow. One that is there, or of a service that is gone, is not worth a line."""
    if "away_s" in engine:
        what = "has died and is being restarted" if engine["state"] == "restarting" else "is starting"
        yield from wrap(f"{engine['name']} {what}, for {short_seconds(engine['away_s'])} now: {WAITS}", "  ", "    ")
        if engine["error"] is not None:
            yield from wrap(f"its last start failed: {put_in_words(engine['error'].splitlines()[0])}", "    ", "      ")


def _feed_servers(servers: Sequence[Document]) -> Iterator[str]:
    if servers:
        streams = sum(one["streams"] for one in servers)
        told = ", ".join(f"process {one['pid']}" if one["state"] == "running" else one["state"] for one in servers)
        also = f"; {streams} {'stream' if streams == 1 else 'streams'}" if streams else ""
        yield from wrap(f"feeds are served at port {servers[0]['port']} by {told}{also}", "  ", "    ")


def _devices(devices: Document | None) -> Iterator[str]:
    if devices is not None:
        told = ", ".join(
            f"{one['name']} {'process ' + str(one['pid']) if one['state'] == 'running' else one['state']}"
            for one in devices["processes"]
        )
        where = f"devices connect to {devices['url']}" if devices["url"] else "devices cannot connect yet"
        yield from wrap(f"{where} ({told})", "  ", "    ")


def _contracts(document: Document) -> Iterator[str]:
    contracts = document["contracts"]
    if not contracts:
        return
    header = ["contract", "lag", "promised", "violations", "cost", "next push", "state"]
    yield from table([_row(contract) for contract in contracts], head=header)
    for contract in contracts:
        if "reason" in contract and contract["state"] not in TOLD_OF_ALL:
            yield from wrap(
                f"{contract['id']} is {contract['state']}: {put_in_words(contract['reason'])}", "  ", "    "
            )
        yield from version_lines(contract)
        yield from _streaming(contract)


def _streaming(contract: Document) -> Iterator[str]:
    """How long rows of a contract that is streaming take; what is missing is not known yet, or did not change."""
    mean_s, longest_s = contract.get("latency_s"), contract.get("longest_latency_s")
    if contract.get("streaming") and mean_s is not None and longest_s is not None:
        times = f"{short_seconds(mean_s)}, and {short_seconds(longest_s)} at most"
        yield from wrap(f"{contract['id']} is streaming: rows of the last minute took {times}", "  ", "    ")


def _checks(checks: Document, now: float) -> Iterator[str]:
    """How much was checked in the background and how long ago, and what cannot be."""
    subjects = checks.get("subjects", ())
    times = [one["checked"] for one in subjects if one["checked"] is not None]
    if times:
        counts = " and ".join(_count_checked(subjects, kind) for kind in ("source", "view"))
        yield from wrap(f"checked in the background: {counts}, the oldest {ago(now - min(times))}", "  ", "    ")
    names: dict[tuple[str, str], list[str]] = {}
    for one in subjects:
        if one["found"] == "not checked":
            names.setdefault((one["kind"], put_in_words(one["reason"])), []).append(one["name"])
    for (kind, reason), same in names.items():
        yield from wrap(_say_unchecked(kind, same, reason), "  ", "    ")


def _say_unchecked(kind: str, names: Sequence[str], reason: str) -> str:
    if len(names) == 1:
        return f"{kind} {names[0]} is not checked: {reason}"
    return f"{kind}s {join_items(names)} are not checked: {re.sub('^it is ', 'each is ', reason)}"


def _count_checked(subjects: Sequence[Document], kind: str) -> str:
    checked = [one["checked"] is not None for one in subjects if one["kind"] == kind]
    return f"{sum(checked)} of {len(checked)} {kind}{'' if len(checked) == 1 else 's'}"


def version_lines(contract: Document) -> Iterator[str]:
    """Lines about a contract that goes on although what the files ask for is refused."""
    if "running" in contract:
        earlier = contract["running"] == "earlier version"
        what = (
            "runs its earlier version: the new one is refused"
            if earlier
            else "keeps running although it no longer fits"
        )
        yield from wrap(f"{contract['id']} {what}, because {put_in_words(contract['refused']['detail'])}", "  ", "    ")


def _row(contract: Document) -> list[str]:
    next_push = contract["next_push_s"]
    return [
        contract["id"],
        "-" if contract["lag_s"] is None else short_seconds(contract["lag_s"]),
        amounts.format_seconds(contract["freshness_s"]),
        str(contract["violations"]),
        f"{contract['cost_h']:.2g} $/h",
        "-" if next_push is None else "now" if next_push <= 0 else f"in {short_seconds(next_push)}",
        contract["state"] + (", forced" if contract.get("forced") else ""),
    ]


def move_lines(moves: Sequence[Document], now: float) -> Iterator[str]:
    for move in moves:
        names, when = ", ".join(move["contracts"]), ago(now - move["at"])
        failed = move["error"] is not None
        yield from wrap(f"{'could not move' if failed else 'moved'} {names} {when}", "  ", "    ")
        yield from wrap(f"because {'; '.join(move['because'])}", "    ", "      ")
        if failed:
            yield from wrap(
                f"the running plan stays in place: {put_in_words(move['error'].splitlines()[0])}", "    ", "      "
            )
        else:
            yield from wrap(_gain(move), "    ", "      ")


def _gain(move: Document) -> str:
    changed = "; ".join(f"{verb} {_name_vertices(move[verb])}" for verb in ("made", "dropped") if move[verb])
    kept = f"{', '.join(move['restores'])} can be kept again" if move["restores"] else ""
    saving = move["saving_h"]
    money = f"saves {saving:.2g} $/h" if saving >= 0 else f"costs {-saving:.2g} $/h more"
    return "; ".join(filter(None, (kept, f"{money}, moving cost {move['migration']:.2g} $", changed)))


def _name_vertices(ids: Sequence[str]) -> str:
    """The first vertices in words, and how many more there are."""
    names = name_ids(ids)
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _sites(sites: Sequence[Document]) -> Iterator[str]:
    """Sites that run as processes of their own."""
    for site in sites:
        yield f"  site {site['id']}: {_say_process(site)}"


def _say_process(site: Document) -> str:
    if site["pid"] is not None:
        return f"process {site['pid']}, {site['state']}"
    return "has not joined yet" if site["state"] == "not joined" else "has no process yet"


def _links(links: Sequence[Document], now: float) -> Iterator[str]:
    for link in links:
        told = f"{link['from']} to {link['to']}: "
        told += _say_simulated(link) if link["simulated"] else ", ".join(_say_link(link, now))
        yield from wrap(told, "  ", "    ")


def _say_simulated(link: Document) -> str:
    told = f"{amounts.format_bytes(link['sent_bytes'])} sent over a simulated link"
    if not link.get("waiting_bytes"):
        return told
    arrives = amounts.format_seconds(round(link["behind_s"], 1))
    return f"{told}; {amounts.format_bytes(link['waiting_bytes'])} wait, and arrive in {arrives}"


def _say_link(link: Document, now: float) -> Iterator[str]:
    """`2.4 MB/s of 12.5 MB/s declared, 8.1 MB wait, 41 s behind`, or `cut off from us since 12:03`."""
    if link.get("state") == "cut":
        yield f"cut off from {link['from']} since {say_clock(link['since'], now)}"
    elif link.get("bytes_s") is not None:
        yield f"{amounts.format_bandwidth(round(link['bytes_s']))}{_say_capacity(link)}"
    yield f"{amounts.format_bytes(link['sent_bytes'])} sent"
    if link.get("waiting_bytes"):
        yield f"{amounts.format_bytes(link['waiting_bytes'])} wait"
    if link.get("behind_s") and link.get("state") in ("cut", "sending"):
        yield f"{amounts.format_seconds(round(link['behind_s']))} behind"


def _say_capacity(link: Document) -> str:
    """What was measured says more than what was declared."""
    measured, declared = link.get("capacity_bytes_s"), link.get("declared_bytes_s")
    if measured is not None:
        return f" of {amounts.format_bandwidth(round(measured))} measured"
    believed = link.get("believed_bytes_s")
    if believed is not None and believed != declared:
        return f" of {amounts.format_bandwidth(round(believed))} measured earlier"
    return "" if declared is None else f" of {amounts.format_bandwidth(declared)} declared"


def say_clock(at: float, now: float) -> str:
    """The time of day; with the date if that was not today."""
    then = datetime.fromtimestamp(at)
    is_today = then.date() == datetime.fromtimestamp(now).date()
    return then.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M")


def _slots(slots: list[Document]) -> Iterator[str]:
    for slot in slots:
        about = slot.get("error") or f"keeps {amounts.format_bytes(slot['kept_bytes'])} of log, {slot['wal_status']}"
        yield from wrap(f"{slot['database']}: {about}", "  ", "    ")


def short_seconds(seconds: float) -> str:
    """Nobody needs the microseconds of a lag."""
    return f"{seconds:.1f} s" if seconds < 100 else amounts.format_seconds(round(seconds))


def ago(seconds: float) -> str:
    return f"{short_seconds(max(0.0, seconds))} ago"
