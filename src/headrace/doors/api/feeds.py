"""Pages of feeds over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from headrace.app.running import ServiceHost
from headrace.doors.api.answers import NAMES_SOMETHING, Errors, answer_later
from headrace.model.errors import ConnectError

LONGEST_CURSOR = 50_000
"""Characters: the head of a request has 64 kB."""


def feed_routes(api: APIRouter, host: ServiceHost) -> None:
    @api.get(
        "/feeds/{feed}/{consumer}",
        responses={**NAMES_SOMETHING, 503: {"model": Errors, "description": "The feed's store is away; try again."}},
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
