"""`headrace feeds decide`: which feeds to store ahead and which to assemble on read. `show`: a page of somebody's."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.doors.cli import output
from headrace.doors.cli.feed_tokens import tokens
from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, count, fit, write
from headrace.doors.cli.progress import progress
from headrace.model.amounts import format_seconds
from headrace.model.errors import UsageError

if TYPE_CHECKING:
    from headrace.app.feeds import FeedsReport

MOST_LISTED = 20
"""Pairs that are listed for people."""

feeds = typer.Typer(help="Store feeds ahead or assemble them on read.", no_args_is_help=True)
feeds.add_typer(tokens, name="tokens")


class FeedsEngine(StrEnum):
    NUMPY = "numpy"
    SPARK = "spark"


class FeedsMethod(StrEnum):
    EXACT = "exact"
    GREEDY = "greedy"
    WHOLESALE = "wholesale"


@feeds.callback()
def group() -> None:
    """What comes before the name of a command of the group."""


@feeds.command()
def decide(
    file: Annotated[Path, typer.Argument(help="A JSON instance, or a Parquet or CSV table: consumer, producer.")],
    producers: Annotated[Path | None, typer.Option(help="Table: producer, rate, optionally H and L.")] = None,
    consumers: Annotated[Path | None, typer.Option(help="Table: consumer, rate.")] = None,
    store_price: Annotated[str | None, typer.Option("-H", help="Cost to store one event ahead.")] = None,
    fetch_price: Annotated[str | None, typer.Option("-L", help="Cost to pull one producer.")] = None,
    batch_price: Annotated[str, typer.Option("--L0", help="Cost of a batch of pulls.")] = "0",
    model: Annotated[str, typer.Option(help="rpc, amortised, batch or recency.")] = "batch",
    shown: Annotated[int, typer.Option("-k", "--k", help="Events that a feed shows, for recency.")] = 10,
    mean_pulls: Annotated[str | None, typer.Option(help="The most pulls per query, on average.")] = None,
    percentile: Annotated[str | None, typer.Option(help="Share of queries with at most --max-pulls.")] = None,
    max_pulls: Annotated[int, typer.Option(help="The most pulls of that share of queries.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the follows with a column decision: push or pull.")] = None,
    engine: Annotated[FeedsEngine, typer.Option(help="Where to decide tables.")] = FeedsEngine.NUMPY,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[2]",
    method: Annotated[FeedsMethod, typer.Option(help="How to meet a latency target.")] = FeedsMethod.EXACT,
    why: Annotated[str | None, typer.Option(help="Explain one pair: consumer<-producer.")] = None,
    per: Annotated[str, typer.Option(help="Time unit of the rates, for --why.")] = "h",
    json: Json = False,
) -> int:
    """Decide for every follower whether events are pushed (stored ahead) or pulled (on read), at the least cost."""
    from headrace.app import feeds

    question = feeds.FeedsQuestion(method, _pair(why), per)
    if producers is None and consumers is None and file.suffix.lower() not in (".parquet", ".pq", ".csv"):
        _refuse_table_options(
            {
                "-H": store_price is not None,
                "-L": fetch_price is not None,
                "--L0": batch_price != "0",
                "--model": model != "batch",
                "-k": shown != 10,
                "--mean-pulls": mean_pulls is not None,
                "--percentile": percentile is not None,
                "--max-pulls": max_pulls != 0,
                "--out": out is not None,
                "--engine": engine is not FeedsEngine.NUMPY,
            }
        )
        report = feeds.decide_feeds(file, question)
        return _show(json, report, out)
    if producers is None or consumers is None or store_price is None or fetch_price is None:
        raise UsageError(
            "a table of follows needs rates and prices",
            "decide FOLLOWS.parquet --producers P.parquet --consumers C.parquet -H 3 -L 1 --out OUT.parquet",
        )
    tables = feeds.FeedTables(
        producers, consumers, store_price, fetch_price, batch_price, model, shown, mean_pulls, percentile, max_pulls,
        out,
    )  # fmt: skip
    if engine is FeedsEngine.SPARK:
        if (mean_pulls, percentile, why, method) != (None, None, None, FeedsMethod.EXACT):
            raise UsageError("targets, methods and --why need all pairs in one place", "--engine numpy")
        return _show(json, feeds.decide_feed_tables_on_spark(file, tables, master, progress()), out)
    return _show(json, feeds.decide_feed_tables(file, tables, question, progress()), out)


@feeds.command()
def show(
    feed: Annotated[str, typer.Argument(help="A feed of the running project.")],
    consumer: Annotated[str, typer.Argument(help="Whose feed.")],
    directory: Directory = Path(),
    limit: Annotated[int | None, typer.Option(help="Entries; as many as the feed says if left out.")] = None,
    before: Annotated[str | None, typer.Option(help="The `next` of the page before.", metavar="CURSOR")] = None,
    json: Json = False,
) -> int:
    """Show a page of somebody's feed, newest entries first."""
    from headrace.app.asking import read_feed

    page = read_feed(directory, feed, consumer, limit, before)
    return output.show(json, Exit.DONE, text=lambda: "\n".join(_page_lines(page)), document=lambda: page)


