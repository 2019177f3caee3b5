"""Places small views on devices or in the cloud: reads files, returns a placement and its cost.

Placing needs no project, so this module does not import the code that reads one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from headrace.connect.text_file import read_text
from headrace.model.errors import UsageError
from headrace.plan.exact_numbers import Exact, as_json
from headrace.plan.place.decide import prepare_decision
from headrace.plan.place.effort import Effort
from headrace.plan.place.instance import Device, PlacementDecision, PlacementOutcome, Single
from headrace.plan.place.read import read_instance
from headrace.plan.place.tables import WORDS, decide_table, in_units, uniform_rules, uniform_star

Progress = Callable[[str], None]


class PlacementEngine(StrEnum):
    NUMPY = "numpy"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class WhyPlaced:
    """One view's decision as numbers and in words."""

    document: Mapping[str, object]
    text: str


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """The answer to a JSON instance. `seconds` is the decision alone."""

    decision: PlacementDecision
    seconds: float
    why: WhyPlaced | None = None


@dataclass(frozen=True, slots=True)
class PlacedTable:
    """The answer to a table of pairs; `on_devices` counts the views that left the Cloud."""

    outcome: PlacementOutcome
    seconds: float
    devices: int
    pairs: int
    on_devices: int
    why: WhyPlaced | None = None


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A table of pairs, prices per unit of rate, and where to write the table with its places."""

    file: Path
    up: Exact
    down: Exact
    out: Path | None = None
    why: str | None = None
    per: str = ""


def outcome_document(outcome: PlacementOutcome, seconds: float) -> dict[str, object]:
    """The numbers of an answer, as `place --json` prints them."""
    return {
        "cost": as_json(outcome.cost),
        "all_cloud_cost": as_json(outcome.all_cloud_cost),
        "improvement": outcome.improvement,
        "lower_bound": as_json(outcome.lower_bound),
        "optimal": outcome.optimal,
        "method": outcome.method,
        "seconds": seconds,
    }


def is_table(file: Path) -> bool:
    """Whether a file holds a table of pairs rather than a JSON instance."""
    from headrace.connect.tables.files import Format, format_of

    return format_of(file) is not Format.JSON


def place_instance(file: Path, why: str | None = None, per: str = "") -> PlacedInstance:
    """`why` names a view to explain; `per` is the unit of time of the rates, for the words only."""
    instance = read_instance(read_text(file), str(file))
    decide = prepare_decision(instance)
    started = time.perf_counter()
    decision = decide(Effort())
    seconds = time.perf_counter() - started
    if why is None:
        return PlacedInstance(decision, seconds)
    from headrace.plan.place.why import why_document, why_operator, why_pair, why_text

    if instance.core is not None:
        raise UsageError("--why explains instances without a core")
    explain = why_pair if isinstance(instance, Single) else why_operator
    found = explain(instance, decision.placement, why)  # type: ignore[arg-type]  # each takes its own kind
    return PlacedInstance(decision, seconds, WhyPlaced(why_document(found), why_text(found, per)))


def place_table(request: TableRequest, progress: Progress = lambda _: None) -> PlacedTable:
    """Decides every pair of a table in this process."""
    from headrace.connect.tables.files import format_of
    from headrace.connect.tables.output import output_format, write_with_column
    from headrace.connect.tables.pairs import PairTable, read_pairs
    from headrace.plan.place.pairs import Pairs

    if request.out is not None:
        output_format(request.out)
    form = format_of(request.file)
    table: PairTable = read_pairs(request.file, form, progress)
    progress(f"deciding {len(table.a):,} views of {table.devices:,} devices")
    started = time.perf_counter()
    pairs = Pairs(table.a, table.b, table.rate_ab, table.rate_ba)
    star, price_scale = uniform_star(table.numbers, request.up, request.down)
    decided = decide_table(pairs, star, table.scale * price_scale)
    seconds = time.perf_counter() - started
    if request.out is not None:
        progress(f"writing {request.out}")
        write_with_column(request.file, form, request.out, "at", decided.where, WORDS)
    why = None
    if request.why is not None:
        from headrace.plan.place.why import why_document, why_pair, why_text
        from headrace.plan.place.why_table import neighbourhood, two_devices

        devices = two_devices(request.why, table.number)
        kind = Device(request.up, request.down)
        found = why_pair(*neighbourhood(pairs, decided.where, table.scale, kind, devices, table.name), request.why)
        why = WhyPlaced(why_document(found), why_text(found, request.per))
    return PlacedTable(decided, seconds, table.devices, len(pairs), int((decided.where != 0).sum()), why)


def place_table_on_spark(request: TableRequest, master: str, progress: Progress = lambda _: None) -> PlacedTable:
    """Places the views of a table on Spark: for tables that one machine does not hold."""
    from headrace.connect.spark.executors import needing_executors
    from headrace.connect.spark.place import place_on_spark
    from headrace.connect.spark.properties import SparkSettings
    from headrace.connect.spark.session import start_session
    from headrace.connect.tables.files import format_of
    from headrace.connect.tables.output import output_format

    if request.out is not None:
        output_format(request.out)
    form = format_of(request.file)
    rules, price_scale = uniform_rules(request.up, request.down)
    with tempfile.TemporaryDirectory(prefix="headrace-place-") as scratch:
        progress("starting Spark")
        session = start_session(
            SparkSettings(
                Path(scratch), name="headrace place", master=master, partitions=16, memory="2g", executor_memory="1g"
            )
        )
        try:
            progress("deciding")
            started = time.perf_counter()
            with needing_executors(session):
                placed = place_on_spark(session, request.file, form, rules, request.out, progress)
            seconds = time.perf_counter() - started
        finally:
            session.stop()
    scale = placed.scale * price_scale
    outcome = PlacementOutcome(
        cost=in_units(placed.cost, scale),
        all_cloud_cost=in_units(placed.all_cloud_cost, scale),
        lower_bound=in_units(placed.twice_bound, 2 * scale),
        method=placed.method,
    )
    return PlacedTable(outcome, seconds, placed.devices, placed.pairs, placed.on_devices)
