"""What a restarted project continues with: the last commit, and its last plan if a database does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.connect.sources import connector_of
from headrace.model.amounts import format_seconds
from headrace.model.errors import ConnectError
from headrace.model.notes import CapturedUpTo, read_notes
from headrace.model.plan import Plan
from headrace.run.compile.columns import serving_log
from headrace.site.folder import Folder
from headrace.site.running import make_running
from headrace.site.sources.databases import place_of


def say_recovered(folder: Folder, now: int) -> str:
    """What the ledger holds of a run that ended; `now` is in microseconds."""
    plan = folder.running()
    if plan is None:
        return "it had not loaded its views yet; the rows that it read from the sources are kept"
    ledger = folder.ledger()
    try:
        times, positions = ledger.times(), read_notes(ledger, CapturedUpTo)
    finally:
        ledger.close()
    program = make_running(plan).program
    logs = [serving_log(program, one) for one in plan.contracts]
    views = [times[log] for log in logs if log in times]
    kept = f"{len(views)} of {len(plan.contracts)} views are kept" + (f", {_ages(views, now)}" if views else "")
    read = [f"{name} since {_age(one.t, now)}" for name, one in sorted(positions.items())]
    return "; ".join([kept, *(["changes are read from " + ", ".join(read)] if read else [])])


def _ages(times: list[int], now: int) -> str:
    newest, oldest = _age(max(times), now), _age(min(times), now)
    return f"as of {newest}" if newest == oldest else f"as of {newest} to {oldest}"


def _age(t: int, now: int) -> str:
    return f"{format_seconds(round(max(0, now - t) / 1e6, 1))} ago"


def databases_away(plan: Plan, environment: Mapping[str, str]) -> dict[str, str]:
    """The databases of a plan that do not answer now, and why."""
    found = {}
    place = place_of(plan.catalogue.project, Path(plan.catalogue.directory), environment)
    for database in make_running(plan).databases:
        try:
            connector_of(database.kind).ask(database, place)
        except ConnectError as error:
            found[database.name] = error.message
    return found
