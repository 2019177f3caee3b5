"""Rows that one site gives another for a comparison of views with their queries, asked for over HTTPS."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from headrace.connect.wire.client import WireClient, raise_refusal
from headrace.connect.wire.rows import PART, PARTS
from headrace.connect.wire.snapshot_files import SnapshotPart
from headrace.model.errors import ConnectError
from headrace.run.push.engine import NotThereYet

COMPARISON_PATH, ROWS_PATH = "/v1/comparison", "/v1/compared-rows"
"""What the coordinator asks sites, and sites ask each other."""
PART_WITHIN_S = 60.0


class RowsRefused(Exception):
    """The other site gives these rows to nobody, or not to us, and why."""


@dataclass(frozen=True, slots=True)
class HttpRowsGiver:
    """A site that takes part in a comparison, by the comparison's id."""

    client: WireClient
    comparison: str

    def read_part(self, name: str, number: int) -> SnapshotPart:
        """Raises NotThereYet, RowsRefused, or ConnectError if nobody answers."""
        asked = {"comparison": self.comparison, "of": name, "from": number}
        reply = self.client.ask("GET", ROWS_PATH, PART_WITHIN_S, asked)
        match reply.status:
            case HTTPStatus.TOO_EARLY:
                raise NotThereYet(reply.reason)
            case HTTPStatus.GONE | HTTPStatus.FORBIDDEN | HTTPStatus.NOT_FOUND:
                raise RowsRefused(reply.reason)
            case _:
                raise_refusal(self.client.shown, reply)
        try:
            return SnapshotPart(int(reply.headers[PART]), int(reply.headers[PARTS]), reply.body)
        except (TypeError, ValueError) as error:
            what = f"what {self.client.shown} answers cannot be read"
            raise ConnectError(what, "do both run the same version?") from error
