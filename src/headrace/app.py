"""The stages wired together: read this first.

    load_project     project folder -> Catalogue           declare/, and connect/postgres when asked to connect
    check_project    project folder -> CheckReport         the catalogue, or all of its mistakes
    init_project     an empty folder -> a starter project
    plan_project     project folder -> Plan                plan/make.py; plan_document is its JSON form
    decide_feeds     a feeds instance -> which pairs to store ahead; decide_feed_tables for tables of any size

Doors (commands, HTTP, console) call these functions and show what they return. What reaches outside is imported where
it is used: checking a project needs neither a database driver nor Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from headrace.declare.api import Project
from headrace.declare.read import Inspect, read_project
from headrace.declare.variables import fill
from headrace.declare.write import Started, write_starter
from headrace.model.catalogue import Catalogue, PostgresTable, Refresh, Refusal, Source, View
from headrace.model.errors import InputError, Location, Problem, Severity, UsageError
from headrace.model.relation import Field, fields_of

if TYPE_CHECKING:
    from headrace.model.plan import Plan, PlanOptions
    from headrace.plan.feeds.instance import Latency
    from headrace.plan.feeds.tables import Prices

__all__ = [
    "CheckReport",
    "FeedTables",
    "FeedsQuestion",
    "FeedsReport",
    "LoadedProject",
    "Project",
    "Started",
    "ViewReport",
    "check_project",
    "decide_feed_tables",
    "decide_feeds",
    "init_project",
    "load",
    "load_project",
    "plan_document",
    "plan_project",
    "sample_project",
]


@dataclass(frozen=True, slots=True)
class LoadedProject:
    """A project folder as a value."""

    catalogue: Catalogue


@dataclass(frozen=True, slots=True)
class ViewReport:
    """What became of a view: its columns and fingerprint, or why it is not maintained."""

    name: str
    columns: tuple[Field, ...]
    fingerprint: str | None
    reads: tuple[str, ...]
    refused: Refusal | None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings about a project; `catalogue` is None when it has mistakes other than SQL that is not maintained."""

    catalogue: Catalogue | None
    views: tuple[ViewReport, ...]
    problems: tuple[Problem, ...]

    def of(self, severity: Severity) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is severity)


def load(directory: str | Path) -> LoadedProject:
    """Read a project folder. Raises InputError with all its mistakes."""
    import os

    return LoadedProject(load_project(Path(directory), os.environ))


def load_project(directory: Path, environment: Mapping[str, str], connect: bool = False) -> Catalogue:
    """The catalogue of a project. With `connect`, databases are asked for what is not declared: columns, statistics."""
    return read_project(directory, environment, _inspector(environment) if connect else None)


def check_project(directory: Path, environment: Mapping[str, str], connect: bool = False) -> CheckReport:
    """Without `connect`, views over tables whose columns only a database knows are passed over with a warning."""
    inspect = _inspector(environment) if connect else None
    try:
        catalogue = read_project(directory, environment, inspect, unknown_columns=Severity.WARNING)
    except InputError as error:
        return CheckReport(None, (), error.problems)
    refusals = (
        _refusal(catalogue, view, view.query) for view in catalogue.views.values() if isinstance(view.query, Refusal)
    )
    problems = tuple(dict.fromkeys((*refusals, *catalogue.problems)))
    return CheckReport(catalogue, tuple(_report(view) for view in catalogue.views.values()), problems)


