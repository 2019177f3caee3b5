"""Feeds over HTTP: pages and streams, posts, whom consumers follow and whom they do not want to see, tokens.

A page is asked for far more often than anything else, and finding its entries is quick, so the way to it is short: the
path is matched in a table, a thread finds the entries and writes the answer, and this is sent as it is.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.app.feed_serving import FeedCaller, FeedDoor, HiddenKind, check_names
from headrace.doors.api.answers import answer_error, answer_problem
from headrace.doors.api.feed_streams import FeedStreams
from headrace.doors.api.feed_table import FeedAct, FeedRequest, PostedEvent, find_request
from headrace.doors.api.feed_threads import FeedThreads
from headrace.model.errors import ConnectError, HeadraceError, UnreadableState, UsageError

log = logging.getLogger("headrace.http")

THREADS = 8
"""Each has a session with the store of every feed that it reads."""
THREADS_BESIDE = 2
"""For what takes a minute: pages must not wait for it."""
MOST_WAITING = 500
"""Requests that wait for a thread; those beyond are asked to come again."""
LARGEST_BODY = 16_000_000
BODY_WITHIN_S = 30.0
ANSWER_WITHIN_S, CALIBRATED_WITHIN_S = 30.0, 600.0
JSON_HEADER = (b"content-type", b"application/json")

ExplainPair = Callable[[str, str, str], Any]
"""Says why a pair of a feed is as it is: feed, consumer, producer."""
POSTED: TypeAdapter[PostedEvent | list[PostedEvent]] = TypeAdapter(PostedEvent | list[PostedEvent])


class Refused(Exception):
    """A request that is answered with a status, a sentence and what to do."""


class FeedHttp:
    """Answers requests below `/feeds/`, as an ASGI application.

    `token` is that of the service, which allows everything; None where it does not count. `calibrate` measures prices,
    where that can be done.
    """

    def __init__(
        self,
        door: FeedDoor,
        explain: ExplainPair,
        token: str | None,
        calibrate: Callable[[str], Any] | None = None,
    ) -> None:
        self.streams = FeedStreams(door, self.run)
        self._door = door
        self._explain = explain
        self._calibrate = calibrate
        self._token = None if token is None else token.encode()
        self._threads, self._beside = FeedThreads(THREADS), FeedThreads(THREADS_BESIDE)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = scope.get("raw_path") or quote(scope["path"]).encode()
        found = find_request(scope["method"], raw_path)
        if not isinstance(found, FeedRequest):
            await _say_not_there(scope, found)(scope, receive, send)
            return
        try:
            caller = self._allow(found, find_token(scope))
            check_names(found.names.values())  # a store that is asked for one that cannot be looks as if it were away
            if found.route.act is FeedAct.STREAM:
                await self._stream(found, caller, scope, receive, send)
                return
            body = b"" if found.route.body is None else await _read_body(receive)
            query = scope["query_string"]
            is_long = found.route.act is FeedAct.CALIBRATE
            answer = await self.run(lambda: self._answer(found, caller, query, body), is_long)
        except Exception as error:
            await _say_refused(error)(scope, receive, send)
            return
        headers = [JSON_HEADER, (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": found.route.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def _allow(self, found: FeedRequest, token: str) -> FeedCaller:
        """Who asks. Raises `Refused` if they may not."""
        caller = self.find_caller(token)
        if caller is None:
            raise Refused(401, "this request needs a token of feeds", "send `Authorization: Bearer TOKEN`")
        if found.route.is_of_service and caller.app is not None:
            raise Refused(403, "this needs the service's own token, on the service's own port")
        refused = caller.refuse(found.feed, found.names.get("consumer") if found.route.is_own else None)
        if refused is not None:
            raise Refused(403, refused)
        return caller

    def find_caller(self, token: str) -> FeedCaller | None:
        """Whose token it is. The service's own may be anything; compared by its bytes, in constant time."""
        if self._token is not None and hmac.compare_digest(token.encode(errors="replace"), self._token):
            return FeedCaller(None)
        return self._door.apps.find_caller(token) if token else None

    async def run(self, what: Callable[[], Any], is_long: bool = False) -> Any:
        """The answer of something that may take a while, from a thread. Raises `ConnectError` if too many wait, or if
        it takes too long: a store that stands still holds its threads, but nobody who asks.
        """
        threads, within_s = (self._beside, CALIBRATED_WITHIN_S) if is_long else (self._threads, ANSWER_WITHIN_S)
        if self._waiting >= MOST_WAITING:
            raise ConnectError("too many requests wait for the stores of feeds", "try again in a moment")
        self._waiting += 1
        try:
            async with asyncio.timeout(within_s):
                return await threads.run(what)
        except TimeoutError:
            raise ConnectError(f"the store did not answer within {within_s:g} s", "try again in a moment") from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """When nobody asks any more."""
        self._threads.end()
        self._beside.end()

    async def _stream(self, found: FeedRequest, caller: FeedCaller, scope: Scope, receive: Receive, send: Send) -> None:
        after = _read_query(found, scope["query_string"]).get("after")
        last, token = _find_header(scope, b"last-event-id"), find_token(scope)
        begun = await self.streams.begin(found.feed, found.names["consumer"], last, after)
        ends_at = None if caller.claims is None else caller.claims.expires
        await self.streams.serve(begun, ends_at, lambda: self.find_caller(token) is not None, receive, send)

    def _answer(self, found: FeedRequest, caller: FeedCaller, query: bytes, body: bytes) -> bytes:
        if found.route.act is FeedAct.PAGE:
            asked = _read_query(found, query) if query else {}
            told = self._door.read(found.feed, found.names["consumer"], asked.get("limit"), asked.get("before"))
        else:
            told = self._act(found, caller, body)
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")

    def _act(self, found: FeedRequest, caller: FeedCaller, body: bytes) -> Any:
        door, feed, names = self._door, found.feed, found.names
        consumer, producer = names.get("consumer", ""), names.get("producer", "")
        match found.route.act:
            case FeedAct.UNREAD:
                return door.count_unread(feed, consumer)
            case FeedAct.SEEN:
                return door.mark_seen(feed, consumer, _read_model(found, body))
            case FeedAct.WHY:
                return self._explain(feed, consumer, producer)
            case FeedAct.POST:
                posted = POSTED.validate_json(body)
                several = posted if isinstance(posted, list) else [posted]
                return door.post(feed, [one.model_dump() for one in several])
            case FeedAct.DELETE:
                return door.delete(feed, producer, names["event"])
            case FeedAct.FOLLOW | FeedAct.UNFOLLOW as act:
                return door.follow(feed, consumer, producer, undo=act is FeedAct.UNFOLLOW)
            case FeedAct.MUTE | FeedAct.UNMUTE as act:
                return door.hide(feed, consumer, producer, HiddenKind.MUTE, undo=act is FeedAct.UNMUTE)
            case FeedAct.BLOCK | FeedAct.UNBLOCK as act:
                return door.hide(feed, consumer, producer, HiddenKind.BLOCK, undo=act is FeedAct.UNBLOCK)
            case FeedAct.CALIBRATE:
                assert self._calibrate is not None, "only the service has a token that allows this"
                return self._calibrate(feed)
            case FeedAct.MINT:
                return door.mint(caller, feed, consumer, _read_model(found, body))
            case FeedAct.PAGE | FeedAct.STREAM:
                raise AssertionError("answered elsewhere")


