"""Serves `/v1` to other sites: HTTP/1.1 over TLS, in a thread of its own, and knows whose certificate asks.

Each request is answered in a thread of its own, since most of them wait. A connection stays open for the next request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from headrace.connect.wire.contexts import KnownPeer, WireIdentity, read_peer
from headrace.connect.wire.limit import LinkLimits
from headrace.connect.wire.order import WAITS_AT_MOST_S, LinkOrder, may_be_ahead
from headrace.connect.wire.tcp import AnySocket, count_outgoing, keep_alive, keep_little_unsent, read_tcp_info
from headrace.model.errors import UsageError

log = logging.getLogger("headrace.service")

JSON = "application/json"
LARGEST_BODY = 256 * 1024 * 1024
"""Bytes that a request may bring: a part of a plan is the largest, and has a few megabytes."""
LARGEST_BODY_OF_STRANGERS = 64 * 1024
"""Bytes that a request without a certificate may bring: one to join has two kilobytes."""
READ_AT_ONCE = 64 * 1024
LEAST_RECORD, MOST_RECORD, RECORD_SHARE, QUICK_S = 1024, 16 * 1024, 2, 0.1
"""Bytes of one TLS record, of which a reader gets all or nothing. No record is larger than this share of what came
before it: nobody waits much longer for one than it has waited already. A link is quick if a record leaves within this
time; the next one may then be twice as large.
"""
HANDSHAKE_WITHIN_S, REQUEST_WITHIN_S, WRITE_WITHIN_S, IDLE_S = 10.0, 60.0, 60.0, 120.0
"""How long to wait for what comes next of a request, or until something of an answer is taken."""
STRANGER_WITHIN_S = 10.0
"""How long somebody without a certificate may take for a request, or to send the next one."""
MOST_STRANGERS = 64
"""Connections without a certificate at once: more are closed, so that sites always get one."""
MOST_THREADS = 128
"""Requests that may wait at once: a site has about five for each other site."""
LOOK_FIRST_S, LOOK_EVERY_S = 0.001, 0.05
"""How soon, and how often, a load that waits looks whether it may go on."""
REFRESH_EVERY_S = 30.0
START_WITHIN_S, END_WITHIN_S, CLOSED_WITHIN_S = 15.0, 5.0, 0.05


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What somebody asks. `peer` is the owner of the certificate; None of somebody who has shown none."""

    peer: KnownPeer | None
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """A load is sent behind what else goes to the same site."""

    body: bytes
    media_type: str = JSON
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    is_load: bool = False


def answer_refusal(status: HTTPStatus, message: str, hint: str | None = None) -> WireAnswer:
    return WireAnswer(json.dumps({"errors": [{"message": message, "hint": hint}]}).encode(), status=status)


AnswerRequest = Callable[[WireRequest], WireAnswer]


