"""Asks the service of a project, over HTTP on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from headrace.model.errors import ConnectError, InputError, Location, Problem

CONNECT_WITHIN_S = 5.0


def ask(address: str, token: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """The answer's document; waits as long as it takes. What the service refuses is raised here as it was there."""
    headers = {"Authorization": f"Bearer {token}"}
    try:
        with httpx.Client(timeout=httpx.Timeout(None, connect=CONNECT_WITHIN_S), trust_env=False) as client:
            answer = client.request(method, f"{address}{path}", json=body, headers=headers)
            document = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ConnectError(f"the service at {address} does not answer: {reason}", "is it still starting?") from error
    if answer.is_success:
        return document
    if isinstance(document, dict) and "errors" in document:
        raise InputError(_problem(one) for one in document["errors"])
    raise ConnectError(f"the service at {address} answered with status {answer.status_code}")


def _problem(found: Mapping[str, Any]) -> Problem:
    where = Location(found["file"], found["line"], found["column"]) if found.get("file") else None
    return Problem(found["message"], where, found.get("hint"))
