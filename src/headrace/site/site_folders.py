"""Where the sites of a project that run as processes of their own keep their state, below that of the project.

.headrace/sites.json               which sites run apart
.headrace/sites/SITE/              a folder as a project has one: everything of this site is in its .headrace/
.headrace/sites/SITE/.headrace/part.json     what the site is to run of the plan
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from headrace.model.errors import UsageError, WireError
from headrace.site.folder import Folder

if TYPE_CHECKING:
    from headrace.model.plan import Plan

SITES_FILE, PART_FILE = "sites.json", "part.json"


@dataclass(frozen=True, slots=True)
class SitePart:
    """What a site is to run; a later part has a higher number. `forced` contracts are promised so many seconds."""

    number: int
    plan: Plan
    forced: Mapping[str, float]


def site_folder(folder: Folder, site: str) -> Folder:
    return Folder(folder.root / "sites" / site)


def read_sites(folder: Folder) -> tuple[str, ...]:
    """The sites of a project that run apart; none if all run in one process."""
    found = folder.read_json(SITES_FILE)
    return tuple(found["sites"]) if isinstance(found, dict) and isinstance(found.get("sites"), list) else ()


def note_sites(folder: Folder, sites: tuple[str, ...]) -> None:
    folder.write_json(SITES_FILE, {"sites": list(sites)}, is_durable=True)


def write_part(folder: Folder, part: SitePart) -> None:
    """Tells a site, by its own folder, what to run."""
    from headrace.model.wire import write_wire

    folder.prepare()
    document = write_wire(part.plan, metadata.version("headrace"))
    found = {"number": part.number, "plan": document, "forced": dict(part.forced)}
    folder.write_json(PART_FILE, found, indent=None, is_durable=True)


def read_part(folder: Folder) -> SitePart | None:
    """What a site was told to run last; None if nothing yet. Raises UnreadableState."""
    from headrace.model.plan import Plan
    from headrace.model.wire import read_wire

    found = folder.read_json(PART_FILE)
    if found is None:
        return None
    try:
        return SitePart(int(found["number"]), read_wire(found["plan"], Plan), found["forced"])
    except (WireError, KeyError, TypeError, ValueError) as error:
        raise folder.unreadable(PART_FILE, str(error)) from error


def find_site_of(folder: Folder, name: str) -> Folder:
    """The folder that holds the rows of a view, by its name or that of a contract: the project's own if all sites run
    in one process, or nobody knows the name.
    """
    from headrace.model.names import name_of_view

    if not read_sites(folder):
        return folder
    plan = folder.running()
    for entry in () if plan is None else plan.contracts:
        if name in (entry.contract, name_of_view(entry.view)):
            return site_folder(folder, entry.site)
    return folder


def refuse_state_of_processes(folder: Folder) -> None:
    """Raises UsageError for those who want to run all sites in one process."""
    if read_sites(folder):
        what = f'the sites of the project in "{folder.project}" have run as processes, and their rows are with them'
        hint = f'go on with `headrace up --sites processes`, or move "{folder.root}" away to load everything again'
        raise UsageError(what, hint)
