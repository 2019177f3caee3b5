"""Lets sites join a project from elsewhere: invites them, lists them, and forgets those that are gone for good."""

from __future__ import annotations

import datetime
import secrets
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headrace.connect.service_client import ask
from headrace.connect.wire.addresses import EVERYWHERE
from headrace.connect.wire.client import WireAddress
from headrace.coordinate.joined_files import read_invitations, read_joined, read_wire_address, write_invitations
from headrace.model.errors import UnknownName, UsageError, nearest_name
from headrace.model.joining import FINGERPRINT_DIGITS, JoinToken, add_invitation
from headrace.model.options import SitesMode
from headrace.site.folder import Folder
from headrace.site.process import running_process
from headrace.site.site_folders import read_sites, read_sites_mode

FORGOTTEN_WITHIN_S = 3600.0
TOLD_WITHIN_S, LOOK_EVERY_S = 10.0, 0.05
"""How long a coordinator that starts may take until its sites are known."""
START = "start it with `headrace up --sites agents`"


@dataclass(frozen=True, slots=True)
class Invited:
    """What a site joins with; `until` is in seconds since 1970."""

    site: str
    url: str
    token: str
    until: float

    @property
    def command(self) -> str:
        """What to type into a shell there."""
        return shlex.join(("headrace", "agent", "--site", self.site, "--join", self.url, "--token", self.token))


def invite_site(directory: Path, site: str) -> Invited:
    """A token for one site and one use. The coordinator has to have run once, since the site has to find it."""
    import platform

    from headrace.connect.wire.identity import fingerprint
    from headrace.connect.wire.identity_files import open_authority

    folder = Folder(directory.absolute())
    _wait_until_told(folder)
    where = _need_agents(folder)
    plan = folder.running()
    if plan is None:
        raise UsageError(f'the project in "{folder.project}" has no plan yet', "`headrace status` shows the progress")
    known = (*plan.catalogue.sites, *read_joined(folder).forgotten)
    if site not in known:
        hint = nearest_name(site, known) or f"there are {', '.join(known)}"
        raise UnknownName(f'the project has no site "{site}"', hint)
    authority = open_authority(folder.root, plan.catalogue.project, datetime.datetime.now(datetime.UTC))
    token = JoinToken(secrets.token_urlsafe(18), fingerprint(authority.certificate)[:FINGERPRINT_DIGITS])
    invited = add_invitation(read_invitations(folder), site, token, time.time())
    write_invitations(folder, invited)
    host = platform.node() if where.host in EVERYWHERE else where.host
    return Invited(site, f"https://{WireAddress(host, where.port).shown}", token.shown, invited[-1].until)


def list_sites(directory: Path) -> list[dict[str, Any]]:
    """The sites of a project that run apart, as `status` has them; with who has joined."""
    from headrace.app.reading import project_status

    folder = Folder(directory.absolute())
    joined = read_joined(folder).agents
    sites = project_status(directory)["sites"] if read_sites(folder) else []
    return [{**one, "version": joined[one["id"]].version if one["id"] in joined else None} for one in sites]


def forget_site(directory: Path, site: str) -> dict[str, Any]:
    """What changed, as a document. Raises UsageError while the site answers."""
    folder = Folder(directory.absolute())
    _need_agents(folder)
    process = running_process(folder)
    if process is None:
        raise UsageError(f'the project in "{directory}" does not run', START)
    path = f"/sites/{quote(site, safe='')}/forget"
    found: dict[str, Any] = ask(process.port, process.token, "POST", path, {}, within_s=FORGOTTEN_WITHIN_S)
    return found


def _wait_until_told(folder: Folder) -> None:
    """A coordinator that has just started answers before it has written down its plan, which may have other sites than
    the one before.
    """
    until = time.monotonic() + TOLD_WITHIN_S
    while time.monotonic() < until:
        process, written = running_process(folder), folder.running_version
        if process is None or (written is not None and written >= process.started * 1e9):
            return
        time.sleep(LOOK_EVERY_S)


def _need_agents(folder: Folder) -> WireAddress:
    """Where the coordinator listens for sites."""
    found = read_wire_address(folder)
    if found is None or read_sites_mode(folder) is not SitesMode.AGENTS:
        raise UsageError(f'the project in "{folder.project}" has no sites that join from elsewhere', START)
    return WireAddress(*found)
