"""Reads what the service of a project has written, whether it still runs or not.

project_status   lags, violations, costs          .headrace/status.json, written every second
show, changes    rows of a view and its changes   the ledger and files of logs
audit            what became of promises          the ledger
compare_views    views against their queries      snapshots of the databases; only while the service runs
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.model.errors import ConnectError, UnknownName, UsageError, nearest_name
from headrace.model.options import SitesMode
from headrace.site.folder import Folder
from headrace.site.last_status import State, current_status, last_status
from headrace.site.site_folders import find_site_of, find_sites_of, read_sites, read_sites_mode, site_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.coordinate.compare.compared import ComparedView, ComparedViews
    from headrace.run.rows.json_rows import JsonChange, JsonRow
    from headrace.site.asked import RowsAsked
    from headrace.site.reading import Seen, ViewReader

__all__ = [
    "ComparedView",
    "ComparedViews",
    "RowsAsked",
    "Seen",
    "ViewChange",
    "ask_for",
    "audit",
    "changes",
    "changes_as_json",
    "compare_views",
    "export",
    "feed_statuses",
    "first",
    "iterate_changes",
    "known_status",
    "moment_text",
    "never_ran",
    "project_status",
    "read",
    "read_moment",
    "read_time",
    "rows_as_json",
    "show",
]

FOLLOW_EVERY_S = 0.5
BEGINNING = "beginning"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LAST_MOMENT = (datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC) - EPOCH) // datetime.timedelta(microseconds=1)
MOMENT_FORMS = "write 10s or 5 min (ago), beginning, 2024-02-29T12:30:15Z, or microseconds since 1970"
LONGEST_SHOWN = 40
"""Characters of a text that an error repeats."""


def project_status(directory: Path) -> dict[str, Any]:
    """The status as the service wrote it within the last second, or before it ended.

    A service that runs and has not written it is asked: its disk may be full.
    """
    folder = Folder(directory)
    found = current_status(folder)
    if found is None:
        raise never_ran(directory)
    apart = read_sites_mode(folder) is SitesMode.PROCESSES
    if apart and found["service"]["state"] != State.STOPPED:
        from headrace.coordinate.site_statuses import find_sites_status  # sites go on if nobody coordinates them

        known = ("state", "pid", "error", "age_s", "troubles")
        about = {name: found["service"][name] for name in known if name in found["service"]}
        return find_sites_status(folder, about, found["moves"])
    return found


def feed_statuses(directory: Path, feed: str | None = None) -> list[dict[str, Any]]:
    """The feeds of the status, or one of them."""
    found: list[dict[str, Any]] = project_status(directory).get("feeds", [])
    chosen = [one for one in found if feed in (None, one["id"])]
    if feed is not None and not chosen:
        names = [one["id"] for one in found]
        raise UnknownName(
            f'no feed "{feed}" is kept', nearest_name(feed, names) or f"there are {', '.join(names) or 'none'}"
        )
    return chosen


def never_ran(directory: Path) -> UsageError:
    if not (directory / "headrace.yml").is_file():
        return UsageError(f'no project in "{directory}": it has no headrace.yml', "name the folder of a project")
    return UsageError(f'the project in "{directory}" has not run yet', "start it with `headrace up`")


def known_status(directory: Path) -> dict[str, Any]:
    """The last status; a project that never ran has no contracts."""
    return last_status(Folder(directory)) or {"contracts": []}


def read(view: str, directory: str | Path = ".", *, limit: int | None = None, at: int | str | None = None) -> pa.Table:
    """The rows of a view as an Arrow table, of a project that runs or ran: as they are now, or were `at` a time.

    A contract's name will do. The time is microseconds since 1970, or text that `headrace show --at` takes. Raises
    UsageError if there is no such view, it has no rows yet, or its rows at that time are not kept.
    """
    return show(Path(directory), view, limit, at=read_time(at) if isinstance(at, str) else at).rows


def show(
    directory: Path, view: str, limit: int | None = None, asked: RowsAsked | None = None, at: int | None = None
) -> Seen:
    """The rows of a view as they are now, or were at a time; in the order of its ORDER BY, unless another is asked
    for.
    """
    if at is not None and (there := find_sites_of(Folder(directory), view))[1:]:
        return _show_first(there, view, limit, asked, at)
    with _reader(directory, view) as reader:
        return reader.rows(view, limit, asked, at)


def _show_first(there: tuple[Folder, ...], view: str, limit: int | None, asked: RowsAsked | None, at: int) -> Seen:
    """Rows as they were at a time, of the first site that knows them: one may not have got that far, or not keep so
    much. Raises what the first one says if no site does.
    """
    refused: UsageError | None = None
    for folder in there:
        try:
            with _reading(folder) as reader:
                return reader.rows(view, limit, asked, at)
        except UsageError as error:
            refused = refused or error
    assert refused is not None, "there is a site"
    raise refused


def ask_for(where: str | None, order: str | None) -> RowsAsked:
    """A condition and an order, in SQL over the columns of a view."""
    from headrace.site.asked import RowsAsked

    return RowsAsked(where, order)


def first(seen: Seen, limit: int) -> Seen:
    return replace(seen, rows=seen.rows.slice(0, limit))


def export(
    directory: Path, view: str, file: Path, limit: int | None = None, asked: RowsAsked | None = None
) -> tuple[Seen, int]:
    """Writes the rows of a view to a Parquet or CSV file, whole or not at all; how many, and how recent they are.

    A part at a time, unless they are sorted: sorted rows have to be in memory.
    """
    from headrace.connect.tables.output import output_format, write_tables

    output_format(file)  # a wrong name is told before anything is read
    with _reader(directory, view) as reader:
        seen, parts = reader.rows_in_parts(view, limit, asked)
        return seen, write_tables(parts, seen.rows.schema, file)


@dataclass(frozen=True, slots=True)
class ViewChange:
    """All that changed in a view at one moment: rows that went, and rows that came, with the view's columns.

    `position` is where to go on after it: a time of Headrace's own clock, in microseconds since 1970.
    """

    position: int
    deleted: pa.Table
    inserted: pa.Table


def iterate_changes(
    view: str, directory: str | Path = ".", *, after: int | None = None, follow: bool = False
) -> Iterator[ViewChange]:
    """The changes of a view, oldest first: all that are kept, or those after the `position` of an earlier change.

    With `follow` it goes on with what comes, until you stop asking. Raises UsageError if changes after that position
    are not kept any more: read the view anew then.
    """
    for position, deleted, inserted in _follow_changes(
        Path(directory), view, after, threading.Event() if follow else None
    ):
        yield ViewChange(position, deleted, inserted)


def changes(directory: Path, view: str, after: int | None, follow: threading.Event | None) -> Iterator[JsonChange]:
    """Changes after a time (microseconds) as JSON values; while `follow` is not set, those to come as well."""
    from headrace.run.rows.json_rows import json_changes

    return json_changes(_follow_changes(directory, view, after, follow))


def _follow_changes(
    directory: Path, view: str, after: int | None, follow: threading.Event | None
) -> Iterator[tuple[int, pa.Table, pa.Table]]:
    """Time, rows that went and rows that came; also when the view has moved meanwhile."""
    while True:
        folder = find_site_of(Folder(directory), view)
        version = folder.running_version
        with _reader(directory, view) as reader:
            while version == folder.running_version:
                try:
                    after, found = reader.changes(view, after)
                except UsageError:
                    if version == folder.running_version:
                        raise
                    break
                yield from found
                if follow is None or follow.wait(FOLLOW_EVERY_S):
                    return


@contextmanager
def _reader(directory: Path, view: str | None = None) -> Iterator[ViewReader]:
    """Reads the project, or the site that has a view, if sites run apart."""
    folder = Folder(directory) if view is None else find_site_of(Folder(directory), view)
    if not folder.exists and read_sites_mode(Folder(directory)) is SitesMode.AGENTS:
        what = "its rows are at the sites that joined from elsewhere"
        raise UsageError(what, "run the command in the folder of the site's agent, where it runs")
    if not folder.exists:
        raise never_ran(directory)
    with _reading(folder) as reader:
        yield reader


@contextmanager
def _reading(folder: Folder) -> Iterator[ViewReader]:
    from headrace.site.reading import open_reader

    reader = open_reader(folder)
    try:
        yield reader
    finally:
        reader.ledger.close()


def changes_as_json(reader: ViewReader, view: str, after: int | None) -> tuple[int, Iterator[JsonChange]]:
    from headrace.run.rows.json_rows import json_changes

    upto, found = reader.changes(view, after)
    return upto, json_changes(found)


def rows_as_json(rows: pa.Table) -> Iterator[JsonRow]:
    from headrace.run.rows.json_rows import json_rows

    return json_rows(rows)


def moment_text(t: int) -> str:
    """ISO 8601 in UTC, of microseconds."""
    from headrace.site.reading import moment_text as text

    return text(t)


def read_moment(text: str | None) -> int | None:
    """Microseconds since 1970; None is the beginning of what is kept.

    The text is microseconds, ISO 8601 (UTC unless it names a zone), how long ago (`10s`), or `beginning`.
    """
    if text is None or text.strip() == BEGINNING:
        return None
    if text.isdecimal():
        return _check_moment(int(text), text)
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return _read_age(text)
    utc = found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
    return _check_moment((utc - EPOCH) // datetime.timedelta(microseconds=1), text)


def read_time(text: str | None) -> int | None:
    """The time at which rows are asked for; None is now. What is kept begins at another time for each view, so rows of
    its beginning are nothing that views have in common.
    """
    if text is not None and text.strip() == BEGINNING:
        raise UsageError(
            f'"{BEGINNING}" is not a time at which views can be shown', MOMENT_FORMS.replace(" beginning,", "")
        )
    return read_moment(text)


def _check_moment(t: int, text: str) -> int:
    """Raises UsageError for times that no clock of ours can show."""
    if not 0 <= t <= LAST_MOMENT:
        raise UsageError(f'"{text[:LONGEST_SHOWN]}" is not a time between the years 1970 and 9999', MOMENT_FORMS)
    return t


def _read_age(text: str) -> int:
    from headrace.site.asked import read_age_s
    from headrace.site.service import clock_now

    age_s = read_age_s(text)
    if age_s is None:
        raise UsageError(f'"{text[:LONGEST_SHOWN]}" is not a time', MOMENT_FORMS)
    return _check_moment(clock_now() - round(min(age_s * 1e6, LAST_MOMENT)), text)


def audit(directory: Path, partly: bool = False) -> dict[str, Any]:
    """What became of every promise so far. Raises ConnectError if a site that joined from elsewhere does not answer,
    unless those of others will do (`partly`).
    """
    folder = Folder(directory)
    if not folder.exists:
        raise never_ran(directory)
    from headrace.coordinate.audit_document import audit_document, look_of

    sites = read_sites(folder)
    if read_sites_mode(folder) is SitesMode.AGENTS:
        return _audit_joined(folder, partly)
    if not sites:
        return audit_document(look_of(folder))
    there = [here for site in sites if (here := site_folder(folder, site)).exists]
    audits = [audit_document(look_of(here)) for here in there]
    return {"contracts": [one for found in audits for one in found["contracts"]], "recompute": []}


def _audit_joined(folder: Folder, partly: bool) -> dict[str, Any]:
    from headrace.coordinate.asking_sites import audit_sites

    found = audit_sites(folder)
    if not partly:
        for why in found.silent.values():
            raise ConnectError(why, "`headrace status` says since when; what others have done is asked where they run")
    return {"contracts": [one for said in found.answers.values() for one in said["contracts"]], "recompute": []}


def compare_views(
    directory: Path, environment: Mapping[str, str], say: Callable[[str], None] = lambda _: None
) -> ComparedViews:
    """Every view against its query, evaluated from scratch on what the sources hold at the same time."""
    from headrace.coordinate.compare.committing import ask_for_views, tell_compared
    from headrace.coordinate.compare.compare import compare_views as compare
    from headrace.coordinate.compare.moment import ComparisonWatch
    from headrace.site.process import running_process

    folder = Folder(directory)
    if read_sites_mode(folder) is SitesMode.AGENTS:
        return _compare_joined(folder, say)
    if read_sites(folder):
        return _compare_sites(folder, environment, say)
    if running_process(folder) is None:
        raise UsageError(f'the project in "{directory}" does not run', "start it with `headrace up`")
    with _reader(directory) as reader:
        watch = ComparisonWatch(
            say, lambda contract: find_trouble(folder, contract), lambda: running_process(folder) is None
        )
        found = compare(reader, folder, environment, ask_for_views(reader.ledger), watch)
        tell_compared(reader.ledger, found)
        return found


def _compare_joined(folder: Folder, say: Callable[[str], None]) -> ComparedViews:
    """Has the sites that joined from elsewhere compare their views, at one time."""
    from contextlib import closing

    from headrace.coordinate.compare.committing import tell_compared
    from headrace.coordinate.compare.sites_elsewhere import compare_joined

    found = compare_joined(folder, say)
    with closing(folder.ledger()) as ledger:
        tell_compared(ledger, found)
    return found


def _compare_sites(folder: Folder, environment: Mapping[str, str], say: Callable[[str], None]) -> ComparedViews:
    """Compares the views of all sites that run as processes of their own, at one time."""
    from contextlib import closing

    from headrace.coordinate.compare.committing import tell_compared
    from headrace.coordinate.compare.compare import compare_views as compare
    from headrace.coordinate.compare.joined import open_joined
    from headrace.coordinate.compare.moment import ComparisonWatch
    from headrace.site.process import running_process

    def is_gone() -> bool:
        return all(running_process(site_folder(folder, site)) is None for site in read_sites(folder))

    if is_gone():
        what = f'the sites of the project in "{folder.project}" do not run'
        raise UsageError(what, "start them with `headrace up --sites processes`")
    with open_joined(folder) as (reader, push):
        watch = ComparisonWatch(say, lambda contract: find_trouble(folder, contract), is_gone)
        found = compare(reader, folder, environment, push, watch)
    with closing(folder.ledger()) as ledger:
        tell_compared(ledger, found)
    return found


def find_trouble(folder: Folder, contract: str) -> str | None:
    """Why a view makes no progress, as `status` says it; None if it does, or may be about to."""
    status = last_status(folder) or {"contracts": []}
    for one in status["contracts"]:
        if one["id"] == contract and one["state"] in ("failing", "stopped", "unresponsive"):
            return f"it is {one['state']}: {one.get('reason', 'the cause is unknown')}"
    return None
