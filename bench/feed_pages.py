"""What does a page of a feed cost over HTTP, in a process that only serves feeds, and which part of it is HTTP?

The follows of the paper's Table 2 at a small size, everything on read, in a store that runs. Processor microseconds per
page: of the process that serves, and of the store. Three ways to serve take turns, with the same readers:

    framework   a route of FastAPI: dependencies, validation and JSON as that does them, threads of its own
    short way   what Headrace serves: a table of requests, a thread, one encoding
    no HTTP     the same pages without HTTP, in the process that serves

    headrace bench feed-pages [--pages 2000] [--runs 3] [--size 0.01] [--parser httptools|h11] [--seed 1]

All ways must give the same pages.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from bench.cpu import processes
from bench.feeds_ways import WaysWorld, ways_world
from bench.workloads.follows import draw, make_follows
from headrace.connect.free_port import free_port

WAYS = ("framework", "short way", "no HTTP")
TOKEN = "a token"
START_WITHIN_S = 60.0


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    if options.serve is not None:
        serve(options)
        return
    print(f"{options.pages} pages a run, size {options.size:g}, {options.parser}, seed {options.seed}", flush=True)
    with ways_world(make_follows(np.random.default_rng(options.seed), size=options.size)) as world:
        measured = measure(world, options)
    print(f"{'way':>12} {'serving':>16} {'store':>16}   us of a processor per page, median and range")
    for way in WAYS:
        print(f"{way:>12} {_tell(measured[way, 'serving'])} {_tell(measured[way, 'store'])}")
    framework, ours, bare = (statistics.median(measured[way, "serving"]) for way in WAYS)
    print(f"the short way takes {ours / framework:.2f} of the framework's time; HTTP is {1 - bare / ours:.0%} of it")


def measure(world: WaysWorld, options: argparse.Namespace) -> dict[tuple[str, str], list[float]]:
    rng = np.random.default_rng(options.seed)
    readers = [f"c{one}" for one in draw(rng, world.feeds.query_rate.near, options.pages).tolist()]
    found: dict[tuple[str, str], list[float]] = {(way, what): [] for way in WAYS for what in ("serving", "store")}
    pages = {}
    with serving(world, "framework", options) as first, serving(world, "short way", options) as second:
        servers = {"framework": first, "short way": second, "no HTTP": second}
        for run in range(options.runs + 1):  # the first warms up
            for way in WAYS if run % 2 else WAYS[::-1]:
                served = servers[way]
                before = processes()
                answers = read_pages(served.port, readers, way == "no HTTP")
                now = processes()
                pages[way] = answers
                if run:
                    for what, chosen in (("serving", {served.pid}), ("store", find_store(now))):
                        spent = sum(now[one].own - before[one].own for one in chosen if one in before)
                        found[way, what].append(1e6 * spent / len(readers))
    assert pages["framework"] == pages["short way"], "pages differ"
    return found


def find_store(found: Any) -> set[int]:
    return {one for one in found if "postgres" in Path(f"/proc/{one}/comm").read_text()}


@dataclass(frozen=True, slots=True)
class Served:
    pid: int
    port: int


@contextmanager
def serving(world: WaysWorld, way: str, options: argparse.Namespace) -> Iterator[Served]:
    """A process that serves in one way."""
    port = free_port()
    command = [sys.executable, "-m", "bench.feed_pages", "--serve", way, "--port", str(port)]
    command += ["--project", str(world.folder.project), "--parser", options.parser]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1]) as child:
        try:
            _await_port(port)
            yield Served(child.pid, port)
        finally:
            child.terminate()


def read_pages(port: int, consumers: Sequence[str], bare: bool) -> list[Any]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        if bare:
            return [ask(connection, "/bare", {"consumers": consumers})]
        return [_strip(ask(connection, f"/feeds/home/{consumer}")) for consumer in consumers]


def ask(connection: HTTPConnection, path: str, body: object = None) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    said = json.loads(answer.read())
    assert answer.status == 200, said
    return said


def _strip(page: dict[str, Any]) -> list[Any]:
    """Without what depends on when it was read."""
    return [page["entries"], page["stored"], page["pulled"]]


def _await_port(port: int) -> None:
    until = time.monotonic() + START_WITHIN_S
    while True:
        try:
            with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


# In the process that serves


def serve(options: argparse.Namespace) -> None:
    import uvicorn

    from headrace.app.feed_serving import open_feed_serving

    serving = open_feed_serving(options.project, os.environ)
    make = _make_framework if options.serve == "framework" else _make_short
    uvicorn.run(
        make(serving.door),
        host="127.0.0.1",
        port=options.port,
        log_config=None,
        access_log=False,
        http=options.parser,
        timeout_graceful_shutdown=1,
    )


def _make_short(door: Any) -> Any:
    from starlette.responses import JSONResponse

    from headrace.doors.api.feeds import FeedHttp

    feeds = FeedHttp(door, lambda *_: {}, TOKEN)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/bare":
            consumers = json.loads((await receive())["body"])["consumers"]
            await feeds.run(lambda: [door.read("home", consumer) for consumer in consumers])
            await JSONResponse(len(consumers))(scope, receive, send)
        elif scope["type"] == "http":
            await feeds(scope, receive, send)

    return app


def _make_framework(door: Any) -> Any:
    from fastapi import APIRouter, Depends, FastAPI, Query, Security
    from fastapi.responses import JSONResponse, Response
    from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

    bearer = HTTPBearer(auto_error=False)

    def allowed(given: HTTPAuthorizationCredentials | None = Security(bearer)) -> None:  # noqa: B008
        assert given is not None and hmac.compare_digest(given.credentials.encode(), TOKEN.encode())

    routes = APIRouter(dependencies=[Depends(allowed)])

    def page(
        feed: str,
        consumer: str,
        limit: Annotated[int | None, Query(ge=1)] = None,
        before: Annotated[str | None, Query(max_length=50_000)] = None,
    ) -> Response:
        return JSONResponse(door.read(feed, consumer, limit, before))

    # Not under `from __future__`'s strings, which FastAPI could not resolve in here.
    page.__annotations__ = {"feed": str, "consumer": str, "limit": Annotated[int | None, Query(ge=1)],
                            "before": Annotated[str | None, Query(max_length=50_000)], "return": Response}  # fmt: skip
    allowed.__annotations__ = {"given": HTTPAuthorizationCredentials | None}
    routes.get("/feeds/{feed}/{consumer}")(page)
    api = FastAPI()
    api.include_router(routes)
    return api


def _tell(values: Sequence[float]) -> str:
    return f"{statistics.median(values):5.0f} {min(values):4.0f}..{max(values):<4.0f}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("headrace bench feed-pages", description=__doc__.split("\n\n")[0])
    parser.add_argument("--pages", type=int, default=2000, help="in a run of a way")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size", type=float, default=0.01, help="of the paper's Table 2")
    parser.add_argument("--parser", choices=("httptools", "h11"), default="httptools")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", choices=WAYS[:2], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--project", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
