"""Joins a project from elsewhere, as `headrace agent --join` does: gets a certificate for a token, and keeps it.

The token says what to recognise the project's authority by. So nobody else gets the secret, although one has never
talked to the coordinator before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from importlib import metadata
from typing import Any

from headrace.connect.free_port import free_port
from headrace.connect.wire.addresses import find_own_host, is_loopback, read_address
from headrace.connect.wire.client import WireAddress, WireClient, open_connection
from headrace.connect.wire.contexts import (
    AUTHORITY,
    CERTIFICATE,
    IDENTITY_FOLDER,
    WireIdentity,
    trust_nobody,
    trust_only,
)
from headrace.connect.wire.identity import fingerprint, request_certificate
from headrace.connect.wire.identity_files import (
    keep_certificate,
    keep_instance,
    new_instance,
    read_instance,
    read_key,
)
from headrace.model.errors import ConnectError, UsageError
from headrace.model.joining import FINGERPRINT_DIGITS, JoinToken, read_token
from headrace.site.folder import Folder
from headrace.site.membership import Membership, forget_neighbours, read_membership, write_membership

ANSWER_WITHIN_S = 15.0
LOOPBACK_ALONE = (
    "this site listens on {host} alone, where sites on other machines cannot reach it; name an address with --listen"
)


@dataclass(frozen=True, slots=True)
class JoinWishes:
    """What a person says when a site is started: where to join and with what, where to listen, and whether this folder
    takes the place of another one.
    """

    join: str | None = None
    token: str | None = None
    listen: str | None = None
    replaces: bool = False


def join_project(folder: Folder, site: str, wishes: JoinWishes) -> Membership:
    """Whom this folder belongs to. Joins if it belongs to nobody yet; otherwise only where it listens may change.

    Raises UsageError, or ConnectError if nobody answers.
    """
    kept = read_membership(folder)
    if kept is not None and kept.site != site:
        raise UsageError(f'"{folder.project}" runs site "{kept.site}", not "{site}"', "choose another --folder")
    if kept is None and wishes.join is None:
        hint = f"`headrace sites invite {site}` where the project is coordinated prints the command to join with"
        raise UsageError(f'"{folder.project}" has not joined a project as site "{site}"', hint)
    where = read_address(wishes.join or (kept.coordinator if kept is not None else ""))
    listens = _choose_listening(kept, wishes.listen)
    if kept is None or wishes.token is not None:
        project = _join_with_token(folder, site, wishes, where, _advertise(listens, where))
    else:
        project = kept.project
    membership = Membership(site, project, where.shown, listens.host, listens.port)
    if membership != kept:
        write_membership(folder, membership)
    return membership


def advertised_address(membership: Membership) -> str:
    """What others are told."""
    return _advertise(WireAddress(membership.host, membership.port), read_address(membership.coordinator))


def warn_of_loopback(membership: Membership) -> str | None:
    if is_loopback(membership.host) and not is_loopback(read_address(membership.coordinator).host):
        return LOOPBACK_ALONE.format(host=membership.host)
    return None


def _advertise(listens: WireAddress, coordinator: WireAddress) -> str:
    return WireAddress(find_own_host(listens.host, coordinator), listens.port).shown


def _choose_listening(kept: Membership | None, listen: str | None) -> WireAddress:
    """A port is chosen once: others remember it."""
    if listen is None:
        return WireAddress("127.0.0.1", free_port()) if kept is None else WireAddress(kept.host, kept.port)
    asked = read_address(listen)
    if asked.port:
        return asked
    if kept is not None and kept.host == asked.host:
        return WireAddress(kept.host, kept.port)
    return WireAddress(asked.host, free_port(asked.host))


def _join_with_token(folder: Folder, site: str, wishes: JoinWishes, where: WireAddress, address: str) -> str:
    token = None if wishes.token is None else read_token(wishes.token)
    if token is None:
        what = "no token was given" if wishes.token is None else "the token is not whole"
        raise UsageError(what, "copy the whole line that `headrace sites invite` printed")
    folder.prepare()
    authority = _find_authority(where, token)
    # A copy of a folder has the same instance: one that takes over is another, once that has been allowed.
    instance = new_instance() if wishes.replaces else read_instance(folder.root)
    document = {
        "token": token.secret,
        "site": site,
        "request": request_certificate(read_key(folder.root)).decode(),
        "instance": instance,
        "address": address,
        "version": metadata.version("headrace"),
        "replaces": wishes.replaces,
    }
    found = _ask(lambda: open_connection(where, trust_only(authority), None), where, "/v1/join", document)
    if authority != _read_authority(folder):
        forget_neighbours(folder)  # another coordinator told of them, whose epochs mean nothing to this one
    _keep(folder, instance, str(found["certificate"]).encode(), authority)
    return str(found["project"])


def _keep(folder: Folder, instance: str, certificate: bytes, authority: bytes) -> None:
    if instance != read_instance(folder.root):
        keep_instance(folder.root, instance)
    keep_certificate(folder.root, certificate, authority)


def _read_authority(folder: Folder) -> bytes | None:
    file = folder.root / IDENTITY_FOLDER / AUTHORITY
    return file.read_bytes() if file.exists() else None


def _find_authority(where: WireAddress, token: JoinToken) -> bytes:
    """The certificate of the project's authority, which the token tells from any other."""
    connect = partial(HTTPSConnection, where.host, where.port, context=trust_nobody(), timeout=ANSWER_WITHIN_S)
    found = str(_ask(connect, where, "/v1/authority", None)["certificate"]).encode()
    if fingerprint(found)[:FINGERPRINT_DIGITS] != token.fingerprint:
        what = f"at {where.shown} answers somebody who is not the coordinator that the token is of"
        raise UsageError(what, "is that the address which `headrace sites invite` printed?")
    return found