def plan_project(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files. Databases are asked only when the files do not say what planning needs."""
    from headrace.plan.make import make_plan

    catalogue = read_project(directory, environment, None, unknown_columns=Severity.WARNING)
    if any(_needs_asking(source) for source in catalogue.sources.values()):
        catalogue = load_project(directory, environment, connect=True)
    return make_plan(catalogue, options)


def plan_document(plan: Plan) -> dict[str, object]:
    from headrace.plan.document import plan_document as document_of

    return document_of(plan)


def _needs_asking(source: Source) -> bool:
    return isinstance(source.origin, PostgresTable) and (source.columns is None or source.rows is None)


def init_project(directory: Path) -> Started:
    return write_starter(directory)


def sample_project() -> Path | None:
    """The folder of the sample project: beside the sources in a checkout, within the package when installed."""
    package = Path(__file__).parent
    places = (package.parents[1] / "examples" / "city", package / "examples" / "city")
    return next((place for place in places if (place / "headrace.yml").is_file()), None)


def _report(view: View) -> ViewReport:
    if isinstance(view.query, Refusal):
        return ViewReport(view.name, (), None, view.reads, view.query)
    from headrace.plan.fingerprint import fingerprint_of

    return ViewReport(view.name, fields_of(view.query), fingerprint_of(view.query), view.reads, None)


def _refusal(catalogue: Catalogue, view: View, refusal: Refusal) -> Problem:
    """A mistake, unless every contract that needs the view asks for it to be recomputed."""
    needed_by = [contract for contract in catalogue.contracts.values() if view.name in _reads(catalogue, contract.view)]
    if not needed_by or any(contract.refresh is not Refresh.FULL for contract in needed_by):
        return refusal.problem
    message = f'view "{view.name}" is recomputed at every push, as its contracts ask: {refusal.operator}'
    return Problem(message, refusal.problem.where, None, Severity.NOTE)


def _reads(catalogue: Catalogue, view: str) -> frozenset[str]:
    """A view and everything it reads, through views."""
    found = {view}
    if view in catalogue.views:
        for read in catalogue.views[view].reads:
            found |= _reads(catalogue, read)
    return frozenset(found)


def _inspector(environment: Mapping[str, str]) -> Inspect:
    """Asks PostgreSQL about the sources it holds. Addresses are filled in here, and forgotten afterwards."""
    from headrace.connect.postgres.inspect import inspect_sources

    def inspect(sources: Mapping[str, Source]) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        addresses: dict[str, str] = {}
        unset: list[Problem] = []
        for source in sources.values():
            if isinstance(source.origin, PostgresTable):
                try:
                    addresses[source.origin.dsn] = fill(source.origin.dsn, environment, source.declared_at)
                except InputError as error:
                    unset += error.problems
        found, findings = inspect_sources(sources, addresses)
        return found, (*unset, *findings)

    return inspect


# Feeds


@dataclass(frozen=True, slots=True)
class FeedTables:
    """What goes with a table of follows, in place of a JSON instance; amounts as they were typed."""

    producers: Path
    consumers: Path
    store_price: str
    fetch_price: str
    batch_price: str = "0"
    model: str = "batch"
    shown: int = 10
    mean_pulls: str | None = None
    percentile: str | None = None
    most_pulls: int = 0
    out: Path | None = None
    engine: str = "numpy"


@dataclass(frozen=True, slots=True)
class FeedsQuestion:
    """How targets are met, and about which pair (who, whom) to say why, with rates per `unit`."""

    method: str = "exact"
    why: tuple[str, str] | None = None
    unit: str = "h"


@dataclass(frozen=True, slots=True)
class FeedsReport:
    """`answer` is the answer document; `why` is about the pair that was asked for."""

    answer: Mapping[str, object]
    pairs: int
    stored_ahead: int
    why: str | None = None


def decide_feeds(file: Path, question: FeedsQuestion) -> FeedsReport:
    """Decide a JSON instance."""
    from headrace.plan.feeds.decide import decide_instance
    from headrace.plan.feeds.document import answer, read_instance
    from headrace.plan.feeds.explain import why
    from headrace.plan.feeds.latency import Method

    named = read_instance(_read_text(file), str(file))
    started = perf_counter()
    decision = decide_instance(named, Method(question.method))
    document = answer(named, decision, perf_counter() - started)
    said = str(why(named, decision.ahead, *question.why, question.unit)) if question.why else None
    return FeedsReport(document, len(decision.ahead), int(decision.ahead.sum()), said)


def decide_feed_tables(
    follows: Path, tables: FeedTables, question: FeedsQuestion, progress: Callable[[str], None]
) -> FeedsReport:
    """Decide every row of a table of follows, and write it with a column `decision`."""
    from headrace.connect.tables.output import output_format
    from headrace.plan.feeds.typed import typed_prices, typed_target

    prices = typed_prices(tables.store_price, tables.fetch_price, tables.batch_price, tables.model, tables.shown)
    target = typed_target(tables.mean_pulls, tables.percentile, tables.most_pulls, prices.pricing.model)
    if tables.out is not None:
        output_format(tables.out)
    if tables.engine == "numpy":
        return _decide_feeds_here(follows, tables, prices, target, question, progress)
    if target is not None or question != FeedsQuestion():
        raise UsageError("targets, methods and --why need all pairs in one place", hint="--engine numpy")
    return _decide_feeds_on_spark(follows, tables, prices, progress)


def _decide_feeds_here(
    follows: Path,
    tables: FeedTables,
    prices: Prices,
    target: Latency | None,
    question: FeedsQuestion,
    progress: Callable[[str], None],
) -> FeedsReport:
    from headrace.connect.tables.files import format_of
    from headrace.connect.tables.follows import read_follows
    from headrace.connect.tables.output import write_with_column
    from headrace.plan.feeds.decide import decide
    from headrace.plan.feeds.explain import required_pair, why_pair
    from headrace.plan.feeds.latency import Method
    from headrace.plan.feeds.tables import TableSize, feeds_from_columns, table_answer

    table = read_follows(follows, tables.producers, tables.consumers, progress)
    feeds = feeds_from_columns(table.consumer, table.producer, table.query_rate, table.event_rate, prices, table.prices)
    pair = required_pair(table.find(*question.why), *question.why) if question.why else None
    progress("deciding")
    started = perf_counter()
    decision = decide(feeds, target, Method(question.method))
    seconds = perf_counter() - started
    if tables.out is not None:
        progress(f"writing {tables.out}")
        codes = decision.ahead.view("uint8")
        write_with_column(follows, format_of(follows), tables.out, "decision", codes, ("pull", "push"))
    size = TableSize(len(feeds), int(decision.ahead.sum()), len(table.query_rate), len(table.event_rate))
    said = str(why_pair(feeds, decision.ahead, pair, question.unit)) if pair is not None else None
    return FeedsReport(table_answer(decision, size, seconds), size.pairs, size.stored_ahead, said)


def _decide_feeds_on_spark(
    follows: Path, tables: FeedTables, prices: Prices, progress: Callable[[str], None]
) -> FeedsReport:
    from functools import partial
    from tempfile import TemporaryDirectory

    from headrace.connect.spark.feeds import FollowFiles, decide_follows
    from headrace.connect.spark.session import SparkSettings, start_session
    from headrace.plan.feeds.tables import TableSize, decide_rows, table_answer, table_decision

    with TemporaryDirectory() as scratch:
        progress("starting Spark")
        session = start_session(SparkSettings(Path(scratch), name="headrace feeds", memory="4g", partitions=8))
        files = FollowFiles(follows, tables.producers, tables.consumers)
        progress("deciding")
        started = perf_counter()
        rules = partial(decide_rows, prices=prices)
        found = decide_follows(session, files, rules, not prices.pricing.is_per_pair, tables.out)
        seconds = perf_counter() - started
        session.stop()
    size = TableSize(found.pairs, found.stored_ahead, found.consumers, found.producers)
    return FeedsReport(table_answer(table_decision(*found.costs), size, seconds), size.pairs, size.stored_ahead)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f'no file "{file}"', hint="the path is relative to where you are") from error
    except OSError as error:
        raise UsageError(f'"{file}" cannot be read: {(error.strerror or "").lower()}') from error
    except UnicodeDecodeError as error:
        raise InputError([Problem("this is not text in UTF-8", Location(str(file)))]) from error
