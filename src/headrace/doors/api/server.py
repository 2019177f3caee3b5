"""Serves a running project over HTTP, on this machine only, to clients with the token.

The server runs in a thread of the service, and answers each request in its own thread, so that a slow request holds up
neither other requests nor pushes.
"""

from __future__ import annotations

import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Query, Security
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.app import reading
from headrace.app.happened import EventsAsked, check_contract, event_document
from headrace.app.running import ServiceHost
from headrace.doors.api.answers import NAMES_SOMETHING, NEEDS_TOKEN, NotAllowed, answer_errors
from headrace.doors.api.feed_table import PREFIX, describe_paths, describe_schemas
from headrace.doors.api.feeds import FeedHttp
from headrace.doors.api.metrics import metrics_text
from headrace.doors.api.page import documentation_page
from headrace.doors.api.serving import END_WITHIN_S, QuietServer
from headrace.doors.documents import applied_document, reread_document, seen_document
from headrace.model.errors import UnknownName, UsageError
from headrace.model.options import ApplyWishes
from headrace.model.plan_modes import Method, PlanWishes, Sharing, WideArea

if TYPE_CHECKING:
    from headrace.app.late_server import ListeningPort

LOOPBACK = "127.0.0.1"
START_WITHIN_S = 15.0
ROWS_AT_ONCE = 1000
MOST_ROWS = 1_000_000
EVENTS_AT_ONCE, MOST_EVENTS = 50, 10_000
LAST_EVENT = 2**63 - 1
LONGEST_SQL, LONGEST_NAME = 2_000, 200
"""Characters: all that a request may hold fits into the 64 kB that the server reads of its head."""
JSON_LINES = {**NAMES_SOMETHING, 200: {"description": "JSON lines", "content": {"application/x-ndjson": {}}}}
NEWEST = EventsAsked(limit=1, routine=True, latest=True)


TOKEN = HTTPBearer(auto_error=False, description="The token is in .headrace/service.json.")


class ApplyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    replan: bool = False
    force: list[str] = []
    dry_run: bool = False
    method: Annotated[Method | None, Field(strict=False)] = None
    share: Annotated[Sharing | None, Field(strict=False)] = None
    wide_area: Annotated[WideArea | None, Field(strict=False)] = None

    @property
    def wishes(self) -> ApplyWishes:
        planning = PlanWishes(self.method, self.share, self.wide_area)
        return ApplyWishes(self.replan, tuple(self.force), self.dry_run, planning)


class CountedReads(BaseModel):
    """Reads by consumer, and the seconds that they took."""

    counts: dict[str, int]
    seconds: list[float]


class ServerReport(BaseModel):
    """What a feed server has counted since its last report, by feed; `trouble` if it cannot read what runs."""

    model_config = ConfigDict(extra="forbid")
    reads: dict[str, CountedReads]
    streams: int
    trouble: str | None = None


class Flag(StrEnum):
    """A yes or no, written in one way only: what else might mean `true` is not guessed."""

    TRUE = "true"
    FALSE = "false"


