"""Where the sites of a project that run as processes of their own keep their state, below that of the project.

.headrace/sites.json               which sites run apart
.headrace/sites/SITE/              a folder as a project has one: everything of this site is in its .headrace/
.headrace/sites/SITE/.headrace/part.json     what the site is to run of the plan
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from headrace.model.errors import UnknownName, UsageError, WireError, nearest_name
from headrace.model.options import SitesMode
from headrace.site.folder import Folder

if TYPE_CHECKING:
    from headrace.model.plan import Plan

SITES_FILE, PART_FILE = "sites.json", "part.json"


@dataclass(frozen=True, slots=True)
class EarlierPart:
    """A site's part of an earlier plan that other `sites` still run: what they read is kept for them."""

    plan: Plan
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SitePart:
    """What a site is to run; a later part has a higher number. `forced` contracts are promised so many seconds."""

    number: int
    plan: Plan
    forced: Mapping[str, float]
    earlier: tuple[EarlierPart, ...] = ()


def site_folder(folder: Folder, site: str) -> Folder:
    return Folder(folder.root / "sites" / site)


def read_sites(folder: Folder) -> tuple[str, ...]:
    """The sites of a project that run apart; none if all run in one process."""
    found = folder.read_json(SITES_FILE)
    return tuple(found["sites"]) if isinstance(found, dict) and isinstance(found.get("sites"), list) else ()


def note_sites(folder: Folder, sites: tuple[str, ...], mode: SitesMode, feeds: Mapping[str, str] | None = None) -> None:
    """`feeds` are kept at these sites, by their names."""
    noted = {"sites": list(sites), "mode": mode.value, "feeds": dict(feeds or {})}
    folder.write_json(SITES_FILE, noted, is_durable=True)


def find_site_of_feed(folder: Folder, feed: str) -> Folder:
    """The folder of the site that keeps a feed: the project's own if all sites run in one process. Raises UsageError if
    it is on another machine, and UnknownName.
    """
    found = folder.read_json(SITES_FILE)
    if not isinstance(found, dict):
        return folder
    feeds = found.get("feeds", {})
    if feed not in feeds:
        hint = nearest_name(feed, feeds) or f"there are {', '.join(sorted(feeds)) or 'none'}"
        raise UnknownName(f'no feed "{feed}" runs', hint)
    if read_sites_mode(folder) is SitesMode.AGENTS:
        what = f'feed "{feed}" is kept at site "{feeds[feed]}", which joined from elsewhere'
        raise UsageError(what, "run the command in the folder of the site's agent, where it runs")
    return site_folder(folder, feeds[feed])


def read_sites_mode(folder: Folder) -> SitesMode:
    """Where the sites of a project run, or ran last."""
    found = folder.read_json(SITES_FILE)
    if not isinstance(found, dict):
        return SitesMode.INSIDE
    return SitesMode(found.get("mode", SitesMode.PROCESSES))


def find_part_version(folder: Folder) -> int | None:
    """Differs when the site was told another part; None if it was told none."""
    try:
        return (folder.root / PART_FILE).stat().st_mtime_ns
    except FileNotFoundError:
        return None


def write_part(folder: Folder, part: SitePart) -> None:
    """Tells a site, by its own folder, what to run."""
    from headrace.model.wire import write_wire

    folder.prepare()
    version = metadata.version("headrace")
    earlier = [{"plan": write_wire(one.plan, version), "sites": list(one.sites)} for one in part.earlier]
    found = {
        "number": part.number,
        "plan": write_wire(part.plan, version),
        "forced": dict(part.forced),
        "earlier": earlier,
    }
    folder.write_json(PART_FILE, found, indent=None, is_durable=True)


def read_part(folder: Folder) -> SitePart | None:
    """What a site was told to run last; None if nothing yet. Raises UnreadableState."""
    found = folder.read_json(PART_FILE)
    return None if found is None else read_part_document(folder, found)


def read_part_document(folder: Folder, found: Any) -> SitePart:
    """A part as it is kept in a folder, and sent to a site. Raises UnreadableState."""
    from headrace.model.plan import Plan
    from headrace.model.wire import read_wire

    try:
        earlier = tuple(
            EarlierPart(read_wire(one["plan"], Plan), tuple(one["sites"])) for one in found.get("earlier", ())
        )
        return SitePart(int(found["number"]), read_wire(found["plan"], Plan), found["forced"], earlier)
    except (WireError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise folder.unreadable(PART_FILE, str(error)) from error


def find_site_of(folder: Folder, name: str) -> Folder:
    """The first of the folders that hold the rows of a view."""
    return find_sites_of(folder, name)[0]


def find_sites_of(folder: Folder, name: str) -> tuple[Folder, ...]:
    """The folders that hold the rows of a view, by its name or that of a contract: the project's own if all sites run
    in one process, or nobody knows the name. Several contracts may keep a view at several sites.
    """
    from headrace.model.names import name_of_view

    plan = folder.running() if read_sites(folder) else None
    contracts = () if plan is None else plan.contracts
    sites = [entry.site for entry in contracts if name in (entry.contract, name_of_view(entry.view))]
    return tuple(site_folder(folder, site) for site in dict.fromkeys(sites)) or (folder,)


def refuse_state_of_processes(folder: Folder) -> None:
    """Raises UsageError for those who want to run all sites in one process."""
    if read_sites(folder):
        what = f'the sites of the project in "{folder.project}" have run as processes, and their rows are with them'
        hint = f'go on with `headrace up --sites processes`, or move "{folder.root}" away to load everything again'
        raise UsageError(what, hint)
