"""Feeds over HTTP: pages, posts, whom consumers follow and whom they do not want to see."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict

from headrace.app.running import ServiceHost
from headrace.doors.api.answers import NAMES_SOMETHING, Errors, answer_later
from headrace.model.errors import ConnectError

LONGEST_CURSOR = 50_000
"""Characters: the head of a request has 64 kB."""


MAY_BE_AWAY: dict[int | str, dict[str, Any]] = {
    **NAMES_SOMETHING,
    503: {"model": Errors, "description": "The feed's store is away; try again."},
}


class Hidden(StrEnum):
    """What a consumer has against a producer, as paths call it."""

    MUTES = "mutes"
    BLOCKS = "blocks"


class Posted(BaseModel):
    """An event. Without a time it is of now; the body is any JSON."""

    model_config = ConfigDict(extra="forbid")
    producer: str
    id: str
    time: str | None = None
    body: Any = None


def feed_routes(api: APIRouter, host: ServiceHost) -> None:
    @api.get(
        "/feeds/{feed}/{consumer}",
        responses=MAY_BE_AWAY,
        summary="A page of a consumer's feed: {as_of, lag_s, entries, next, stored, pulled}",
    )
    def page(
        feed: str,
        consumer: str,
        limit: Annotated[int | None, Query(ge=1, description="entries; those of the feed if left out")] = None,
        before: Annotated[str | None, Query(description="`next` of the page before", max_length=LONGEST_CURSOR)] = None,
    ) -> Response:
        try:
            return JSONResponse(host.read_feed(feed, consumer, limit, before))
        except ConnectError as error:
            return answer_later(error)

    @api.post(
        "/feeds/{feed}/events",
        responses=NAMES_SOMETHING,
        summary="Post events, if the feed says `events: api`; one with the id of an earlier one takes its place",
    )
    def post(feed: str, posted: Posted | list[Posted]) -> Response:
        several = posted if isinstance(posted, list) else [posted]
        host.post_to_feed(feed, [one.model_dump() for one in several])
        return JSONResponse({"feed": feed, "posted": len(several)})

    @api.delete(
        "/feeds/{feed}/events/{producer}/{event}",
        responses=NAMES_SOMETHING,
        summary="Delete an event that was posted",
    )
    def delete(feed: str, producer: str, event: str) -> Response:
        host.delete_from_feed(feed, producer, event)
        return JSONResponse({"feed": feed, "producer": producer, "id": event, "deleted": True})

    @api.put(
        "/feeds/{feed}/follows/{consumer}/{producer}",
        responses=NAMES_SOMETHING,
        summary="Follow a producer, if the feed says `follows: api`",
    )
    def follow(feed: str, consumer: str, producer: str) -> Response:
        host.follow_in_feed(feed, consumer, producer, undo=False)
        return JSONResponse({"feed": feed, "consumer": consumer, "producer": producer, "follows": True})

    @api.delete("/feeds/{feed}/follows/{consumer}/{producer}", responses=NAMES_SOMETHING, summary="Unfollow a producer")
    def unfollow(feed: str, consumer: str, producer: str) -> Response:
        host.follow_in_feed(feed, consumer, producer, undo=True)
        return JSONResponse({"feed": feed, "consumer": consumer, "producer": producer, "follows": False})

    @api.put(
        "/feeds/{feed}/{what}/{consumer}/{producer}",
        responses=MAY_BE_AWAY,
        summary="Mute or block a producer: the consumer does not see it from the next page on",
    )
    def hide(feed: str, what: Hidden, consumer: str, producer: str) -> Response:
        return change_hidden(feed, what, consumer, producer, undo=False)

    @api.delete(
        "/feeds/{feed}/{what}/{consumer}/{producer}",
        responses=MAY_BE_AWAY,
        summary="Take back that a producer was muted or blocked",
    )
    def unhide(feed: str, what: Hidden, consumer: str, producer: str) -> Response:
        return change_hidden(feed, what, consumer, producer, undo=True)

    def change_hidden(feed: str, what: Hidden, consumer: str, producer: str, undo: bool) -> Response:
        try:
            host.hide_in_feed(feed, consumer, producer, what.removesuffix("s"), undo)
        except ConnectError as error:
            return answer_later(error)
        return JSONResponse({"feed": feed, "consumer": consumer, "producer": producer, what.value: not undo})


def calibrate_route(api: APIRouter, host: ServiceHost) -> None:
    @api.post(
        "/feeds/{feed}/calibrate",
        responses=MAY_BE_AWAY,
        summary="Measure what it costs to store and to fetch, on the feed's own store; answers when that is done",
    )
    def calibrate(feed: str) -> Response:
        try:
            return JSONResponse(host.calibrate_feed(feed))
        except ConnectError as error:
            return answer_later(error)
