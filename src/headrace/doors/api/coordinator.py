"""What the process that coordinates sites answers over HTTP: how all of them are, and what the project's files ask."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials

from headrace.app.site_processes import Coordinator
from headrace.doors.api.answers import NEEDS_TOKEN, NotAllowed, answer_errors
from headrace.doors.api.server import TOKEN, ApplyRequest, HttpServer
from headrace.doors.documents import applied_document


def coordinator_api(host: Coordinator, token: str) -> FastAPI:
    def allowed(given: Annotated[HTTPAuthorizationCredentials | None, Security(TOKEN)]) -> None:
        if given is None or not hmac.compare_digest(given.credentials.encode(), token.encode()):
            raise NotAllowed

    api = FastAPI(title="Headrace", docs_url=None, redoc_url=None, openapi_url=None)
    private = APIRouter(dependencies=[Depends(allowed)], responses=NEEDS_TOKEN)

    @api.get("/healthz")
    def healthz() -> JSONResponse:
        return JSONResponse({"state": host.state.value})

    @private.get("/status")
    def status() -> dict[str, Any]:
        return host.status()

    @private.post("/apply")
    def apply(wishes: ApplyRequest) -> JSONResponse:
        applied = host.apply(wishes.wishes)
        return JSONResponse(applied_document(applied))

    @private.get("/audit")
    def audit() -> dict[str, Any]:
        return host.audit()

    @private.post("/sites/{site}/forget")
    def forget(site: str) -> JSONResponse:
        return JSONResponse(applied_document(host.forget(site)))

    @private.post("/down", status_code=202)
    def down() -> dict[str, str]:
        host.stop.set()
        return {"state": "stopping"}

    api.include_router(private)
    answer_errors(api)
    return api


def serve_sites(host: Coordinator, token: str, port: int) -> HttpServer:
    return HttpServer(coordinator_api(host, token), port)