def find_token(scope: Scope) -> str:
    """What a request says that it is allowed by; nothing if it says nothing."""
    scheme, _, token = _find_header(scope, b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _find_header(scope: Scope, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


async def _read_body(receive: Receive) -> bytes:
    """Raises `Refused` if it is too large, or does not come."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            while size <= LARGEST_BODY:
                message = await receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise Refused(408, f"the body of the request did not come within {BODY_WITHIN_S:g} s") from None
    raise Refused(413, f"the body of the request has more than {LARGEST_BODY:,} bytes", "send several requests")


def _read_model(found: FeedRequest, body: bytes) -> dict[str, Any]:
    model = found.route.body
    assert model is not None
    read: BaseModel = model.model_validate_json(body or b"{}")
    return read.model_dump(exclude_none=True)


def _read_query(found: FeedRequest, query: bytes) -> dict[str, Any]:
    """Raises `UsageError` for a value that cannot be. What nobody asked for is left out."""
    read: dict[str, Any] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in found.route.query:
            schema = found.route.query[name][0]
            read[name] = _read_number(name, value) if schema["type"] == "integer" else _read_text(name, value, schema)
    return read


def _read_number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()) or len(value) > 18 or int(value) < 1:
        raise UsageError(f"query.{name}: this is no whole number from 1 on", "see /docs")
    return int(value)


def _read_text(name: str, value: str, schema: Mapping[str, Any]) -> str:
    if len(value) > schema["maxLength"]:
        raise UsageError(f"query.{name}: this has more than {schema['maxLength']} characters", "see /docs")
    return value


def _say_refused(error: Exception) -> Response:
    if isinstance(error, Refused):
        return answer_problem(*error.args)
    if isinstance(error, UnreadableState):
        log.error("a request for a feed cannot be answered: %s", error)
        return answer_problem(503, error.message, error.hint)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, ("body", *first["loc"])))
        return answer_problem(422, f"{where}: {first['msg']}", "see /docs")
    if isinstance(error, HeadraceError):
        return answer_error(error)
    log.error("a request for a feed failed", exc_info=error)
    return answer_problem(500, "the request failed", "see .headrace/service.log")


def _say_not_there(scope: Scope, methods: list[str]) -> Response:
    what = f"{scope['method']} {scope['path']}"
    if methods:
        return answer_problem(405, f"{what}: method not allowed", "see /docs", {"Allow": ", ".join(methods)})
    return answer_problem(404, f"{what}: not found", "see /docs")
