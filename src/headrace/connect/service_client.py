"""Asks the service of a project, over HTTP on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any

from headrace.model.errors import ConnectError, HeadraceError, InputError, Location, Problem, UnknownName


def ask(
    port: int,
    token: str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    within_s: float | None = None,
) -> Any:
    """The answer's document. What the service refuses is raised here as it was there.

    Without `within_s` it waits as long as that takes: somebody else has to say why.
    """
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = HTTPConnection("127.0.0.1", port, timeout=within_s)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        document = json.loads(answer.read())
    except (OSError, HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ConnectError(f"the service at port {port} does not answer: {reason}", "is it still starting?") from error
    finally:
        connection.close()
    if answer.status < 300:
        return document
    if isinstance(document, dict) and "errors" in document:
        raise _read_refusal(answer.status, [_problem(one) for one in document["errors"]])
    raise ConnectError(f"the service at port {port} answered with status {answer.status}")


def _read_refusal(status: int, problems: Sequence[Problem]) -> HeadraceError:
    """What a service has refused, as its status tells it (`doors/api/answers.py`)."""
    if len(problems) == 1 and status == HTTPStatus.NOT_FOUND:
        return UnknownName(problems[0].message, problems[0].hint)
    if len(problems) == 1 and status == HTTPStatus.SERVICE_UNAVAILABLE:
        return ConnectError(problems[0].message, problems[0].hint)
    return InputError(problems)


def _problem(found: Mapping[str, Any]) -> Problem:
    where = Location(found["file"], found["line"], found["column"]) if found.get("file") else None
    return Problem(found["message"], where, found.get("hint"))
