"""An authority of its own, and processes that it has given certificates to, at times that a test chooses."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.connect.wire.client import WireAddress, WireClient
from headrace.connect.wire.contexts import IDENTITY_FOLDER, WireIdentity
from headrace.connect.wire.identity import LASTS
from headrace.connect.wire.identity_files import give_certificate, open_authority
from headrace.connect.wire.limit import LinkLimits
from headrace.connect.wire.server import WRITE_WITHIN_S, AnswerRequest, WireServer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class WireWorld:
    folder: Path
    clients: list[WireClient] = field(default_factory=list)

    def identity(
        self, site: str | None, authority: str = "ours", age: datetime.timedelta = datetime.timedelta()
    ) -> WireIdentity:
        """What a process shows; its certificate was signed some time ago."""
        now = datetime.datetime.now(datetime.UTC)
        root = self.folder / f"{authority} {site} {age.days}"
        give_certificate(open_authority(self.folder / authority, "shop", now - 2 * LASTS), root, site, now - age)
        return WireIdentity(root / IDENTITY_FOLDER)

    @contextmanager
    def serving(
        self,
        answer: AnswerRequest,
        identity: WireIdentity,
        limits: LinkLimits | None = None,
        write_within_s: float = WRITE_WITHIN_S,
    ) -> Iterator[WireAddress]:
        server = WireServer(answer, identity, HOST, 0, limits, write_within_s)
        try:
            yield WireAddress(HOST, server.port)
        finally:
            server.stop()

    def client(self, asked: str | None, where: WireAddress, identity: WireIdentity) -> WireClient:
        self.clients.append(WireClient(asked, lambda: where, identity))
        return self.clients[-1]

    def close(self) -> None:
        for client in self.clients:
            client.close()
