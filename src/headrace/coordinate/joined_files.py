"""Keeps who was invited and who has joined, where the project is coordinated.

.headrace/invitations.json    written by `headrace sites invite`
.headrace/joined_sites.json   written by the process that coordinates
.headrace/wire.json           where that process listens for sites: the same after every start
"""

from __future__ import annotations

from dataclasses import asdict

from headrace.model.joining import Invitation, JoinedAgent, JoinedAgents
from headrace.site.folder import Folder

INVITATIONS_FILE, JOINED_FILE, WIRE_FILE = "invitations.json", "joined_sites.json", "wire.json"


def read_invitations(folder: Folder) -> tuple[Invitation, ...]:
    found = folder.read_json(INVITATIONS_FILE)
    try:
        return tuple(Invitation(**one) for one in found or ())
    except TypeError as error:
        raise folder.unreadable(INVITATIONS_FILE, "it does not hold invitations") from error


def write_invitations(folder: Folder, invited: tuple[Invitation, ...]) -> None:
    folder.write_json(INVITATIONS_FILE, [asdict(one) for one in invited], is_durable=True)


def read_joined(folder: Folder) -> JoinedAgents:
    found = folder.read_json(JOINED_FILE)
    if found is None:
        return JoinedAgents()
    try:
        agents = {site: JoinedAgent(**one) for site, one in found["agents"].items()}
        return JoinedAgents(agents, found["denied"], tuple(found["used"]), tuple(found["forgotten"]))
    except (TypeError, KeyError, AttributeError) as error:
        raise folder.unreadable(JOINED_FILE, "it does not say who has joined") from error


def write_joined(folder: Folder, joined: JoinedAgents) -> None:
    """Durable: an invitation that was used, or an instance that is denied, stays so."""
    folder.write_json(JOINED_FILE, asdict(joined), is_durable=True)


def read_wire_address(folder: Folder) -> tuple[str, int] | None:
    found = folder.read_json(WIRE_FILE)
    return None if found is None else (str(found["host"]), int(found["port"]))


def write_wire_address(folder: Folder, host: str, port: int) -> None:
    folder.write_json(WIRE_FILE, {"host": host, "port": port}, is_durable=True)
