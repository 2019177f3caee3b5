"""Where rows of a site's own sources may be, as the site itself remembers it.

A site that joined from elsewhere learns it with the first part that names a source, and keeps it: a plan that says
otherwise later does not loosen it, although it may be stricter. Only somebody at the site can loosen it, by changing
the file and starting the agent again.

.headrace/stays.json   by source: null (anywhere), or {"sites": [...], "aggregates_anywhere": false}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from headrace.model.catalogue import Stays
from headrace.model.plan import Plan
from headrace.site.folder import Folder

STAYS_FILE = "stays.json"


def find_stays(plan: Plan) -> dict[str, Stays | None]:
    """What a part says about the sources of its own site."""
    return {name: one.stays for name, one in plan.catalogue.sources.items() if one.site == plan.site}


def remember_stays(folder: Folder, plan: Plan) -> Mapping[str, Stays | None]:
    """What holds for the sources of a site: what was noted before, and what a part says of sources that are new."""
    noted = _read_stays(folder)
    found = {**find_stays(plan), **noted}
    if found != noted:
        document = {name: None if stays is None else asdict(stays) for name, stays in sorted(found.items())}
        folder.write_json(STAYS_FILE, document, is_durable=True)
    return found


def _read_stays(folder: Folder) -> dict[str, Stays | None]:
    found = folder.read_json(STAYS_FILE)
    try:
        return {} if found is None else {name: _read_one(one) for name, one in found.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise folder.unreadable(STAYS_FILE, "it does not say where rows of sources may be") from error


def _read_one(found: Mapping[str, object] | None) -> Stays | None:
    if found is None:
        return None
    sites = found["sites"]
    if not isinstance(sites, list):
        raise TypeError("sites are a list")
    return Stays(tuple(map(str, sites)), bool(found.get("aggregates_anywhere", False)))
