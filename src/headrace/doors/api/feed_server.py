"""A process that serves feeds alone; the service starts several on one port (`site/feeds/servers.py`).

It answers all that is below `/feeds/`, and for those who watch it `/healthz`, `/metrics`, `/openapi.json` and `/docs`.
The service's own token does not count here: apps and consumers have their own.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.app.feed_serving import FeedServing, open_feed_serving, share_port
from headrace.app.lean_start import keep_pandas_out
from headrace.doors.api.answers import ErrorEntry, Errors, answer_problem
from headrace.doors.api.feed_metrics import FeedServerCollector
from headrace.doors.api.feed_table import PREFIX, REFS, describe_paths, describe_schemas
from headrace.doors.api.feeds import FeedHttp, find_token
from headrace.doors.api.page import documentation_page
from headrace.doors.api.serving import END_WITHIN_S, QuietServer

TOKEN_TEXT = "The token of an app, or one that an app has minted for a consumer."
MOST_CONNECTIONS = 5000
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class FeedServerHttp:
    """All that a feed server answers, as an ASGI application."""

    def __init__(self, serving: FeedServing) -> None:
        self.feeds = FeedHttp(serving.door, serving.explain, token=None)
        self._serving = serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        app: ASGIApp = self.feeds if scope["path"].startswith(PREFIX) else self._answer(scope)
        await app(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        path = scope["path"]
        if path not in ("/healthz", "/openapi.json", "/docs", "/", "/metrics"):
            return answer_problem(404, f"{scope['method']} {path}: not found", "see /docs")
        if scope["method"] != "GET":
            return answer_problem(405, f"{scope['method']} {path}: method not allowed", "see /docs", {"Allow": "GET"})
        if path == "/healthz":
            return self._tell_health()
        if path == "/openapi.json":
            return JSONResponse(describe_server())
        if path != "/metrics":
            return HTMLResponse(documentation_page(describe_server(), "it is one of an app, or one that it minted"))
        caller = self.feeds.find_caller(find_token(scope))
        if caller is None:
            return answer_problem(401, "this request needs the token of an app", "send `Authorization: Bearer TOKEN`")
        if caller.app is None or caller.claims is not None:
            return answer_problem(403, "metrics need the token of an app, not of a consumer")
        registry = CollectorRegistry()
        registry.register(FeedServerCollector(self._serving, self.feeds.streams.counts, caller.app.may_use))
        return PlainTextResponse(generate_latest(registry).decode(), media_type=METRICS_TYPE)

    def _tell_health(self) -> Response:
        trouble, told = self._serving.served.trouble, {"state": "running", "pid": os.getpid()}
        return JSONResponse(told) if trouble is None else JSONResponse({**told, "reason": trouble}, 503)


def describe_server() -> dict[str, Any]:
    """OpenAPI of a feed server."""
    told = {"description": "Done", "content": {"application/json": {"schema": {"type": "object"}}}}
    text = {"description": "Done", "content": {"text/plain": {"schema": {"type": "string"}}}}
    health = {"summary": "Whether the server runs; needs no token", "responses": {"200": told, "503": told}}
    metrics = {
        "summary": "What this process has served of the feeds that the app may use, for Prometheus; the service's own"
        " /metrics has the sum",
        "security": [{"HTTPBearer": []}],
        "responses": {"200": text},
    }
    schemas = {one.__name__: one.model_json_schema(ref_template=REFS) for one in (ErrorEntry, Errors)}
    scheme = {"type": "http", "scheme": "bearer", "description": TOKEN_TEXT}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace feeds", "description": "The feeds of a running project.", "version": "0.1.0"},
        "paths": {"/healthz": {"get": health}, "/metrics": {"get": metrics}, **describe_paths(of_service=False)},
        "components": {
            "schemas": {**schemas, **describe_schemas()},
            "securitySchemes": {"HTTPBearer": scheme},
        },
    }


def main() -> None:
    """Serves until its input ends, or it is told to."""
    keep_pandas_out()
    said = json.loads(sys.stdin.readline())
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {os.getpid()} %(levelname)s %(message)s")
    serving = open_feed_serving(Path(said["project"]), os.environ, Path(said["home"]))
    http = FeedServerHttp(serving)
    config = uvicorn.Config(
        http,
        log_config=None,
        access_log=False,
        lifespan="off",
        ssl_certfile=said["certificate"],
        ssl_keyfile=said["key"],
        timeout_graceful_shutdown=END_WITHIN_S,
        limit_concurrency=MOST_CONNECTIONS,
    )
    server = QuietServer(config, http.feeds.streams.close)
    threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    with share_port(said["host"], said["port"]) as listening:
        listening.listen(config.backlog)
        serving.start(lambda: http.feeds.streams.count)
        server.run([listening])
    http.feeds.close()
    serving.end()


def _end_with_input(server: uvicorn.Server) -> None:
    """The service holds the other end: when it is gone, nobody follows what runs."""
    sys.stdin.read()
    server.should_exit = True


if __name__ == "__main__":
    main()
