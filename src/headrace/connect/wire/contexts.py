"""TLS between sites: each side shows its certificate, and trusts what the project's authority has signed.

A certificate that has run out, or that another authority has signed, fails in the handshake. Who the other side is, is
read from its certificate, and never from an address: so host names are not checked.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.connect.wire.names import WireName, read_uris
from headrace.connect.wire.patience import PatientSocket
from headrace.model.errors import ConnectError

IDENTITY_FOLDER = "identity"
KEY, CERTIFICATE, AUTHORITY = "key.pem", "certificate.pem", "authority.pem"


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """Whoever is at the other end of a connection, and until when its certificate counts (seconds since 1970)."""

    name: WireName
    until: float


def read_peer(certificate: Mapping[str, Any] | None) -> KnownPeer | None:
    """The owner of a certificate, as `ssl` describes it; None if it is not one of ours, or there is none."""
    if not certificate:
        return None
    uris = (text for kind, text in certificate.get("subjectAltName", ()) if kind == "URI")
    name = read_uris(uris)
    return None if name is None else KnownPeer(name, ssl.cert_time_to_seconds(certificate["notAfter"]))


class WireIdentity:
    """Key and certificate in a folder, as contexts for both sides. A certificate that was renewed there is taken by
    the next handshake after `refresh`.
    """

    def __init__(self, folder: Path, needs_certificate: bool = True) -> None:
        """Somebody without a certificate may connect unless `needs_certificate`: whoever joins has none yet."""
        self.folder = folder
        self._turn = threading.Lock()
        self._seen: tuple[int, ...] = ()
        try:
            self.client = _make_context(ssl.PROTOCOL_TLS_CLIENT, folder)
            self.server = _make_context(ssl.PROTOCOL_TLS_SERVER, folder)
            self.server.verify_mode = ssl.CERT_REQUIRED if needs_certificate else ssl.CERT_OPTIONAL
            self.refresh()
        except (OSError, ssl.SSLError) as error:
            raise ConnectError(f'the certificate in "{folder}" cannot be read: {error}') from error

    def refresh(self) -> None:
        """Takes key and certificate from the files if these are others than before."""
        with self._turn:
            seen = tuple(os.stat(self.folder / name).st_mtime_ns for name in (KEY, CERTIFICATE))  # noqa: PTH116
            if seen == self._seen:
                return
            for context in (self.client, self.server):
                context.load_cert_chain(self.folder / CERTIFICATE, self.folder / KEY)
            self._seen = seen


def _make_context(protocol: int, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol == ssl.PROTOCOL_TLS_CLIENT:
        context.sslsocket_class = PatientSocket
        context.check_hostname = False  # the name in the certificate is checked instead: `connect.wire.client`
        context.verify_mode = ssl.CERT_REQUIRED
    else:
        context.num_tickets = 0  # a session that is taken up again would not show its certificate anew
    context.load_verify_locations(folder / AUTHORITY)
    return context


def trust_only(authority: bytes) -> ssl.SSLContext:
    """A context for somebody who has no certificate yet: whoever answers has to show one of this authority."""
    context = trust_nobody()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.decode("ascii"))
    return context


def trust_nobody() -> ssl.SSLContext:
    """A context for the very first question, before one knows the authority: its answer has to be checked otherwise."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
