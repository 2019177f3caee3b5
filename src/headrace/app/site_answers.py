"""What the process of a site answers to other sites, as bytes: how far it is, and what they have of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from headrace.connect.wire.rows import AFTER, MEDIA_TYPE, UPTO, write_rows
from headrace.coordinate.host import ServiceHost
from headrace.model.errors import EvaluationError
from headrace.model.wish import CopyWish
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import ChangesGone

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    body: bytes
    media_type: str = JSON
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


def tell_reach(host: ServiceHost, site: str) -> SiteAnswer:
    return _answer(lambda: _say(host.service.exporting.tell_reach(site)))


def tell_starts(host: ServiceHost, site: str) -> SiteAnswer:
    return _answer(lambda: _say(host.service.exporting.find_starts(site)))


def send_changes(host: ServiceHost, copy: str, after: int, wish: CopyWish, within_s: float) -> SiteAnswer:
    """What a copy lacks, once it is what was wished for, or some seconds have passed."""

    def read() -> SiteAnswer:
        segment = host.service.exporting.read_changes(copy, after, wish, within_s)
        headers = {AFTER: str(segment.after), UPTO: str(segment.upto)}
        return SiteAnswer(write_rows(segment.rows), MEDIA_TYPE, headers=headers)

    try:
        return _answer(read)
    except EvaluationError as error:  # the row stays among these changes: the copy starts anew once the row is good
        return _refuse(HTTPStatus.GONE, error)


def send_contents(host: ServiceHost, copy: str, t: int) -> SiteAnswer:
    try:
        return _answer(lambda: SiteAnswer(write_rows(host.service.exporting.read_contents(copy, t)), MEDIA_TYPE))
    except EvaluationError as error:
        return _refuse(HTTPStatus.TOO_EARLY, error)


def _say(found: object) -> SiteAnswer:
    return SiteAnswer(json.dumps(found).encode())


def _answer(read: Callable[[], SiteAnswer]) -> SiteAnswer:
    try:
        return read()
    except ChangesGone as error:
        return _refuse(HTTPStatus.GONE, error)
    except NotThereYet as error:
        return _refuse(HTTPStatus.TOO_EARLY, error)


def _refuse(status: HTTPStatus, error: Exception) -> SiteAnswer:
    return SiteAnswer(json.dumps({"errors": [{"message": str(error)}]}).encode(), status=status)