class WireServer:
    """Serves until it is stopped. `identity` is what it shows, and decides who may connect."""

    def __init__(
        self,
        answer: AnswerRequest,
        identity: WireIdentity,
        host: str,
        port: int,
        limits: LinkLimits | None = None,
        write_within_s: float = WRITE_WITHIN_S,
    ) -> None:
        self._answer, self._identity, self._limits = answer, identity, limits or LinkLimits()
        self._write_within_s = write_within_s
        self._host, self._asked_port = host, port
        self._room = asyncio.Semaphore(MOST_THREADS)
        self._loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._started = threading.Event()
        self._failure: Exception | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._orders: dict[str, LinkOrder] = {}  # by site; of the loop's thread alone
        self._strangers = 0  # connections without a certificate; of the loop's thread alone
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()
        if not self._started.wait(START_WITHIN_S) or self._failure is not None:
            hint = "choose another with --listen, or leave the port out"
            raise UsageError(f"{host}:{port} cannot be listened on: {self._failure}", hint)

    def stop(self) -> None:
        """Ends all connections. Answers that are still being made are given up."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(END_WITHIN_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            self._failure = error
            log.exception("the server for other sites ended")
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        try:
            server = await asyncio.start_server(
                self._take_connection,
                self._host,
                self._asked_port,
                ssl=self._identity.server,
                ssl_handshake_timeout=HANDSHAKE_WITHIN_S,
                ssl_shutdown_timeout=1.0,
            )
        except OSError as error:
            self._failure = error
            return
        self.port = server.sockets[0].getsockname()[1]
        self._loop.set_exception_handler(_note_failure)
        self._started.set()
        refreshing = asyncio.create_task(self._refresh())
        try:
            await self._ended.wait()
        finally:
            refreshing.cancel()
            server.close()
            for task in tuple(self._connections):
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await asyncio.sleep(CLOSED_WITHIN_S)  # sockets are closed in the loop's next turns

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_EVERY_S)
            try:
                self._identity.refresh()
            except (OSError, ssl.SSLError) as error:  # half written, or removed: the one before is shown meanwhile
                log.warning("the certificate in %s cannot be read: %s", self._identity.folder, error)

    async def _take_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._answer_requests(reader, writer)
        except (OSError, ssl.SSLError, TimeoutError, h11.ProtocolError, asyncio.IncompleteReadError) as error:
            log.debug("a connection ended: %s", error)
        finally:
            self._connections.discard(task)
            if self._ended.is_set():
                writer.transport.abort()
            writer.close()

    async def _answer_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = read_peer(writer.get_extra_info("peercert"))
        keep_alive(writer.get_extra_info("socket"))
        keep_little_unsent(writer.get_extra_info("socket"))
        writer.transport.set_write_buffer_limits(high=1)  # with 0, it would wait for ever
        if peer is not None:
            await self._answer_peer(reader, writer, peer)
        elif self._strangers < MOST_STRANGERS:
            self._strangers += 1
            try:
                await self._answer_peer(reader, writer, None)
            finally:
                self._strangers -= 1

    async def _answer_peer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: KnownPeer | None
    ) -> None:
        http, site = h11.Connection(h11.SERVER), None if peer is None else peer.name.site
        order = LinkOrder() if site is None else self._orders.setdefault(site, LinkOrder())
        try:
            while True:
                request = await _read_request(http, reader, peer)
                if request is None or (peer is not None and time.time() >= peer.until):
                    return  # a connection lasts no longer than the certificate that it was made with
                if isinstance(request, WireAnswer):
                    answer = request
                else:
                    async with self._room:
                        answer = await self._answer_beside(request)
                await self._write_answer(http, writer, answer, site, order)
                if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                    return
                http.start_next_cycle()
        finally:
            order.end(writer)

    async def _write_answer(
        self,
        http: h11.Connection,
        writer: asyncio.StreamWriter,
        answer: WireAnswer,
        site: str | None,
        order: LinkOrder,
    ) -> None:
        """Sends no more to a site than its link's limit lets through, and loads behind changes."""
        headers = {"Content-Type": answer.media_type, "Content-Length": str(len(answer.body)), **answer.headers}
        ready = http.send(h11.Response(status_code=int(answer.status), headers=list(headers.items()))) or b""
        connection: AnySocket = writer.get_extra_info("socket")
        if answer.is_load:
            order.end(writer)
        else:
            order.begin_changes(writer, partial(_count_unsent, writer, connection))
        whole, start, record = memoryview(answer.body), 0, LEAST_RECORD
        while start < len(whole):
            size = min(record if site is None else min(record, self._limits.at_once(site)), len(whole) - start)
            if answer.is_load:
                await _wait_for_turn(order, connection, size)
            await self._wait_for_limit(site, len(ready) + size)
            began = time.monotonic()
            writer.write(ready + (http.send(h11.Data(data=bytes(whole[start : start + size]))) or b""))
            ready = b""
            await self._wait_until_sent(writer)
            start += size
            if not answer.is_load:
                order.note_changes(size)
            record = record * 2 if time.monotonic() - began < QUICK_S else record // 2
            record = max(LEAST_RECORD, min(record, start // RECORD_SHARE, MOST_RECORD))
        if ready:
            await self._wait_for_limit(site, len(ready))
        writer.write(ready + (http.send(h11.EndOfMessage()) or b""))
        await self._wait_until_sent(writer)

    async def _wait_for_limit(self, site: str | None, size: int) -> None:
        if site is not None and (wait_s := self._limits.take(site, size)):
            await asyncio.sleep(wait_s)

    async def _wait_until_sent(self, writer: asyncio.StreamWriter) -> None:
        """Waits as long as the other side takes something. Raises TimeoutError if it does not."""
        taken = None
        while True:
            try:
                async with asyncio.timeout(self._write_within_s):  # no task of its own, as `wait_for` would make
                    await writer.drain()
            except TimeoutError:
                known = read_tcp_info(writer.get_extra_info("socket"))
                before, taken = taken, None if known is None else known.bytes_acked
                if taken is None or taken == before:
                    raise
            else:
                return

    async def _answer_beside(self, request: WireRequest) -> WireAnswer:
        """Answers in a thread that nobody waits for at the end of the process: it may wait for long."""
        made: asyncio.Future[WireAnswer] = self._loop.create_future()

        def hand_over(answer: WireAnswer) -> None:
            if not made.done():
                made.set_result(answer)

        def run() -> None:
            answer = self._make_answer(request)
            with suppress(RuntimeError):  # the server has ended meanwhile
                self._loop.call_soon_threadsafe(hand_over, answer)

        threading.Thread(target=run, name="wire answer", daemon=True).start()
        return await made

    def _make_answer(self, request: WireRequest) -> WireAnswer:
        try:
            return self._answer(request)
        except Exception:  # a fault of ours: whoever asks is told that there is one, and asks again
            log.exception("%s %s could not be answered", request.method, request.path)
            return answer_refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the answer could not be made; see service.log")


def _count_unsent(writer: asyncio.StreamWriter, connection: AnySocket) -> int:
    """Bytes of an answer that the other side does not have yet."""
    return writer.transport.get_write_buffer_size() + count_outgoing(connection)


async def _wait_for_turn(order: LinkOrder, connection: AnySocket, size: int) -> None:
    """Until a load may send so many bytes."""
    began, pause_s, waited_s = time.monotonic(), LOOK_FIRST_S, 0.0
    while _is_ahead(connection, waited_s) or not order.take(size, waited_s):
        await asyncio.sleep(pause_s)
        pause_s, waited_s = min(2 * pause_s, LOOK_EVERY_S), time.monotonic() - began


def _is_ahead(connection: AnySocket, waited_s: float) -> bool:
    """Whether so much of a load is on its way that more would hold up changes which come now."""
    return waited_s < WAITS_AT_MOST_S and count_outgoing(connection) >= may_be_ahead(read_tcp_info(connection))


async def _read_request(
    http: h11.Connection, reader: asyncio.StreamReader, peer: KnownPeer | None
) -> WireRequest | WireAnswer | None:
    """The next request; None at the end of the connection, or the refusal of one that is too large."""
    async with asyncio.timeout(STRANGER_WITHIN_S if peer is None else IDLE_S):
        asked = await _next_event(http, reader)
    if not isinstance(asked, h11.Request):
        return None
    body, largest = bytearray(), LARGEST_BODY_OF_STRANGERS if peer is None else LARGEST_BODY
    async with asyncio.timeout(STRANGER_WITHIN_S if peer is None else REQUEST_WITHIN_S) as limit:
        while isinstance(event := await _next_event(http, reader), h11.Data):
            body += event.data
            if peer is not None:  # over a slow link, its parts come slowly
                limit.reschedule(asyncio.get_running_loop().time() + REQUEST_WITHIN_S)
            if len(body) > largest:
                return answer_refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large")
    target = urlsplit(asked.target.decode("ascii"))
    query = dict(parse_qsl(target.query, keep_blank_values=True))
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in asked.headers}
    return WireRequest(peer, asked.method.decode("ascii"), unquote(target.path), query, headers, bytes(body))


async def _next_event(http: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := http.next_event()) is h11.NEED_DATA:
        if http.they_are_waiting_for_100_continue:
            raise h11.RemoteProtocolError("nobody of ours waits to be told to continue")
        http.receive_data(await reader.read(READ_AT_ONCE))
    return event


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Handshakes that fail are nobody's fault here, and connections end at any time."""
    log.debug("a connection of another site: %s", context.get("exception") or context.get("message"))