class ServiceHttp:
    """All that a service answers, as an ASGI application: feeds go a shorter way."""

    def __init__(self, host: ServiceHost, token: str) -> None:
        explain = partial(explain_pair, host)
        self.feeds = FeedHttp(host.service.feed_door, explain, token, host.calibrate_feed)
        self._api = service_api(host, token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_feed = scope["type"] == "http" and scope["path"].startswith(PREFIX)
        app: ASGIApp = self.feeds if is_feed else self._api
        await app(scope, receive, send)


def explain_pair(host: ServiceHost, feed: str, consumer: str, producer: str) -> dict[str, object]:
    return explain_name(host, f"{feed}:{consumer}<-{producer}")


def explain_name(host: ServiceHost, name: str) -> dict[str, object]:
    """What explains decisions can plan anew: it is imported when somebody asks, which few sites are."""
    from headrace.app.explaining import explain_running
    from headrace.doors.cli.why_text import explained_document

    return explained_document(name, explain_running(host, name), host.status())


def describe_service(api: FastAPI) -> dict[str, Any]:
    """OpenAPI of the service, with feeds, which have a table of their own."""
    found = api.openapi()
    components = {**found["components"], "schemas": {**found["components"]["schemas"], **describe_schemas()}}
    return {**found, "paths": {**found["paths"], **describe_paths(of_service=True)}, "components": components}


def service_api(host: ServiceHost, token: str) -> FastAPI:
    """Everything but feeds."""

    def allowed(given: Annotated[HTTPAuthorizationCredentials | None, Security(TOKEN)]) -> None:
        if given is None or not hmac.compare_digest(given.credentials.encode(), token.encode()):
            raise NotAllowed

    api = FastAPI(
        title="Headrace",
        description="A running project: what it keeps, how far behind it is, and why.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    _open_routes(api, host)
    private = APIRouter(dependencies=[Depends(allowed)], responses=NEEDS_TOKEN)
    for add_routes in (_view_routes, _plan_routes, _device_routes, _history_routes, _acting_routes):
        add_routes(private, host)
    api.include_router(private)
    answer_errors(api)
    return api


def _open_routes(api: FastAPI, host: ServiceHost) -> None:
    """What anybody on this machine may see: that the service is there, and how to ask it."""

    @api.get(
        "/healthz",
        summary="Whether the service runs; needs no token",
        responses={503: {"description": "The service runs but makes no progress; the reason says why."}},
    )
    def healthz() -> JSONResponse:
        reason, state = host.service.troubles.standstill(), {"state": host.state.value}
        return JSONResponse(state) if reason is None else JSONResponse({**state, "reason": reason}, 503)

    @api.get("/openapi.json", include_in_schema=False)
    def openapi() -> JSONResponse:
        return JSONResponse(describe_service(api))

    @api.get("/", include_in_schema=False)
    @api.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(documentation_page(describe_service(api)))


def _view_routes(api: APIRouter, host: ServiceHost) -> None:
    @api.get("/status", summary="Lags, violations, costs, replication slots")
    def status() -> dict[str, Any]:
        return host.status()

    @api.get("/views/{view}", responses=NAMES_SOMETHING, summary="Rows of a view, and how recent they are")
    def rows(
        view: str,
        limit: Annotated[int, Query(ge=0, le=MOST_ROWS)] = ROWS_AT_ONCE,
        where: Annotated[
            str | None, Query(description="only rows that satisfy this SQL condition", max_length=LONGEST_SQL)
        ] = None,
        order: Annotated[
            str | None, Query(description="sort keys in SQL, as after ORDER BY", max_length=LONGEST_SQL)
        ] = None,
        at: Annotated[str | None, Query(description="an age (10s), or a time", max_length=LONGEST_NAME)] = None,
    ) -> JSONResponse:
        asked = reading.ask_for(where, order)
        return JSONResponse(seen_document(host.reader().rows(view, limit, asked, reading.read_time(at))))

    @api.get(
        "/views/{view}/changes",
        response_class=StreamingResponse,
        responses=JSON_LINES,
        summary="Changes after a time, as JSON lines {t, op, row}; the header X-Headrace-Upto says up to which time",
    )
    def changes(
        view: str,
        after: Annotated[
            str | None,
            Query(alias="from", max_length=LONGEST_NAME, description="an age (10s), a time, or `beginning`"),
        ] = None,
    ) -> StreamingResponse:
        upto, found = reading.changes_as_json(host.reader(), view, reading.read_moment(after))
        lines: Iterator[str] = (json.dumps(change, ensure_ascii=False) + "\n" for change in found)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers={"X-Headrace-Upto": str(upto)})


def _plan_routes(api: APIRouter, host: ServiceHost) -> None:
    @api.get("/plan", summary="The running plan, as a plan document")
    def plan() -> JSONResponse:
        from headrace.app.planning import plan_document

        return JSONResponse(plan_document(host.reader().plan))

    @api.get(
        "/why/{name:path}", responses=NAMES_SOMETHING, summary="Why a contract, view or vertex is planned as it is"
    )
    def why(name: str) -> JSONResponse:
        return JSONResponse(explain_name(host, name))


def _device_routes(api: APIRouter, host: ServiceHost) -> None:
    @api.get("/devices", summary="Devices: who is online, what each runs and sends, and what the router has counted")
    def devices() -> JSONResponse:
        return JSONResponse(host.devices.tell_devices())

    @api.get(
        "/devices/{device}/plan", responses=NAMES_SOMETHING, summary="What a device was told to run, send and take"
    )
    def device_plan(device: str) -> JSONResponse:
        return JSONResponse(host.devices.tell_plan(device))


def _history_routes(api: APIRouter, host: ServiceHost) -> None:
    @api.get("/audit", summary="Which promises were broken, and what contracts cost")
    def audit() -> dict[str, Any]:
        return host.audit()

    @api.get(
        "/events",
        response_class=StreamingResponse,
        responses=JSON_LINES,
        summary="What happened, as JSON lines {at, kind, about, text, reason, numbers}, oldest first; "
        "the header X-Headrace-Next says after which event to go on",
    )
    def events(
        after: Annotated[
            int | None, Query(ge=0, le=LAST_EVENT, description="only events after this one; the last if left out")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = EVENTS_AT_ONCE,
        contract: Annotated[
            str | None, Query(description="only events about this contract", max_length=LONGEST_NAME)
        ] = None,
        routine: Annotated[
            Flag, Query(alias="all", description="also every push and every capture of changes")
        ] = Flag.FALSE,
    ) -> StreamingResponse:
        asked = EventsAsked(after or 0, limit, contract, routine is Flag.TRUE, latest=after is None)
        upto, found = host.events(asked)
        if contract is not None and not found and not host.events(replace(NEWEST, contract=contract))[1]:
            check_contract(host.folder, contract)
        lines = (json.dumps(event_document(event), ensure_ascii=False) + "\n" for event in found)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers={"X-Headrace-Next": str(upto)})

    @api.get("/metrics", summary="The same for Prometheus", responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> PlainTextResponse:
        return PlainTextResponse(metrics_text(host), media_type="text/plain; version=0.0.4; charset=utf-8")


def _acting_routes(api: APIRouter, host: ServiceHost) -> None:
    @api.post("/apply", responses=NAMES_SOMETHING, summary="Make the running project match its files")
    def apply(wishes: ApplyRequest) -> JSONResponse:
        applied = host.apply(wishes.wishes)
        return JSONResponse(applied_document(applied))

    @api.post(
        "/sources/{source}/reread",
        responses=NAMES_SOMETHING,
        summary="Read a source again and rebuild everything computed from it; answers when that is done",
    )
    def reread(source: str) -> JSONResponse:
        return JSONResponse(reread_document(host.reread(source)))

    @api.post("/feed-servers/{pid}", responses=NAMES_SOMETHING, summary="For feed servers: what one has served")
    def report(pid: int, report: ServerReport) -> dict[str, str]:
        if host.feed_servers is None or not host.feed_servers.hear(pid, report.model_dump()):
            raise UnknownName(f"process {pid} is no feed server of this service")
        return {"state": "heard"}

    @api.post("/down", summary="End the service", status_code=202)
    def down() -> dict[str, str]:
        host.stop.set()
        return {"state": "stopping"}


class HttpServer:
    """Serves until it is stopped. `before_end` closes what would go on otherwise, `after_end` what nobody asks then.

    A `small` one does without the faster libraries, their memory and their threads. One that is `listening` already
    does so at that port.
    """

    def __init__(
        self,
        http: ASGIApp,
        port: int,
        before_end: Callable[[], None] = lambda: None,
        after_end: Callable[[], None] = lambda: None,
        small: bool = False,
        listening: ListeningPort | None = None,
    ) -> None:
        config = uvicorn.Config(
            http,
            host=LOOPBACK,
            port=port,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            loop="asyncio" if small else "auto",
            http="h11" if small else "auto",
            timeout_graceful_shutdown=END_WITHIN_S,
        )
        self._after_end = after_end
        self._server, self._listening = QuietServer(config, before_end), listening
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()
        until = time.monotonic() + START_WITHIN_S
        while not self._server.started:
            if not self._thread.is_alive() or (listening is None and time.monotonic() > until):
                raise UsageError(
                    f"port {port} of this machine is in use", "choose another with --port, or leave --port out"
                )
            time.sleep(0.01)

    def _run(self) -> None:
        try:
            self._server.run(None if self._listening is None else [self._listening.socket])
        except SystemExit:
            return  # uvicorn's way to say that the port is taken

    @property
    def port(self) -> int:
        found: int = self._server.servers[0].sockets[0].getsockname()[1]
        return found

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._after_end()


def serve(host: ServiceHost, token: str, port: int, listening: ListeningPort | None = None) -> HttpServer:
    http = ServiceHttp(host, token)
    is_small = host.service.site is not None  # where the rows of views and feeds are served is another process, or few
    return HttpServer(http, port, http.feeds.streams.close, http.feeds.close, small=is_small, listening=listening)