@feeds.command()
def post(
    feed: str,
    producer: Annotated[str, typer.Argument(help="Who says it.")],
    directory: Directory = Path(),
    event: Annotated[
        str | None, typer.Option("--id", help="Tells its events apart; one of its own if left out.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="When it happened, as 2026-03-01T12:00:00Z; now if left out.")
    ] = None,
    body: Annotated[str, typer.Option(help="What people see: JSON.")] = "null",
    json: Json = False,
) -> int:
    """Post an event to a feed that says `events: api`; one with the id of an earlier one takes its place."""
    from json import JSONDecodeError, loads
    from uuid import uuid4

    from headrace.app.asking import post_to_feed

    try:
        said = loads(body)
    except JSONDecodeError as error:
        raise UsageError(f"the body is not JSON: {error}", """write a text as '"hello"'""") from None
    posted = {"producer": producer, "id": event or uuid4().hex, "time": time, "body": said}
    answer = {**post_to_feed(directory, feed, posted), "id": posted["id"]}
    told = f'{producer} posted {answer["id"]} to feed "{feed}"'
    return output.show(json, Exit.DONE, text=lambda: told, document=lambda: answer)


@feeds.command()
def follow(
    feed: str,
    consumer: Annotated[str, typer.Argument(help="Whose feed.")],
    producer: Annotated[str, typer.Argument(help="Whom to see in it.")],
    directory: Directory = Path(),
    json: Json = False,
) -> int:
    """Have a consumer follow a producer in a feed that says `follows: api`."""
    return _follow(feed, (consumer, producer), directory, False, json)


@feeds.command()
def unfollow(
    feed: str,
    consumer: Annotated[str, typer.Argument(help="Whose feed.")],
    producer: Annotated[str, typer.Argument(help="Whom not to see in it any more.")],
    directory: Directory = Path(),
    json: Json = False,
) -> int:
    """Have a consumer no longer follow a producer."""
    return _follow(feed, (consumer, producer), directory, True, json)


def _follow(feed: str, pair: tuple[str, str], directory: Path, undo: bool, json: bool) -> int:
    from headrace.app.asking import follow_in_feed

    answer = follow_in_feed(directory, feed, pair, undo)
    told = f'{pair[0]} {"no longer follows" if undo else "follows"} {pair[1]} in feed "{feed}"'
    return output.show(json, Exit.DONE, text=lambda: told, document=lambda: answer)


@feeds.command()
def status(
    feed: Annotated[str | None, typer.Argument(help="A feed of the running project; all if left out.")] = None,
    directory: Directory = Path(),
    json: Json = False,
) -> int:
    """Show how feeds do: pairs, lag, latency, rates, what flips, and prices."""
    from time import time

    from headrace.app.reading import feed_statuses
    from headrace.doors.cli.feed_status_text import feed_text

    if feed is not None and directory == Path() and Path(feed, "headrace.yml").is_file():
        directory, feed = Path(feed), None  # a folder, and all of its feeds
    found = feed_statuses(directory, feed)
    return output.show(
        json,
        Exit.DONE,
        text=lambda: "\n".join(line for one in found for line in feed_text(one, time())) or "no feed is kept",
        document=lambda: found if feed is None else found[0],
    )


@feeds.command()
def calibrate(
    feed: Annotated[str, typer.Argument(help="A feed of the running project.")],
    directory: Directory = Path(),
    json: Json = False,
) -> int:
    """Measure what it costs to store and to fetch, on the feed's own store. Takes a few seconds of a core."""
    from time import time

    from headrace.app.asking import calibrate_feed
    from headrace.doors.cli.feed_status_text import calibration_text

    answer = calibrate_feed(directory, feed)
    return output.show(
        json, Exit.DONE, text=lambda: "\n".join(calibration_text(answer, time())), document=lambda: answer
    )


@feeds.command("import")
def import_(
    feed: str,
    directory: Directory = Path(),
    follows: Annotated[Path | None, typer.Option(help="Parquet or CSV: consumer, producer.")] = None,
    events: Annotated[
        Path | None, typer.Option(help="Parquet or CSV: producer, time, id, body (JSON, or any text).")
    ] = None,
    json: Json = False,
) -> int:
    """Bring many follows and events into a feed that says `api`. Its project must have run once."""
    from headrace.app.feed_import import import_feed

    if follows is None and events is None:
        raise UsageError("there is nothing to import", "--follows FILE, --events FILE or both")
    done = import_feed(directory, feed, follows, events, progress(5.0))
    told = f'{done["follows"]:,} follows and {done["events"]:,} events are on their way into feed "{feed}"'
    return output.show(json, Exit.DONE, text=lambda: told, document=lambda: done)


Consumer = Annotated[str, typer.Argument(help="Whose feed.")]


@feeds.command()
def unread(feed: str, consumer: Consumer, directory: Directory = Path(), json: Json = False) -> int:
    """Count the entries that are newer than what a consumer has seen."""
    from headrace.app.asking import count_unread

    answer = count_unread(directory, feed, consumer)
    number = answer["unread"]
    said = f'{consumer} has {"99 or more" if number == 99 else number} unread in feed "{feed}"'
    return output.show(json, Exit.DONE, text=lambda: said, document=lambda: answer)


@feeds.command()
def seen(
    feed: str,
    consumer: Consumer,
    directory: Directory = Path(),
    time: Annotated[str | None, typer.Option(help="The time of the newest entry that was seen.")] = None,
    event: Annotated[str | None, typer.Option("--id", help="Its id.")] = None,
    json: Json = False,
) -> int:
    """Say that a consumer has seen its feed: all that is there now, or up to an entry."""
    from headrace.app.asking import mark_seen

    given = {"time": time, "id": event}
    answer = mark_seen(directory, feed, consumer, {name: one for name, one in given.items() if one is not None})
    upto = "all of it" if time is None else f"up to {time}"
    told = f'{consumer} has seen feed "{feed}", {upto}'
    return output.show(json, Exit.DONE, text=lambda: told, document=lambda: answer)


Producer = Annotated[str, typer.Argument(help="Whom not to see in it.")]
Undo = Annotated[bool, typer.Option("--undo", help="Take it back.")]


@feeds.command()
def mute(
    feed: str,
    consumer: Consumer,
    producer: Producer,
    directory: Directory = Path(),
    undo: Undo = False,
    json: Json = False,
) -> int:
    """Hide a producer from a consumer, from the next page on."""
    return _hide(feed, (consumer, producer), "mutes", directory, undo, json)


@feeds.command()
def block(
    feed: str,
    consumer: Consumer,
    producer: Producer,
    directory: Directory = Path(),
    undo: Undo = False,
    json: Json = False,
) -> int:
    """Hide a producer from a consumer, and the consumer from the producer, from the next page on."""
    return _hide(feed, (consumer, producer), "blocks", directory, undo, json)


def _hide(feed: str, pair: tuple[str, str], what: str, directory: Path, undo: bool, json: bool) -> int:
    from headrace.app.asking import hide_in_feed

    answer = hide_in_feed(directory, feed, pair, what, undo)
    said = f'{pair[0]} {"no longer " if undo else ""}{what} {pair[1]} in feed "{feed}"'
    return output.show(json, Exit.DONE, text=lambda: said, document=lambda: answer)


def _page_lines(page: Mapping[str, Any]) -> Iterator[str]:
    from json import dumps

    age = format_seconds(round(page["lag_s"], 1))
    yield f"{count(len(page['entries']), 'entry', 'entries')} as of {page['as_of']}, {age} ago"
    if "cut_short" in page:
        yield f"cut short: {page['cut_short']}"
    for entry in page["entries"]:
        body = dumps(entry["body"], ensure_ascii=False)
        yield f"  {entry['time']}  {entry['producer']}  {entry['id']}  {body}"
    if page["next"] is not None:
        yield f"older ones: --before {page['next']}"


def _pair(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    who, arrow, whom = text.partition("<-")
    if not (who and arrow and whom):
        raise UsageError(f'"{text}" is not a pair', "--why 'anna<-bob': why anna gets bob's events the way she does")
    return who.strip(), whom.strip()


def _refuse_table_options(given: dict[str, bool]) -> None:
    """An option that would be ignored is refused: its answer would look like one to the whole question."""
    options = [option for option, is_given in given.items() if is_given]
    if options:
        raise UsageError(
            "a JSON instance has its own prices and targets, and its answer is printed",
            f"leave out {', '.join(options)}",
        )


def _show(as_json: bool, report: FeedsReport, out: Path | None) -> int:
    if as_json:
        from json import dumps

        document = {**report.answer, "why": report.why} if report.why else report.answer
        # On one line: an answer may list a million pairs.
        text = dumps(document, ensure_ascii=False, allow_nan=False)
    else:
        text = fit(_report_text(report, out))
    return Exit.DONE if write(text, sys.stdout) else Exit.BROKEN_PIPE


def _report_text(report: FeedsReport, out: Path | None) -> str:
    answer = report.answer
    share = f" ({100 * report.stored_ahead / report.pairs:.1f} %)" if report.pairs else ""
    lines = [
        f"{report.pairs:,} follows: {report.stored_ahead:,} stored ahead{share}, "
        f"{report.pairs - report.stored_ahead:,} on read",
        f"cost {_number(answer['cost'])}; all ahead {_number(answer['push_all_cost'])}, "
        f"all on read {_number(answer['pull_all_cost'])}",
        _proof(answer),
    ]
    push = answer.get("push")
    if isinstance(push, list):
        lines += [f"  store ahead  {first} <- {second}" for first, second in push[:MOST_LISTED]]
        lines += [f"  and {len(push) - MOST_LISTED:,} more: --json lists all"] if len(push) > MOST_LISTED else []
    lines += [f"written to {out}"] if out else []
    return "\n".join([*lines, *([report.why] if report.why else [])])


def _proof(answer: Mapping[str, object]) -> str:
    if answer["optimal"]:
        return "no assignment costs less"
    return f"no assignment costs less than {_number(answer['lower_bound'])}"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
