"""Another site of the project, asked over HTTP. Implements `site.importing.SitePeer`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from urllib.parse import urlencode

import pyarrow as pa

from headrace.connect.wire.rows import AFTER, UPTO, read_rows
from headrace.model.errors import ConnectError
from headrace.model.wish import CopyWish
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import ChangesGone, Segment, SentChanges

ANSWER_WITHIN_S, HEARD_WITHIN_S = 10.0, 3.0
CONTENTS_WITHIN_S = 600.0
"""To send what a view starts from, however large it is: between two pieces of it no more than this may pass."""


@dataclass(frozen=True, slots=True)
class PeerAddress:
    host: str
    port: int
    token: str


@dataclass(frozen=True, slots=True)
class HttpPeer:
    """`find` tells where a site is now; None while it is not there."""

    name: str
    find: Callable[[], PeerAddress | None]

    def hear_reach(self, site: str) -> Mapping[str, int]:
        return self._ask_for_times("reach", site, HEARD_WITHIN_S)

    def find_starts(self, site: str) -> Mapping[str, int]:
        return self._ask_for_times("starts", site)

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges:
        asked = {"copy": copy, "after": after, "until": wish.t, "deadline": wish.deadline, "wait": within_s}
        answer, body = self._ask("changes", asked, within_s + ANSWER_WITHIN_S)
        try:
            span = int(answer.headers[AFTER]), int(answer.headers[UPTO])
        except (TypeError, ValueError) as error:
            raise self._say_unread() from error
        return SentChanges(Segment(*span, read_rows(body)), len(body))

    def read_contents(self, copy: str, t: int) -> pa.Table:
        _, body = self._ask("contents", {"copy": copy, "at": t}, CONTENTS_WITHIN_S)
        return read_rows(body)

    def _ask_for_times(self, what: str, site: str, within_s: float = ANSWER_WITHIN_S) -> Mapping[str, int]:
        _, body = self._ask(what, {"site": site}, within_s)
        try:
            return {str(name): int(t) for name, t in json.loads(body).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise self._say_unread() from error

    def _say_unread(self) -> ConnectError:
        return ConnectError(f'what site "{self.name}" answers cannot be read', "do both run the same version?")

    def _ask(self, what: str, asked: Mapping[str, object], within_s: float) -> tuple[HTTPResponse, bytes]:
        where = self.find()
        if where is None:
            raise ConnectError(f'site "{self.name}" does not run')
        connection = HTTPConnection(where.host, where.port, timeout=within_s)
        try:
            headers = {"Authorization": f"Bearer {where.token}"}
            connection.request("GET", f"/v1/{what}?{urlencode(asked)}", headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise ConnectError(f'site "{self.name}" does not answer: {reason}') from error
        finally:
            connection.close()
        if answer.status == HTTPStatus.OK:
            return answer, body
        why = _read_reason(body)
        match answer.status:
            case HTTPStatus.GONE:
                raise ChangesGone(why)
            case HTTPStatus.TOO_EARLY:
                raise NotThereYet(why)
            case _:
                raise ConnectError(f'site "{self.name}" answered with status {answer.status}: {why}')


def _read_reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["errors"][0]["message"])
    except (ValueError, LookupError, TypeError):
        return "it did not say why"
