"""Which sites keep feeds, and who serves these, where each site is a process that the project starts."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.coordinate.site_statuses import read_site_status
from headrace.model.errors import UsageError
from headrace.model.plan import Plan
from headrace.site.feeds.servers import FeedServerSettings
from headrace.site.folder import Folder
from headrace.site.last_status import State
from headrace.site.site_folders import site_folder

BEGIN = "they start with its process: end process {}, which is started again within seconds"


def find_feeds(plan: Plan) -> dict[str, str]:
    """The sites that keep feeds, by feed."""
    return {one.feed: one.site for one in plan.feeds if one.reason is None or one.goes_on}


def refuse_shared_port(servers: FeedServerSettings | None, plan: Plan) -> None:
    """Raises UsageError if feed servers of several sites are asked for at one port."""
    keeping = sorted(set(find_feeds(plan).values()))
    if servers is not None and servers.port and len(keeping) > 1:
        what = f"feeds are kept at {', '.join(keeping)}, whose feed servers cannot share port {servers.port}"
        raise UsageError(what, "leave out --feed-port: `headrace status` says which ports they have")


def find_unserved(folder: Folder, plan: Plan) -> Mapping[str, tuple[str, str]]:
    """Sites that keep feeds and run without feed servers, since they kept none when their processes started: what to
    say about each, and what to do.
    """
    found = dict[str, tuple[str, str]]()
    for site in sorted(set(find_feeds(plan).values())):
        status = read_site_status(site_folder(folder, site))
        about = {} if status is None else status["service"]
        if about.get("state") == State.RUNNING and not about.get("feed_servers"):
            what = f'site "{site}" keeps feeds and has no feed servers, since it kept none when its process started'
            found[site] = f"{what}: that process serves them by itself", BEGIN.format(about["pid"])
    return found
