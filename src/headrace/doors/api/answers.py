"""How requests that cannot be served are answered: always with `{"errors": [{message, file, line, column, hint}]}`.

401 without a token, 403 for what a token does not allow, 404 for names and paths that are not there, 422 for what is
misread or refused, 503 for what is away and comes back by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from headrace.doors.cli.output import problem_document
from headrace.model.errors import ConnectError, HeadraceError, InputError, Problem, UnknownName, UsageError

RETRY_AFTER_S = "2"
SEND_TOKEN = "send `Authorization: Bearer TOKEN`"


class ErrorEntry(BaseModel):
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None


class Errors(BaseModel):
    """Everything that is wrong with a request."""

    errors: list[ErrorEntry]


NEEDS_TOKEN: dict[int | str, dict[str, Any]] = {
    401: {"model": Errors, "description": "The token is missing or wrong."},
    422: {"model": Errors, "description": "The request cannot be read, or is refused."},
}
"""Answers of every request that needs the token."""
NAMES_SOMETHING: dict[int | str, dict[str, Any]] = {
    **NEEDS_TOKEN,
    404: {"model": Errors, "description": "Nothing of that name is there."},
}


class NotAllowed(Exception):
    """A request came without a token, or with a wrong one."""


def answer_errors(api: FastAPI) -> None:
    """Has an interface answer errors as this module says."""
    api.add_exception_handler(NotAllowed, _refuse_token)
    api.add_exception_handler(InputError, _refuse_request)
    api.add_exception_handler(UsageError, _refuse_request)
    api.add_exception_handler(ConnectError, _refuse_request)
    api.add_exception_handler(RequestValidationError, _refuse_form)
    api.add_exception_handler(HTTPException, _refuse_path)


def _answer(status: int, problems: Iterable[Problem], headers: dict[str, str] | None = None) -> Response:
    # In ASCII: a request may hold halves of characters, which an error repeats and UTF-8 cannot hold.
    answer = json.dumps({"errors": [problem_document(problem) for problem in problems]})
    return Response(answer, status, headers, "application/json")


def answer_problem(
    status: int, message: str, hint: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    """One thing that is wrong with a request."""
    if status == HTTPStatus.UNAUTHORIZED:
        headers = {"WWW-Authenticate": "Bearer"}
    return _answer(status, [Problem(message, None, hint)], headers)


def answer_error(error: HeadraceError) -> Response:
    """What is away comes back by itself; everything else is wrong with the request."""
    if isinstance(error, ConnectError):
        return answer_problem(503, error.message, error.hint, {"Retry-After": RETRY_AFTER_S})
    if isinstance(error, InputError):
        return _answer(422, error.problems)
    assert isinstance(error, UsageError)
    return answer_problem(404 if isinstance(error, UnknownName) else 422, error.message, error.hint)


def _refuse_token(request: Request, error: Exception) -> Response:
    problem = Problem("this request needs the token of the service", None, SEND_TOKEN)
    return _answer(401, [problem], {"WWW-Authenticate": "Bearer"})


def _refuse_request(request: Request, error: Exception) -> Response:
    if isinstance(error, InputError):
        return _answer(422, error.problems)
    assert isinstance(error, UsageError | ConnectError)
    return _answer(404 if isinstance(error, UnknownName) else 422, [Problem(error.message, None, error.hint)])


def _refuse_form(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [Problem(f"{'.'.join(map(str, one['loc']))}: {one['msg']}", None, "see /docs") for one in error.errors()]
    return _answer(422, problems)


def _refuse_path(request: Request, error: Exception) -> Response:
    """A path that is not there, a method that it does not take, or a body that is no text (400)."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return _answer(422, [Problem("the body of the request cannot be read", None, "see /docs")])
    what = f"{request.method} {request.url.path}: {HTTPStatus(error.status_code).phrase.lower()}"
    return _answer(error.status_code, [Problem(what, None, "see /docs")], dict(error.headers or {}))
