"""The requests that feeds answer: one table, by which requests are recognised and OpenAPI describes them.

Names of feeds and people may hold anything, also a slash, so a path is cut before it is decoded. Requests are told
apart by their method, by how many words their path has, and by the words that are fixed: no name is reserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field

from headrace.doors.api.answers import NAMES_SOMETHING, Errors

PREFIX = "/feeds/"
LONGEST_CURSOR = 50_000
"""Characters: the head of a request has 64 kB."""
CURSOR = "^[A-Za-z0-9_-]*$"
LONGEST_TIME = 100
REFS = "#/components/schemas/{model}"


class PostedEvent(BaseModel):
    """An event. Without a time it is of now; the body is any JSON."""

    model_config = ConfigDict(extra="forbid")
    producer: str
    id: str
    time: str | None = None
    body: Any = None


class SeenEntry(BaseModel):
    """The `time` and `id` of the newest entry that was seen; all that is there now if both are left out."""

    model_config = ConfigDict(extra="forbid")
    time: Annotated[str | None, Field(max_length=LONGEST_TIME)] = None
    id: str | None = None


class TokenWanted(BaseModel):
    """The seconds for which a token holds, at most 30 days. `app` is needed only with the service's own token."""

    model_config = ConfigDict(extra="forbid", strict=True)
    expires_in_s: Annotated[int, Field(ge=1, le=30 * 86_400)] = 3600
    app: str | None = None


class FeedAct(StrEnum):
    """What is asked for."""

    PAGE = "page"
    STREAM = "stream"
    UNREAD = "unread"
    SEEN = "seen"
    WHY = "why"
    POST = "post"
    DELETE = "delete"
    FOLLOW = "follow"
    UNFOLLOW = "unfollow"
    MUTE = "mute"
    UNMUTE = "unmute"
    BLOCK = "block"
    UNBLOCK = "unblock"
    MINT = "mint"
    CALIBRATE = "calibrate"


@dataclass(frozen=True, slots=True)
class FeedRoute:
    """`is_own` if it is something that a consumer does with its own feed, for which its own token is enough;
    `is_of_service` if it needs the service's own token.
    """

    method: str
    path: str
    act: FeedAct
    summary: str
    is_own: bool = False
    is_of_service: bool = False
    query: Mapping[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)
    body: type[BaseModel] | None = None
    status: int = 200
    media: str = "application/json"

    @property
    def words(self) -> list[str]:
        return self.path.removeprefix(PREFIX).split("/")


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """A request that was recognised: names in its path by what they are."""

    route: FeedRoute
    names: Mapping[str, str]

    @property
    def feed(self) -> str:
        return self.names["feed"]


PAGE_QUERY = {
    "limit": ({"type": "integer", "minimum": 1}, "entries; those of the feed if left out"),
    "before": ({"type": "string", "maxLength": LONGEST_CURSOR, "pattern": CURSOR}, "`next` of the page before"),
}
STREAM_QUERY = {"after": ({"type": "string", "maxLength": LONGEST_TIME}, "`as_of` of a page; now if left out")}
ROUTES = (
    FeedRoute(
        "GET",
        "/feeds/{feed}/{consumer}",
        FeedAct.PAGE,
        "A page of a consumer's feed: {as_of, lag_s, entries, next, stored, pulled}; `cut_short` if it ends early",
        is_own=True,
        query=PAGE_QUERY,
    ),
    FeedRoute(
        "GET",
        "/feeds/{feed}/{consumer}/stream",
        FeedAct.STREAM,
        "New entries as server-sent events; `Last-Event-ID` goes on after an event",
        is_own=True,
        query=STREAM_QUERY,
        media="text/event-stream",
    ),
    FeedRoute(
        "GET",
        "/feeds/{feed}/{consumer}/unread",
        FeedAct.UNREAD,
        "How many entries are newer than what was seen: {unread}; 99 is 99 or more",
        is_own=True,
    ),
    FeedRoute(
        "PUT",
        "/feeds/{feed}/{consumer}/seen",
        FeedAct.SEEN,
        "Say up to which entry a feed was seen; up to the newest if the body is left out",
        is_own=True,
        body=SeenEntry,
    ),
    FeedRoute(
        "GET",
        "/feeds/{feed}/why/{consumer}/{producer}",
        FeedAct.WHY,
        "Why a pair is stored ahead or on read",
    ),
    FeedRoute(
        "POST",
        "/feeds/{feed}/events",
        FeedAct.POST,
        "Post an event or a list of them, if the feed says `events: api`; one with the id of an earlier one takes its"
        " place",
        body=PostedEvent,
    ),
    FeedRoute("DELETE", "/feeds/{feed}/events/{producer}/{event}", FeedAct.DELETE, "Delete an event that was posted"),
    FeedRoute(
        "PUT",
        "/feeds/{feed}/follows/{consumer}/{producer}",
        FeedAct.FOLLOW,
        "Follow a producer, if the feed says `follows: api`",
    ),
    FeedRoute("DELETE", "/feeds/{feed}/follows/{consumer}/{producer}", FeedAct.UNFOLLOW, "Unfollow a producer"),
    FeedRoute(
        "PUT",
        "/feeds/{feed}/mutes/{consumer}/{producer}",
        FeedAct.MUTE,
        "Mute a producer: the consumer does not see it from the next page on",
        is_own=True,
    ),
    FeedRoute(
        "DELETE",
        "/feeds/{feed}/mutes/{consumer}/{producer}",
        FeedAct.UNMUTE,
        "Take back that a producer was muted",
        is_own=True,
    ),
    FeedRoute(
        "PUT",
        "/feeds/{feed}/blocks/{consumer}/{producer}",
        FeedAct.BLOCK,
        "Block a producer: neither sees the other from the next page on",
        is_own=True,
    ),
    FeedRoute(
        "DELETE",
        "/feeds/{feed}/blocks/{consumer}/{producer}",
        FeedAct.UNBLOCK,
        "Take back that a producer was blocked",
        is_own=True,
    ),
    FeedRoute(
        "POST",
        "/feeds/{feed}/tokens/{consumer}",
        FeedAct.MINT,
        "Mint a token for a consumer: {token, feed, consumer, app, expires}",
        body=TokenWanted,
        status=201,
    ),
    FeedRoute(
        "POST",
        "/feeds/{feed}/calibrate",
        FeedAct.CALIBRATE,
        "Measure what it costs to store and to fetch, on the feed's own store; answers when that is done",
        is_of_service=True,
    ),
)


