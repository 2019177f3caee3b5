"""Another site of the project, asked over HTTPS. Implements `site.importing.SitePeer`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import pyarrow as pa

from headrace.connect.wire.client import WireClient, WireReply, raise_refusal
from headrace.connect.wire.rows import AFTER, ENDING, PART, PARTS, UPTO, read_rows
from headrace.connect.wire.snapshot_files import SnapshotPart
from headrace.model.errors import ConnectError
from headrace.model.link_counts import PROBE_FOR_S, LinkCounts, LinkProbe
from headrace.model.wish import CopyWish, HeardReach
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import ChangesGone, Segment, SentChanges

ANSWER_WITHIN_S, HEARD_WITHIN_S = 10.0, 3.0
CONTENTS_WITHIN_S = 600.0
"""To make what a view starts from, and send a part of it."""


@dataclass(frozen=True, slots=True)
class HttpPeer:
    """The site that is asked knows from our certificate who asks."""

    client: WireClient

    def hear_reach(self) -> HeardReach:
        reply = self._ask("reach", {}, HEARD_WITHIN_S)
        return HeardReach(self._read_times(reply), is_ending=reply.headers.get(ENDING) is not None)

    def find_starts(self) -> Mapping[str, int]:
        return self._ask_for_times("starts")

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges:
        asked = {"copy": copy, "after": after, "until": wish.t, "deadline": wish.deadline, "wait": within_s}
        reply = self._ask("changes", asked, within_s + ANSWER_WITHIN_S)
        try:
            span = int(reply.headers[AFTER]), int(reply.headers[UPTO])
        except (TypeError, ValueError) as error:
            raise self._say_unread() from error
        return SentChanges(Segment(*span, read_rows(reply.body)), len(reply.body))

    def read_part(self, copy: str, t: int, number: int) -> SnapshotPart:
        reply = self._ask("snapshot", {"copy": copy, "at": t, "from": number}, CONTENTS_WITHIN_S)
        try:
            return SnapshotPart(int(reply.headers[PART]), int(reply.headers[PARTS]), reply.body)
        except (TypeError, ValueError) as error:
            raise self._say_unread() from error

    def read_held(self, source: str, t: int) -> pa.Table | None:
        reply = self.client.ask("GET", "/v1/held", ANSWER_WITHIN_S, {"source": source, "at": t})
        if reply.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return None
        return read_rows(self._check(reply).body)

    def look_at_link(self) -> LinkCounts:
        return self.client.meter.look()

    def probe_link(self, size: int) -> LinkProbe | None:
        return self.client.probe("/v1/probe", {"bytes": size}, HEARD_WITHIN_S, PROBE_FOR_S)

    def _ask_for_times(self, what: str, within_s: float = ANSWER_WITHIN_S) -> Mapping[str, int]:
        return self._read_times(self._ask(what, {}, within_s))

    def _read_times(self, reply: WireReply) -> Mapping[str, int]:
        try:
            return {str(name): int(t) for name, t in json.loads(reply.body).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise self._say_unread() from error

    def _say_unread(self) -> ConnectError:
        return ConnectError(f"what {self.client.shown} answers cannot be read", "do both run the same version?")

    def _ask(self, what: str, asked: Mapping[str, object], within_s: float) -> WireReply:
        return self._check(self.client.ask("GET", f"/v1/{what}", within_s, asked))

    def _check(self, reply: WireReply) -> WireReply:
        match reply.status:
            case HTTPStatus.GONE:
                raise ChangesGone(reply.reason)
            case HTTPStatus.TOO_EARLY:
                raise NotThereYet(reply.reason)
            case _:
                raise_refusal(self.client.shown, reply)
        return reply
