"""Many streams at once: each is told what is new, none has a thread, and there are not more than can be served."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.coordinate.host import ServiceHost
from headrace.doors.api import feed_streams
from headrace.doors.api.server import HttpServer, serve
from headrace.site.service import Service
from tests.running.running_project import until
from tests.running.test_feed_pages import Social

STREAMS = 60
TOKEN = "secret"


class Listeners:
    """Streams of one consumer, in one thread of the test."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.heard: list[list[tuple[str, Any]]] = [[] for _ in range(STREAMS)]
        self.refused: httpx.Response | None = None
        self.is_over = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._listen()), daemon=True).start()

    async def _listen(self) -> None:
        headers, limits = {"Authorization": f"Bearer {TOKEN}"}, httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=self.address, headers=headers, timeout=60, limits=limits) as client:
            listening = [asyncio.create_task(self._hear(client, heard)) for heard in self.heard]
            while not self.has_all("open"):
                await asyncio.sleep(0.1)
            self.refused = await client.get("/feeds/home/anna/stream")
            await asyncio.gather(*listening)
        self.is_over.set()

    @staticmethod
    async def _hear(client: httpx.AsyncClient, heard: list[tuple[str, Any]]) -> None:
        async with client.stream("GET", "/feeds/home/anna/stream") as answer:
            event = ""
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    heard.append((event, json.loads(line.removeprefix("data: "))))

    def has_all(self, *kinds: str) -> bool:
        return all([kind for kind, _ in heard] == list(kinds) for heard in self.heard)


def test_many_streams_are_told_and_end_with_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_streams, "MOST_STREAMS", STREAMS)
    social = Social(tmp_path)
    with social.running() as service:
        social.follow("anna", "bob")
        social.post("bob", 1)
        social.until_equal(service, "sees a post")
        with_server(service, social, check_streams)


def with_server(service: Service, social: Social, check: Callable[[HttpServer, Social], None]) -> None:
    host = ServiceHost(service, social.folder, lambda _: pytest.fail("nothing is applied"))
    server = serve(host, TOKEN, 0)
    try:
        check(server, social)
    finally:
        server.stop()


def check_streams(server: HttpServer, social: Social) -> None:
    before = threading.active_count()
    listeners = Listeners(server.port)
    until(lambda: listeners.refused is not None, "all streams are open, and one more was asked for")
    assert listeners.refused is not None
    assert (listeners.refused.status_code, listeners.refused.headers["Retry-After"]) == (503, "2")
    assert threading.active_count() - before < 15, "streams wait without threads"
    social.post("bob", 2, "new")
    until(lambda: listeners.has_all("open", "entry"), "everybody is told")
    assert {json.dumps(heard[1][1]["body"]) for heard in listeners.heard} == {'{"text": "new"}'}
    server.stop()
    assert listeners.is_over.wait(10), "streams end with the server"
    assert listeners.has_all("open", "entry", "end")
