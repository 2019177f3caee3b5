"""One status of a project whose sites run as processes of their own, made of theirs."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.coordinate.link_beliefs import LinkBeliefs, read_beliefs
from headrace.model.errors import UnreadableState
from headrace.site.folder import Folder
from headrace.site.last_status import FILE as STATUS_FILE
from headrace.site.last_status import State, current_status
from headrace.site.process import running_process
from headrace.site.site_folders import read_sites, site_folder

log = logging.getLogger("headrace.service")

Status = Mapping[str, Any]

TOGETHER = ("contracts", "troubles", "slots", "feeds", "templates", "moves")
FILES = ("count", "bytes", "without_checksums")
COUNTED = ("pushes", "pushed_rows", "push_seconds", "upkeep_seconds")


def find_sites_status(
    folder: Folder, about: Mapping[str, Any], moves: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """What all sites say now, and what is known of the process that coordinates them, with the moves that it made. What
    is wrong in its eyes is in `about`, and is told among the troubles of all.
    """
    told = {site: _read_status(folder, site) for site in read_sites(folder)}
    waiting = [site for site, status in told.items() if status is None or status["service"]["state"] == State.LOADING]
    phase = f"waiting for {', '.join(waiting)}" if waiting else "running"
    usual = {"phase": phase, "error": None, "written": time.time(), "age_s": 0.0}
    found = {**merge_statuses(told, {**usual, **about}), "moves": list(moves)}
    found["troubles"] += about.get("troubles", ())
    return tell_beliefs(found, read_beliefs(folder)[0])


def tell_beliefs(status: dict[str, Any], beliefs: LinkBeliefs) -> dict[str, Any]:
    """A status with what each link is planned to carry: bytes/s, as they are sent."""
    for link in status["links"]:
        belief = beliefs.get((link["from"], link["to"]))
        link["believed_bytes_s"] = link["declared_bytes_s"] if belief is None else belief.bytes_s
    return status


def read_site_status(here: Folder) -> dict[str, Any] | None:
    """What a site says in its folder. None if it has said nothing yet, or nothing that can be read: a site that runs
    says it anew within a second, and one whose file holds something else must not keep anybody from seeing the others.
    """
    try:
        found = current_status(here)
    except UnreadableState as error:
        log.debug("a site has said nothing that can be read: %s", error)
        return None
    except (KeyError, TypeError, AttributeError) as error:
        log.debug('what "%s" holds is not the status of a site: %r', here.root / STATUS_FILE, error)
        return None
    return found if is_site_status(found) else None


def is_site_status(found: Any) -> bool:
    """Whether something that was read is what a site says of itself, as far as all sites are put together from it."""
    if not isinstance(found, dict) or not isinstance(found.get("service"), dict):
        return False
    lists = [found.get(name) for name in (*TOGETHER, "links")]
    if not all(isinstance(one, list) and all(isinstance(item, dict) for item in one) for one in lists):
        return False
    try:
        merge_statuses({"": found}, {})
    except (KeyError, TypeError, AttributeError, ValueError):
        return False
    counts = all(isinstance(found["service"][name], int | float) for name in COUNTED)
    return counts and all({"id", "state", "lag_s"} <= one.keys() for one in found["contracts"])


def _read_status(folder: Folder, site: str) -> dict[str, Any] | None:
    here = site_folder(folder, site)
    found = read_site_status(here)
    process = running_process(here)
    if found is not None and process is not None:
        found["service"]["address"] = process.address
    return found


def merge_statuses(sites: Mapping[str, Status | None], about: Status) -> dict[str, Any]:
    """`sites` have what each site says of itself; None of one that has said nothing yet. `about` is the process that
    coordinates them.
    """
    told = {site: status for site, status in sites.items() if status is not None}
    found: dict[str, Any] = {name: [one for status in told.values() for one in status[name]] for name in TOGETHER}
    found["links"] = _merge_links(told)
    found["files"] = _add_files(told)
    found["checks"] = _add_checks(told)
    found["sites"] = [_tell_site(site, sites[site]) for site in sites]
    counts = {name: sum(status["service"][name] for status in told.values()) for name in COUNTED}
    # One of an earlier version may say nothing of them.
    servers = [one for status in told.values() for one in status["service"].get("feed_servers", ())]
    found["service"] = {"engine": _find_engine(told), "feed_servers": servers, "devices": None, **counts, **about}
    return found


def _merge_links(told: Mapping[str, Status]) -> list[dict[str, Any]]:
    """Each link once: where it ends it is known how fast it is, and where it begins what waits for it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for site, status in told.items():
        for link in status["links"]:
            ends = link["from"], link["to"]
            here, other = (link, found.get(ends)) if link["to"] == site else (found.get(ends), link)
            waiting = max(one["waiting_bytes"] for one in (here, other) if one is not None)
            found[ends] = {**(other or {}), **(here or {}), "waiting_bytes": waiting}
    return [found[ends] for ends in sorted(found)]


def _add_files(told: Mapping[str, Status]) -> dict[str, Any]:
    files = [status["files"] for status in told.values()]
    added = {name: sum(one[name] for one in files) for name in FILES}
    return {**added, "checked_within_s": max((one["checked_within_s"] for one in files), default=0.0)}


def _add_checks(told: Mapping[str, Status]) -> dict[str, Any]:
    """Each site checks its own sources and views, within a budget of its own."""
    checks = [one for status in told.values() if isinstance(one := status.get("checks"), dict) and one]
    if not checks:
        return {}
    subjects = [subject for one in checks for subject in one["subjects"]]
    spent = {name: sum(one[name] for one in checks) for name in ("seconds", "bytes")}
    return {**checks[0], **spent, "subjects": subjects, "pass_s": max(one["pass_s"] for one in checks)}


def _find_engine(told: Mapping[str, Status]) -> dict[str, Any]:
    """That of a site where it is away, if there is one."""
    engines = [dict(status["service"]["engine"]) for status in told.values()]
    return next((one for one in engines if one["state"] != "running"), {"state": "running"})


def _tell_site(site: str, status: Status | None) -> dict[str, Any]:
    if status is None:
        return {"id": site, "pid": None, "address": None, "state": "starting", "engine": None}
    about = status["service"]
    address = about.get("address")
    return {
        "id": site,
        "pid": about["pid"],
        "address": address,
        "state": about["state"],
        "engine": about["engine"]["state"],
    }
