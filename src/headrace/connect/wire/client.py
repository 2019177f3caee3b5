"""Asks another site, or the process that coordinates, over connections that stay open."""

from __future__ import annotations

import json
import select
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, HTTPSConnection
from typing import Any
from urllib.parse import urlencode

from headrace.connect.wire.contexts import WireIdentity, read_peer
from headrace.connect.wire.limit import LinkLimits
from headrace.connect.wire.meter import LinkMeter
from headrace.connect.wire.names import WireName
from headrace.connect.wire.patience import LOOK_EVERY_S, STILL_WITHIN_S, AnswerPatience, LinkProgress, PatientSocket
from headrace.connect.wire.tcp import keep_alive, read_tcp_info
from headrace.model.errors import ConnectError
from headrace.model.link_counts import LinkProbe

CONNECT_WITHIN_S = 10.0
MOST_IDLE = 8
HEAD_BYTES = 150
"""What a request has beside its target and its body, about."""


@dataclass(frozen=True, slots=True)
class WireAddress:
    host: str
    port: int

    @property
    def shown(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class WireReply:
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def reason(self) -> str:
        """Why something was refused, as the other side says it."""
        return self._find("message") or "it did not say why"

    @property
    def hint(self) -> str | None:
        """What to do about it."""
        return self._find("hint")

    def _find(self, what: str) -> str | None:
        try:
            found = json.loads(self.body)["errors"][0].get(what)
        except (ValueError, LookupError, TypeError, AttributeError):
            return None
        return None if found is None else str(found)


@dataclass(slots=True)
class WireClient:
    """Asks one other process. `site` is who it has to be, None for the coordinator; `find` tells where it is now.

    May be used by several threads at once: each takes a connection that nobody uses, or makes one.
    """

    site: str | None
    find: Callable[[], WireAddress | None]
    identity: WireIdentity
    limits: LinkLimits = field(default_factory=LinkLimits)
    meter: LinkMeter = field(default_factory=LinkMeter)
    """What arrives from there."""
    still_s: float = STILL_WITHIN_S
    """How long no byte may come of an answer that has begun."""
    progress: LinkProgress = field(default_factory=LinkProgress)
    _idle: list[tuple[WireAddress, HTTPSConnection]] = field(default_factory=list)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def shown(self) -> str:
        return WireName(self.site, "").shown

    def ask(
        self, method: str, path: str, within_s: float, asked: Mapping[str, object] | None = None, body: Any = None
    ) -> WireReply:
        """The answer, whatever its status. Everything may be asked twice: a connection may end before it is answered.

        It begins within some seconds, unless other answers take all that the link carries; its bytes may take longer.
        Raises ConnectError if nobody answers, or somebody else does.
        """
        where = self.find()
        if where is None:
            raise ConnectError(f"{self.shown} does not run")
        target = path if not asked else f"{path}?{urlencode(asked)}"
        content = None if body is None else json.dumps(body).encode()
        while True:
            connection = self._take_idle(where)
            is_new = connection is None
            try:
                if connection is None:
                    connection = self._connect(where)
                return self._exchange(connection, where, method, target, content, within_s)
            except (OSError, HTTPException) as error:
                if connection is not None:
                    connection.close()
                if not is_new and not isinstance(error, TimeoutError):
                    continue  # the other side has closed it meanwhile
                raise ConnectError(f"{self.shown} does not answer: {_say(error)}") from error
            except BaseException:
                if connection is not None:
                    connection.close()
                raise

    def probe(self, path: str, asked: Mapping[str, object], within_s: float, for_s: float) -> LinkProbe | None:
        """Asks for bytes that nobody needs, over a connection of their own, and counts what arrives in some seconds.

        None if the other side sends none. Raises ConnectError if nobody answers.
        """
        where = self.find()
        if where is None:
            raise ConnectError(f"{self.shown} does not run")
        connection = self._connect(where)
        try:
            connection.sock.settimeout(within_s)
            asked_s = self.meter.clock()
            connection.request("GET", f"{path}?{urlencode(asked)}")
            answer = connection.getresponse()
            return self.meter.read_for(answer, for_s, asked_s) if answer.status == HTTPStatus.OK else None
        except (OSError, HTTPException) as error:
            raise ConnectError(f"{self.shown} does not answer: {_say(error)}") from error
        finally:
            connection.close()

    def close(self) -> None:
        with self._turn:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _exchange(
        self,
        connection: HTTPSConnection,
        where: WireAddress,
        method: str,
        target: str,
        content: bytes | None,
        within_s: float,
    ) -> WireReply:
        if self.site is not None:
            time.sleep(self.limits.take(self.site, HEAD_BYTES + len(target) + len(content or b"")))
        sock = connection.sock
        assert isinstance(sock, PatientSocket), "our contexts make these"
        sock.settimeout(within_s)
        connection.request(method, target, content)
        sock.settimeout(min(LOOK_EVERY_S, within_s))
        sock.patience = patience = AnswerPatience(self.progress, within_s)
        answer = connection.getresponse()
        patience.begin_body(answer.length or 0, self.still_s)
        reply = WireReply(answer.status, answer.headers, self.meter.read_body(answer))
        sock.patience = None
        if (known := read_tcp_info(sock)) is not None:
            self.meter.note_round_trip(known.rtt_s)
        if answer.will_close or not self._keep(where, connection):
            connection.close()
        return reply

    def _connect(self, where: WireAddress) -> HTTPSConnection:
        self.identity.refresh()
        return open_connection(where, self.identity.client, self.site)

    def _take_idle(self, where: WireAddress) -> HTTPSConnection | None:
        """One that leads there, and that the other side has not closed."""
        while True:
            with self._turn:
                if not self._idle:
                    return None
                there, connection = self._idle.pop()
            if there == where and not _is_ended(connection):
                return connection
            connection.close()

    def _keep(self, where: WireAddress, connection: HTTPSConnection) -> bool:
        with self._turn:
            if len(self._idle) >= MOST_IDLE:
                return False
            self._idle.append((where, connection))
            return True


def open_connection(where: WireAddress, context: ssl.SSLContext, site: str | None) -> HTTPSConnection:
    """A connection to a site, or to the coordinator if that is None. Raises ConnectError if somebody else answers."""
    connection = HTTPSConnection(where.host, where.port, timeout=CONNECT_WITHIN_S, context=context)
    connection.connect()
    sock = connection.sock
    assert isinstance(sock, ssl.SSLSocket)
    keep_alive(sock)
    peer = read_peer(sock.getpeercert())
    if peer is None or peer.name.site != site:
        connection.close()
        found = "nobody of the project" if peer is None else peer.name.shown
        raise ConnectError(f"at {where.shown}, where {WireName(site, '').shown} should be, answers {found}")
    return connection


def _is_ended(connection: HTTPSConnection) -> bool:
    """Whether the other side has said something that nobody asked for: that it ends."""
    looking = select.poll()
    looking.register(connection.sock, select.POLLIN)
    return bool(looking.poll(0))


def raise_refusal(shown: str, reply: WireReply) -> None:
    """Raises ConnectError unless what was asked for was done."""
    if reply.status != HTTPStatus.OK:
        raise ConnectError(f"{shown} answered with status {reply.status}: {reply.reason}")


def _say(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return str(error) or type(error).__name__
