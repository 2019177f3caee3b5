"""What other sites ask of the process of a site. For sites alone: the interface for people does not describe it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from headrace.app.running import ServiceHost
from headrace.app.site_answers import SiteAnswer, send_changes, send_contents, tell_reach, tell_starts
from headrace.model.wish import CopyWish

LONGEST_WAIT_S = 20.0


def add_site_routes(api: APIRouter, host: ServiceHost) -> None:
    @api.get("/v1/reach", include_in_schema=False)
    def reach(site: str) -> Response:
        return _respond(tell_reach(host, site))

    @api.get("/v1/starts", include_in_schema=False)
    def starts(site: str) -> Response:
        return _respond(tell_starts(host, site))

    @api.get("/v1/changes", include_in_schema=False)
    def changes(
        copy: str, after: int, until: int, deadline: int, wait: Annotated[float, Query(ge=0.0, le=LONGEST_WAIT_S)] = 0.0
    ) -> Response:
        return _respond(send_changes(host, copy, after, CopyWish(until, deadline), wait))

    @api.get("/v1/contents", include_in_schema=False)
    def contents(copy: str, at: int) -> Response:
        return _respond(send_contents(host, copy, at))


def _respond(answer: SiteAnswer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers), answer.media_type)
