"""The text of `headrace demo`: what runs, how far behind each view is, and which promises were kept in the end."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from headrace.doors.cli.compared_text import compared_lines
from headrace.doors.cli.output import UNBROKEN, join_items, table, wrap
from headrace.doors.cli.plan_text import dollars_per_hour, refusal_lines
from headrace.model import amounts
from headrace.model.feed_names import feed_of
from headrace.model.plan import Plan

if TYPE_CHECKING:
    from headrace.app.demo import Arrival, Closing, Demo, Lag
    from headrace.app.demo_feed import FeedResult

BAR = 20
"""Characters of a lag that has reached what is promised."""
FIRST_S = 2.0
"""When lags are first told in lines: before, nobody has measured them."""


def opening_text(running: Demo) -> str:
    """What is there, what was promised and what not, and how to take part."""
    return "\n".join([*_promises(running.plan), "", *_take_part(running), ""])


def _promises(plan: Plan) -> Iterator[str]:
    catalogue = plan.catalogue

    def is_declared(name: str) -> bool:
        return feed_of(name, catalogue.feeds) is None

    sources = [f"{one.name} ({one.site})" for one in catalogue.sources.values() if is_declared(one.name)]
    views = [name for name in catalogue.views if is_declared(name)]
    asked = sum(map(is_declared, catalogue.contracts))
    kept = asked - len(plan.rejected)
    yield ""
    yield from wrap(
        f"Four apps write to {len(sources)} tables in {len(catalogue.sites)} regions: {join_items(sources)}."
        f" {len(views)} views of them are kept fresh for {kept} contracts, and a feed for everybody who follows"
        f" others, at a planned cost of {dollars_per_hour(plan.money).replace(' ', UNBROKEN)}."
        f" {asked - kept} of {asked} contracts is refused, because it could not be kept:",
        "",
    )
    for rejection in plan.rejected:
        yield from refusal_lines(rejection, catalogue)


def _take_part(running: Demo) -> Iterator[str]:
    from headrace.app.demo import GUEST_VIEW, INSERT
    from headrace.app.demo_feed import FEED, GUEST_READER

    promised = next(one for one in running.plan.contracts if one.view == GUEST_VIEW)
    within = amounts.format_seconds(promised.freshness_s).replace(" ", UNBROKEN)
    yield from wrap(
        f'Write a post from another terminal, and see it appear in view "{GUEST_VIEW}" within {within}:', ""
    )
    yield ""
    yield f"  {shlex.quote(running.psql)} {running.guest_address} \\"
    yield f'    -c "{INSERT}"'
    yield ""
    yield from wrap("Somebody who follows its author reads it on the first page of the feed:", "")
    yield ""
    yield f"  {shlex.quote(running.command)} feeds show {FEED} {GUEST_READER} \\"
    yield f"    {shlex.quote(str(running.project))}"


class Screen:
    """Lags in place on a terminal, else in lines every so often; nothing at all if `every_s` is None."""

    def __init__(self, stream: TextIO, every_s: float | None) -> None:
        self._stream = stream
        self._every_s = every_s
        self._in_place = stream.isatty()
        self._height = 0
        self._next = FIRST_S

    def show(self, passed_s: float, lags: Sequence[Lag], arrivals: Sequence[Arrival], written: int) -> None:
        if self._every_s is None:
            return
        for arrival in arrivals:
            self._write_above(arrival_text(arrival))
        if self._in_place:
            self._redraw(lag_table(passed_s, lags, written))
        elif passed_s >= self._next:
            self._next += self._every_s
            self._write("\n".join(lag_line(passed_s, lags)))

    def _write_above(self, text: str) -> None:
        self._erase()
        self._write(text)

    def _redraw(self, lines: list[str]) -> None:
        self._erase()
        self._write("\n".join(lines))
        self._height = len(lines)

    def _erase(self) -> None:
        """Back to where the table began, if there is one."""
        if self._height:
            self._stream.write(f"\033[{self._height}A\033[J")
            self._height = 0

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def arrival_text(arrival: Arrival) -> str:
    from headrace.app.demo import GUEST_VIEW

    text = (
        f'"{arrival.body}" by {arrival.author}, post {arrival.post},'
        f" appeared in {GUEST_VIEW} after {arrival.after_s:.1f} s"
    )
    return "\n".join(wrap(text, "> "))


def lag_table(passed_s: float, lags: Sequence[Lag], written: int) -> list[str]:
    head = ["contract", "view at site", "behind", "promised", ""]
    rows = [
        [lag.contract, f"{lag.view} at {lag.site}", _lag(lag), amounts.format_seconds(lag.freshness_s), _bar(lag)]
        for lag in lags
    ]
    since = f"{passed_s:.0f} s, {written} rows written by the apps; press Ctrl-C to stop"
    return [*(line.rstrip() for line in table(rows, indent=0, head=head)), "", since]


def lag_line(passed_s: float, lags: Sequence[Lag]) -> list[str]:
    known = ", ".join(f"{lag.contract} {_lag(lag)}/{amounts.format_seconds(lag.freshness_s)}" for lag in lags)
    return wrap(known.replace(" s", f"{UNBROKEN}s"), f"{passed_s:3.0f} s  behind: ")


def _lag(lag: Lag) -> str:
    return "?" if lag.lag_s is None else f"{lag.lag_s:.1f} s"


def _bar(lag: Lag) -> str:
    if lag.lag_s is None:
        return ""
    full = round(BAR * lag.lag_s / lag.freshness_s)
    return "#" * full if full <= BAR else "#" * BAR + "!"


def closing_text(closing: Closing) -> str:
    lines = [
        "",
        f"ran {closing.seconds:.0f} s; the first views were ready {closing.first_view_s:.0f} s after the command",
        "",
        *_say_kept(closing),
        "",
        *_work(closing),
        "",
        *_equal(closing),
        *_say_feed(closing.feed),
    ]
    return "\n".join(lines)


def _say_kept(closing: Closing) -> Iterator[str]:
    head = ["contract", "promised", "furthest behind", "violations"]
    rows = [
        [
            one.contract,
            amounts.format_seconds(one.freshness_s),
            f"{one.worst_lag_s:.1f} s",
            f"{one.violations}, {one.violated_s:.0f} s" if one.violations else "none",
        ]
        for one in closing.kept
    ]
    feed = closing.feed
    yield from table(
        [
            *rows,
            [
                "home, a feed",
                amounts.format_seconds(feed.freshness_s),
                f"{feed.worst_lag_s:.1f} s",
                f"in {feed.pages} pages",
            ],
        ],
        indent=0,
        head=head,
    )


def _work(closing: Closing) -> Iterator[str]:
    more = closing.separate_cost / closing.cost - 1 if closing.cost else 0.0
    yield from table(
        [
            ["written", f"{amounts.format_rows(closing.written)} by the apps"],
            ["pushed", f"{amounts.format_rows(closing.pushed_rows)} in {closing.pushes} pushes"],
            [
                "moved",
                f"{amounts.format_rows(closing.moved_rows)}, {amounts.format_bytes(closing.moved_bytes)}"
                " between regions",
            ],
            [
                "planned cost",
                f"{dollars_per_hour(closing.cost)}; without sharing {dollars_per_hour(closing.separate_cost)}"
                f" ({100 * more:.0f} % more)",
            ],
        ],
        indent=0,
    )


def _equal(closing: Closing) -> Iterator[str]:
    if closing.load_error is not None:
        yield f"the apps stopped writing: {closing.load_error}"
    yield from compared_lines(closing.comparison)


def _say_feed(feed: FeedResult) -> Iterator[str]:
    ahead = f"{feed.stored_ahead:,} of {feed.pairs:,} pairs are stored ahead"
    pages = "" if feed.p95_ms is None else f", 95 % of pages took at most {feed.p95_ms:.0f} ms"
    equal = feed.compared - len(feed.different)
    yield from wrap(f"{equal} of {feed.compared} pages of the feed equal the databases; {ahead}{pages}", "")
    if feed.different:
        yield from wrap(f"pages that differ: {', '.join(feed.different)}", "")


def closing_document(plan: Plan, closing: Closing) -> dict[str, object]:
    return {
        "ok": closing.ok,
        "seconds": closing.seconds,
        "first_view_s": closing.first_view_s,
        "contracts": [
            {
                "id": one.contract,
                "freshness_s": one.freshness_s,
                "worst_lag_s": one.worst_lag_s,
                "violations": one.violations,
                "violated_s": one.violated_s,
            }
            for one in closing.kept
        ],
        "rejected": [
            {"id": one.contract, "reason": one.reason, "smallest_staleness": one.smallest_staleness_s}
            for one in plan.rejected
        ],
        "written_rows": closing.written,
        "pushes": closing.pushes,
        "pushed_rows": closing.pushed_rows,
        "moved_rows": closing.moved_rows,
        "moved_bytes": closing.moved_bytes,
        "cost_h": closing.cost * 3600,
        "separate_cost_h": closing.separate_cost * 3600,
        "recompute": closing.comparison.document(),
        "feed": {
            "pages": closing.feed.pages,
            "worst_lag_s": closing.feed.worst_lag_s,
            "compared": closing.feed.compared,
            "different": list(closing.feed.different),
            "pairs": closing.feed.pairs,
            "stored_ahead": closing.feed.stored_ahead,
            "p95_ms": closing.feed.p95_ms,
        },
        "error": closing.load_error,
    }
