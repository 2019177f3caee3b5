"""What the process of a site answers to other sites, under `/v1`: how far it is, and what they have of it.

The interface for people does not have these, and no token opens them. Whoever asks is known by its certificate, and
gets what the plan has it copy: nothing else leaves the site.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus

from headrace.connect.wire.rows import AFTER, ENDING, MEDIA_TYPE, PART, PARTS, UPTO, write_rows
from headrace.connect.wire.server import WireAnswer, WireRequest, answer_refusal
from headrace.coordinate.host import ServiceHost
from headrace.model.catalogue import Stays
from headrace.model.errors import EvaluationError
from headrace.model.wish import CopyWish
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import ChangesGone, NotForReader
from headrace.site.exporting import Exporting
from headrace.site.held_rows import TooManyRows, read_held_rows
from headrace.site.kept_stays import find_stays

LONGEST_WAIT_S = 20.0
LARGEST_PROBE = 64 * 1024 * 1024


class MisreadRequest(ValueError):
    """A request lacks something, or has it in another form."""


@dataclass(frozen=True, slots=True)
class SiteAsks:
    """What a site asks for: the site is that of the certificate, `words` are those of the request."""

    host: ServiceHost
    site: str
    words: Mapping[str, str]
    stays: Mapping[str, Stays | None]
    """Where rows of our own sources may be."""

    def text(self, name: str) -> str:
        if name not in self.words:
            raise MisreadRequest(f'"{name}" is missing')
        return self.words[name]

    def number(self, name: str) -> int:
        try:
            return int(self.text(name))
        except ValueError as error:
            raise MisreadRequest(f'"{name}" is not a number') from error


def tell_reach(asks: SiteAsks) -> WireAnswer:
    exporting = asks.host.service.exporting
    said = {ENDING: "1"} if exporting.ending.is_set() else {}
    return replace(_say(exporting.tell_reach(asks.site)), headers=said)


def tell_starts(asks: SiteAsks) -> WireAnswer:
    return _say(asks.host.service.exporting.find_starts(asks.site))


def send_changes(asks: SiteAsks) -> WireAnswer:
    """What a copy lacks, once it is what was wished for, or some seconds have passed."""
    copy, after = asks.text("copy"), asks.number("after")
    wish = CopyWish(asks.number("until"), asks.number("deadline"))
    exporting = _check_reader(asks, copy)
    try:
        segment = exporting.read_changes(copy, after, wish, min(_read_seconds(asks, "wait"), LONGEST_WAIT_S))
    except EvaluationError as error:  # the row stays among these changes: the copy starts anew once the row is good
        raise ChangesGone(str(error)) from error
    return WireAnswer(
        write_rows(segment.rows), MEDIA_TYPE, headers={AFTER: str(segment.after), UPTO: str(segment.upto)}
    )


def send_part(asks: SiteAsks) -> WireAnswer:
    """A part of the rows that a copy has at a time."""
    copy, t, number = asks.text("copy"), asks.number("at"), asks.number("from")
    exporting = _check_reader(asks, copy)
    try:
        part = exporting.read_part(copy, t, number)
    except EvaluationError as error:
        raise NotThereYet(str(error)) from error
    said = {PART: str(part.number), PARTS: str(part.of)}
    return WireAnswer(part.body, MEDIA_TYPE, headers=said, is_load=True)


def send_held(asks: SiteAsks) -> WireAnswer:
    """Rows of a source as of a time, for a site that checks a view which reads them."""
    service = asks.host.service
    state, planned = service.rounds.state, _find_planned_stays(asks.host)
    if state is None:
        raise NotThereYet("nothing runs here yet")
    asked = asks.site, asks.text("source"), asks.number("at")
    plan, kept = state.running.plan, (service.ledger, service.store)
    for stays in (asks.stays, planned):  # both have to allow it
        rows = read_held_rows(plan, state.program, kept, asked, stays)
    return WireAnswer(write_rows(rows), MEDIA_TYPE, is_load=True)


def send_probe(asks: SiteAsks) -> WireAnswer:
    """Bytes that mean nothing, so that the site that asks sees how fast they come. It stops reading after a second."""
    return WireAnswer(bytes(max(0, min(asks.number("bytes"), LARGEST_PROBE))), "application/octet-stream")


CALLS: Mapping[tuple[str, str], Callable[[SiteAsks], WireAnswer]] = {
    ("GET", "/v1/reach"): tell_reach,
    ("GET", "/v1/starts"): tell_starts,
    ("GET", "/v1/changes"): send_changes,
    ("GET", "/v1/snapshot"): send_part,
    ("GET", "/v1/held"): send_held,
    ("GET", "/v1/probe"): send_probe,
}


def answer_site(host: ServiceHost, request: WireRequest, stays: Mapping[str, Stays | None] | None = None) -> WireAnswer:
    """A site that has no `stays` of its own takes what the plan says."""
    call = CALLS.get((request.method, request.path))
    if call is None:
        return answer_refusal(HTTPStatus.NOT_FOUND, f"there is no {request.method} {request.path} here")
    site = None if request.peer is None else request.peer.name.site
    if site is None:
        return answer_refusal(HTTPStatus.FORBIDDEN, f"{request.path} is for sites of the project alone")
    try:
        return call(SiteAsks(host, site, request.query, _find_planned_stays(host) if stays is None else stays))
    except MisreadRequest as error:
        return answer_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"{request.path}: {error}")
    except NotForReader as error:
        return answer_refusal(HTTPStatus.FORBIDDEN, str(error))
    except ChangesGone as error:
        return answer_refusal(HTTPStatus.GONE, str(error))
    except TooManyRows as error:
        return answer_refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error))
    except NotThereYet as error:
        return answer_refusal(HTTPStatus.TOO_EARLY, str(error))


def _find_planned_stays(host: ServiceHost) -> Mapping[str, Stays | None]:
    running = host.service.running
    return {} if running is None else find_stays(running.plan)


def _check_reader(asks: SiteAsks, copy: str) -> Exporting:
    """What gives rows to others, once it is clear that these may have them. Raises NotForReader.

    Both have to allow it: what the site noted first, which no plan loosens, and the plan that runs, if it is stricter.
    """
    exporting = asks.host.service.exporting
    for stays in (asks.stays, _find_planned_stays(asks.host)):
        exporting.check_reader(copy, asks.site, {name: one for name, one in stays.items() if one is not None})
    return exporting


def _say(times: dict[str, int]) -> WireAnswer:
    return WireAnswer(json.dumps(times).encode())


def _read_seconds(asks: SiteAsks, name: str) -> float:
    try:
        found = float(asks.words.get(name, "0"))
    except ValueError as error:
        raise MisreadRequest(f'"{name}" is not a number of seconds') from error
    return found if found > 0.0 else 0.0  # also for what is not a number
