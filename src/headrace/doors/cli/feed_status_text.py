"""What `status` and `feeds status` tell of feeds that run, and `feeds calibrate` of what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.doors.cli.output import join_items, table, wrap
from headrace.model import amounts

Document = dict[str, Any]

MOST_NAMED = 5
"""Producers that are named."""
WHAT = {
    "H": "to store an event for one consumer",
    "L": "to fetch a producer, beyond finding it stored ahead",
    "L0": "for a read that fetches anything",
    "read": "for a read, if everything is stored ahead",
    "event": "for an event that is stored for nobody",
}
OUTCOMES = {
    "lowered": "reads are too slow: more pairs are stored ahead than cost alone asks for",
    "raised": "reads are quicker than needed: pairs go back on read",
    "unreachable": "unreachable: with all pairs stored ahead, reads are still slower than the target",
}


def feed_table(feeds: Sequence[Document]) -> Iterator[str]:
    """A line for each feed, and what is wrong with it."""
    if feeds:
        head = ["feed", "lag", "promised", "pairs", "stored ahead", "p50", "p95", "reads"]
        yield from table([_row(feed) for feed in feeds], head=head)
    for feed in feeds:
        for said in _find_unusual(feed):
            yield from wrap(f"{feed['id']}: {said}", "  ", "    ")


def _row(feed: Document) -> list[str]:
    return [
        feed["id"],
        _seconds(feed["lag_s"]),
        amounts.format_seconds(feed["freshness_s"]) if "freshness_s" in feed else "-",
        _count(feed["pairs"]),
        _share(feed["stored_ahead"], feed["pairs"]),
        _milliseconds(feed["p50_ms"]),
        _milliseconds(feed["p95_ms"]),
        _rate(feed.get("reads_s")),
    ]


def _find_unusual(feed: Document) -> Iterator[str]:
    if feed.get("outcome") == "unreachable":
        yield OUTCOMES["unreachable"]
    shed = feed.get("shed", [])
    if shed:
        named = join_items(shed[:MOST_NAMED]) + (f" and {len(shed) - MOST_NAMED} more" if shed[MOST_NAMED:] else "")
        yield f"the store was late, so these are read instead of stored ahead for now: {named}"


def feed_text(feed: Document, now: float) -> Iterator[str]:
    """One feed, with its prices."""
    targets = ", ".join(f"{name} {_milliseconds(limit)}" for name, limit in feed["target_ms"].items())
    decided = "not yet" if feed["decided"] is None else f"{_seconds(max(0.0, now - feed['decided']))} ago"
    rows = [
        ["pairs", f"{_count(feed['pairs'])}, stored ahead {_share(feed['stored_ahead'], feed['pairs'])}"],
        ["behind", f"{_seconds(feed['lag_s'])}, promised {amounts.format_seconds(feed['freshness_s'])}"],
        ["pages", f"p50 {_milliseconds(feed['p50_ms'])}, p95 {_milliseconds(feed['p95_ms'])}"],
        ["target", targets or "none"],
        ["reads", _rate(feed["reads_s"])],
        ["events", _rate(feed["events_s"])],
        ["decided", f"{decided}; {_count(feed['flips'])} flips since the service started"],
    ]
    if feed["outcome"] in OUTCOMES:
        rows.append(["latency", OUTCOMES[feed["outcome"]]])
    if feed["tau"] is not None:
        tau = amounts.format_number(float(f"{feed['tau']:.3g}"))
        rows.append(["tau", f"{tau}: the score from which pairs are stored ahead"])
    yield f'feed "{feed["id"]}" at {feed["at"]}'
    yield from table(rows)
    for said in _find_unusual({**feed, "outcome": None}):
        yield from wrap(said, "  ", "    ")
    if feed["prices"] is not None:
        yield from price_lines(feed["prices"], now)


def price_lines(prices: Document, now: float) -> Iterator[str]:
    if prices["measured"]:
        counted = "processor time" if prices["counted"] == "processor" else "elapsed time, since the store is elsewhere"
        yield f"  prices, measured {_seconds(max(0.0, now - prices['at']))} ago in {counted}"
    else:
        yield "  prices, assumed until the feed has been level for a minute"
    yield from table([[name, _say_price(prices[name]), WHAT[name]] for name in WHAT], indent=4)
    unsure = [name for name in WHAT if prices["measured"] and not prices[name]["sure"]]
    if unsure:
        used = join_items(f"{name} {_micros(prices[name]['used'])}" for name in unsure)
        yield from wrap(f"not sure, since the error is larger than the price; decided with {used}", "    ", "      ")
    if prices["measured"] and prices["L"]["seconds"] + prices["L"]["error"] < 0.0:
        yield from wrap(
            "on this store, finding a producer stored ahead takes longer than fetching it: storing ahead does not "
            "make reads cheaper",
            "    ",
            "      ",
        )


def calibration_text(answer: Document, now: float) -> Iterator[str]:
    yield f'feed "{answer["feed"]}" is calibrated'
    yield from price_lines(answer["prices"], now)
    took = amounts.format_seconds(round(answer["cpu_s"], 1))
    producers, follows = (amounts.format_count(round(answer[name])) for name in ("producers", "follows"))
    shape = f"{producers} producers with {answer['depth']} events each, {follows} follows"
    yield from wrap(f"{answer['windows']} windows, {took} of a core, for {shape}", "  ", "    ")
    if answer["flipping"] is None:
        yield "  nothing was decided yet, so nothing flips"
    else:
        share = _share(answer["flipping"], answer["pairs"])
        yield from wrap(f"{share} of {_count(answer['pairs'])} pairs cost less the other way now", "  ", "    ")


def _say_price(price: Document) -> str:
    error = "" if price["error"] is None else f" ± {_micros(price['error'])}"
    return f"{_micros(price['seconds'])}{error}"


def _micros(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} us"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds < 100 else amounts.format_seconds(round(seconds))


def _milliseconds(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.3g} ms"


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def _share(some: float | None, of: float | None) -> str:
    return "-" if some is None or not of else f"{some:,.0f} ({some / of:.0%})"


def _rate(per_second: float | None) -> str:
    return "-" if per_second is None else f"{per_second:.3g}/s"