def _ask(connect: Callable[[], HTTPSConnection], where: WireAddress, path: str, body: Any) -> dict[str, Any]:
    try:
        with closing(connect()) as connection:
            connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            found = json.loads(answer.read())
    except (OSError, HTTPException, ValueError) as error:
        hint = "does `headrace up --sites agents` run there, and is the address right?"
        raise ConnectError(f"nobody coordinates at {where.shown}: {error or type(error).__name__}", hint) from error
    if answer.status != HTTPStatus.OK:
        wrong = found["errors"][0]
        raise UsageError(wrong["message"], wrong.get("hint"))
    assert isinstance(found, dict)
    return found


def renew_certificate(folder: Folder, client: WireClient, replaces: bool = False) -> None:
    """Gets the next certificate for the key that is there; for another instance if this folder takes over."""
    instance = new_instance() if replaces else read_instance(folder.root)
    document = {"request": request_certificate(read_key(folder.root)).decode(), "instance": instance}
    reply = client.ask("POST", "/v1/certificate", ANSWER_WITHIN_S, body={**document, "replaces": replaces})
    if reply.status != HTTPStatus.OK:
        raise UsageError(f"the coordinator gives no certificate: {reply.reason}", reply.hint)
    found = json.loads(reply.body)
    _keep(folder, instance, str(found["certificate"]).encode(), str(found["authority"]).encode())


def replace_expired(folder: Folder, where: WireAddress) -> None:
    """Gets a certificate for one that has run out, which no handshake takes any more: the coordinator was away for
    days. It is sent along, and the request is signed with its key.
    """
    authority = _read_authority(folder)
    assert authority is not None, "it came with the certificate"
    document = {
        "request": request_certificate(read_key(folder.root)).decode(),
        "expired": (folder.root / IDENTITY_FOLDER / CERTIFICATE).read_text(),
    }
    found = _ask(lambda: open_connection(where, trust_only(authority), None), where, "/v1/certificate", document)
    keep_certificate(folder.root, str(found["certificate"]).encode(), str(found["authority"]).encode())


def open_identity(folder: Folder) -> WireIdentity:
    return WireIdentity(folder.root / IDENTITY_FOLDER)