def find_request(method: str, raw_path: bytes) -> FeedRequest | list[str]:
    """What is asked for; else the methods that the path takes, none if there is no such path.

    Of a path that can be read in two ways, such as `/feeds/home/events`, which is also the page of somebody called
    "events", the methods are those of the one with more fixed words.
    """
    words = raw_path.decode("latin-1").removeprefix(PREFIX).split("/")
    methods: dict[int, list[str]] = {}
    for route in ROUTES:
        own = route.words
        if len(own) == len(words) and all(is_name(one) or one == word for one, word in zip(own, words, strict=True)):
            if route.method == method:
                pairs = zip(own, words, strict=True)
                return FeedRequest(route, {one[1:-1]: unquote(word) for one, word in pairs if is_name(one)})
            methods.setdefault(sum(map(is_name, own)), []).append(route.method)
    return methods[min(methods)] if methods else []


def is_name(word: str) -> bool:
    return word.startswith("{")


# How OpenAPI describes it

ANSWERS: Mapping[int, str] = {
    **{int(status): str(one["description"]) for status, one in NAMES_SOMETHING.items()},
    403: "The token does not allow this.",
    408: "The body of the request did not come.",
    413: "The body of the request is too large.",
    503: "The feed's store is away, or too much is asked for at once; try again.",
}


def describe_paths(of_service: bool) -> dict[str, Any]:
    """The paths of feeds, as OpenAPI has them; with what only the service does, or without."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        if route.is_of_service and not of_service:
            continue
        paths.setdefault(route.path, {})[route.method.lower()] = _describe(route)
    return paths


def describe_schemas() -> dict[str, Any]:
    return {
        model.__name__: model.model_json_schema(ref_template=REFS) for model in (PostedEvent, SeenEntry, TokenWanted)
    }


def _describe(route: FeedRoute) -> dict[str, Any]:
    names = [
        {"name": one[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for one in route.words
        if is_name(one)
    ]
    query = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": text}
        for name, (schema, text) in route.query.items()
    ]
    refused = {"application/json": {"schema": {"$ref": REFS.format(model=Errors.__name__)}}}
    answers = {str(status): {"description": text, "content": refused} for status, text in ANSWERS.items()}
    kind = {"type": "string"} if route.media == "text/event-stream" else {"type": "object"}
    done = {str(route.status): {"description": "Done", "content": {route.media: {"schema": kind}}}}
    found = {
        "summary": route.summary,
        "operationId": f"{route.act.value}_feed",
        "security": [{"HTTPBearer": []}],
        "parameters": [*names, *query],
        "responses": {**done, **answers},
    }
    if route.body is not None:
        one = {"$ref": REFS.format(model=route.body.__name__)}
        schema = {"anyOf": [one, {"type": "array", "items": one}]} if route.act is FeedAct.POST else one
        is_needed = route.act is FeedAct.POST
        found["requestBody"] = {"required": is_needed, "content": {"application/json": {"schema": schema}}}
    return found
