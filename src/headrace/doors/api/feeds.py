"""Pages of feeds over HTTP, and whom consumers do not want to see."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

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
