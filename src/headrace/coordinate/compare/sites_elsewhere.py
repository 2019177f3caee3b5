"""Compares the views of sites that joined from elsewhere with their queries: `headrace audit --recompute` where the
project is coordinated.

The command asks sites itself, with the certificate of whoever coordinates, so it also works while nobody does.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from headrace.connect.wire.client import WireClient
from headrace.connect.wire.compared_rows import COMPARISON_PATH
from headrace.coordinate.agent_reports import NOT_JOINED_YET
from headrace.coordinate.asking_sites import open_clients, read_answer, read_reply
from headrace.coordinate.compare.compared import ComparedView, ComparedViews
from headrace.coordinate.compare.drive import CutAnswer, ShareProgress, SharingSite, compare_across
from headrace.model.errors import ConnectError, UsageError
from headrace.site.folder import Folder

CLOCK_WITHIN_S, OPEN_WITHIN_S, CUT_WITHIN_S, ANSWER_WITHIN_S = 5.0, 100.0, 60.0, 10.0


@dataclass(frozen=True, slots=True)
class HttpSharingSite:
    """A site that takes part in the comparison of an id."""

    client: WireClient
    comparison: str

    def read_clock(self) -> int:
        return int(read_answer(self.client, "GET", "/v1/ping", CLOCK_WITHIN_S)["clock"])

    def open(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._ask({"do": "open"}, OPEN_WITHIN_S)["unreadable"]
        return found

    def cut(self, t: int) -> CutAnswer:
        found = self._ask({"do": "cut", "t": t}, CUT_WITHIN_S)
        return CutAnswer(found["why_not"], found["unreadable"])

    def begin(self, t: int, contracts: tuple[str, ...]) -> None:
        self._ask({"do": "begin", "t": t, "contracts": contracts}, ANSWER_WITHIN_S)

    def look(self) -> ShareProgress:
        found = self._ask({"do": "look"}, ANSWER_WITHIN_S)
        views = tuple(ComparedView.from_wire(one) for one in found["views"])
        return ShareProgress(
            found["said"], bool(found["is_done"]), views, found["left_out"], float(found["writers_waited_s"])
        )

    def end(self) -> None:
        self._ask({"do": "end"}, ANSWER_WITHIN_S)

    def _ask(self, asked: Mapping[str, object], within_s: float) -> dict[str, Any]:
        body = {"comparison": self.comparison, **asked}
        reply = self.client.ask("POST", COMPARISON_PATH, within_s, body=body)
        if reply.status == HTTPStatus.NOT_FOUND:
            raise ConnectError(f"{self.client.shown} runs a version that compares nothing: upgrade it")
        if reply.status in (HTTPStatus.CONFLICT, HTTPStatus.GONE, HTTPStatus.TOO_EARLY):
            raise ConnectError(f"{self.client.shown} does not take part in the comparison: {reply.reason}")
        return read_reply(self.client.shown, reply)


def compare_joined(folder: Folder, say: Callable[[str], None]) -> ComparedViews:
    """Raises UsageError if nothing was planned yet."""
    plan = folder.running()
    if plan is None:
        raise UsageError(f'the project in "{folder.project}" has not run yet', "start it with `headrace up`")
    sites = sorted({one.site for one in plan.contracts} | {one.site for one in plan.catalogue.sources.values()})
    with open_clients(folder) as clients:

        def open_sites() -> dict[str, SharingSite]:
            comparison, there = secrets.token_hex(8), (site for site in sites if site in clients)
            return {site: HttpSharingSite(clients[site], comparison) for site in there}

        away = {site: NOT_JOINED_YET.format(site) for site in sites if site not in clients}
        return compare_across(plan, open_sites, away, say)
