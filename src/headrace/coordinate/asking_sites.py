"""Asks sites that joined from elsewhere, for commands that run where the project is coordinated.

They ask with the certificate of whoever coordinates, so it works as well while nobody does. No rows are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.connect.wire.addresses import read_address
from headrace.connect.wire.client import WireAddress, WireClient, WireReply, raise_refusal
from headrace.connect.wire.contexts import IDENTITY_FOLDER, WireIdentity
from headrace.coordinate.joined_files import read_joined
from headrace.model.errors import ConnectError
from headrace.site.folder import Folder
from headrace.site.site_folders import read_sites

AUDIT_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class SiteReplies:
    """What sites answer; `silent` are those that do not, and why."""

    answers: Mapping[str, dict[str, Any]]
    silent: Mapping[str, str]


@contextmanager
def open_clients(folder: Folder) -> Iterator[dict[str, WireClient]]:
    """Clients of the sites of a project that have joined."""
    joined, identity = read_joined(folder), WireIdentity(folder.root / IDENTITY_FOLDER)

    def find(site: str) -> WireAddress:
        return read_address(joined.agents[site].address)

    there = (site for site in read_sites(folder) if site in joined.agents)
    with ExitStack() as stack:
        clients = {site: WireClient(site, partial(find, site), identity) for site in there}
        for client in clients.values():
            stack.callback(client.close)
        yield clients


def ask_sites(
    clients: Mapping[str, WireClient], path: str, within_s: float, asked: Mapping[str, Mapping[str, object]]
) -> SiteReplies:
    """Asks all sites at once; `asked` is what, by site."""

    def ask(site: str) -> dict[str, Any] | ConnectError:
        try:
            return read_answer(clients[site], "GET", path, within_s, asked.get(site))
        except ConnectError as error:
            return error

    with ThreadPoolExecutor(max(1, len(clients))) as asking:
        found = dict(zip(clients, asking.map(ask, clients), strict=True))
    return SiteReplies(
        {site: one for site, one in found.items() if not isinstance(one, ConnectError)},
        {site: one.message for site, one in found.items() if isinstance(one, ConnectError)},
    )


def read_answer(
    client: WireClient, method: str, path: str, within_s: float, asked: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Raises ConnectError if it is refused, or cannot be read."""
    return read_reply(client.shown, client.ask(method, path, within_s, asked))


def read_reply(shown: str, reply: WireReply) -> dict[str, Any]:
    raise_refusal(shown, reply)
    try:
        found = json.loads(reply.body)
    except ValueError as error:
        what = f"what {shown} answers cannot be read"
        raise ConnectError(what, "do both run the same version?") from error
    assert isinstance(found, dict)
    return found


def audit_sites(folder: Folder) -> SiteReplies:
    """What became of every promise of sites that joined from elsewhere."""
    with open_clients(folder) as clients:
        return ask_sites(clients, "/v1/audit", AUDIT_WITHIN_S, {})
