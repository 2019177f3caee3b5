"""Two sites that run apart, with a link between them that a test makes slower: changes of `us` pass through a relay."""

from __future__ import annotations

import base64
import datetime
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.relay import Relay
from tests.running.running_project import until

PROJECT = """
project: posts
sites: {{us: {{cpu: 9 $/core-hour}}, eu: {{cpu: 0.01 $/core-hour}}}}
links: [{{between: [us, eu], bandwidth: {bandwidth}, latency: 1 ms, price: 0.0001 $/GB}}]
sources:
  posts: {{kind: table, at: us, postgres: {{dsn: "${{US_DSN}}", table: public.posts}}, key: [pid], rate: {rate} /s}}
contracts:
  volume: {{view: volume, at: eu, freshness: 4 s}}
"""
VOLUME = "SELECT kind, count(*) AS posts, sum(length(body)) AS volume FROM posts GROUP BY kind"
TABLE = """CREATE TABLE posts (pid bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, kind int, body text);
CREATE FUNCTION random_text(size int) RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT string_agg(md5(random()::text), '') FROM generate_series(1, size / 32) $$;
INSERT INTO posts (kind, body) SELECT n % 7, random_text({body}) FROM generate_series(1, {posts}) AS n"""
POSTS, BODY = 400, 8000


@dataclass
class SlowLink:
    folder: Path
    environment: dict[str, str]
    relay: Relay
    files: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def headrace(self, *words: str) -> str:
        command = [sys.executable, "-P", "-m", "headrace", *words]
        ended = subprocess.run(command, env=self.environment, text=True, capture_output=True, timeout=180, check=False)
        assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.headrace("status", str(self.folder), "--json"))
        return found

    def site_status(self, site: str) -> dict[str, Any]:
        """What a site wrote down last, as `status` reads it."""
        found: dict[str, Any] = json.loads(self._file_of(site, "status.json").read_bytes())
        return found

    def read_log(self, site: str) -> str:
        return self._file_of(site, "service.log").read_text()

    def _file_of(self, site: str, name: str) -> Path:
        return self.folder / ".headrace" / "sites" / site / ".headrace" / name

    def link(self) -> dict[str, Any]:
        found = (one for one in self.status()["links"] if (one["from"], one["to"]) == ("us", "eu"))
        return next(found, {})

    def set_rate(self, bytes_s: float) -> None:
        self.relay.back.rate = bytes_s

    def change_posts(self, rows_s: float) -> None:
        """Posts get other bodies until the world ends: there are never more of them."""

        def change() -> None:
            change = (
                "UPDATE posts SET body = random_text(%s)"
                " WHERE pid IN (SELECT 1 + (random() * %s)::bigint FROM generate_series(1, %s))"
            )
            with psycopg.connect(self.environment["US_DSN"], autocommit=True) as session:
                while not self._stop.wait(0.5):
                    session.execute(change, (BODY, POSTS - 1, round(rows_s / 2)))

        threading.Thread(target=change, daemon=True).start()

    def write_posts(self, number: int, posts: int) -> None:
        """One more file of posts, which cannot be compressed."""
        now, first = datetime.datetime.now(datetime.UTC).isoformat(), number * posts
        bodies = (base64.b64encode(random.randbytes(BODY // 2)).decode() for _ in range(posts))
        rows = [{"pid": first + one, "ts": now, "kind": one % 7, "body": body} for one, body in enumerate(bodies)]
        beside = self.folder / "posts" / f"{number:05}.tmp"
        beside.write_text("".join(json.dumps(row) + "\n" for row in rows))
        beside.rename(beside.with_suffix(".jsonl"))

    @contextmanager
    def writing_posts(self, posts: int) -> Iterator[None]:
        """Adds a file every quarter of a second, after the first; `files` says how many there are."""
        ended = threading.Event()

        def write() -> None:
            while not ended.wait(0.25):
                self.files += 1
                self.write_posts(self.files - 1, posts)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def stop(self) -> None:
        self._stop.set()
        self.headrace("down", str(self.folder))


@contextmanager
def open_slow_link(folder: Path, dsn: str, bandwidth: str, rows_s: float) -> Iterator[SlowLink]:
    """The project runs, and what `eu` asks of `us` passes through the relay."""
    (folder / "views").mkdir(parents=True)
    (folder / "views" / "volume.sql").write_text(VOLUME)
    (folder / "headrace.yml").write_text(PROJECT.format(bandwidth=bandwidth, rate=rows_s))
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(TABLE.format(body=BODY, posts=POSTS).encode())
    with Relay(("127.0.0.1", 0)) as relay:
        made = SlowLink(folder, {**os.environ, "US_DSN": dsn}, relay)
        made.headrace("up", str(folder), "--sites=processes", "--engine=local", "--detach")
        try:
            _lead_through(folder, relay)
            yield made
        finally:
            made.stop()


FILES = """
project: posts
sites: {{us: {{cpu: 9 $/core-hour, disk_capacity: {room}}}, eu: {{cpu: 0.01 $/core-hour}}}}
links: [{{between: [us, eu], bandwidth: 10 Mbps, latency: 1 ms, price: 0.0001 $/GB}}]
sources:
  posts:
    kind: stream
    at: us
    time: ts
    retention: 1 h
    rate: 25 /s
    columns: {{pid: bigint, ts: timestamp, kind: {{type: bigint, distinct: 7}}, body: {{type: string, width: 4000}}}}
    files: {{path: "{folder}/posts", format: jsonl}}
contracts:
  copied: {{view: copied, at: eu, freshness: streaming}}
"""
COPIED = "SELECT pid, kind, body FROM posts"
"""Whatever the plan, all bytes of posts cross the link."""


@contextmanager
def open_slow_files(folder: Path, room: str) -> Iterator[SlowLink]:
    """As above, but posts arise in files; `us` has so much room for changes."""
    (folder / "views").mkdir(parents=True)
    (folder / "posts").mkdir()
    (folder / "views" / "copied.sql").write_text(COPIED)
    (folder / "headrace.yml").write_text(FILES.format(room=room, folder=folder))
    with Relay(("127.0.0.1", 0)) as relay:
        made = SlowLink(folder, {**os.environ}, relay)
        made.headrace("up", str(folder), "--sites=processes", "--engine=local", "--detach")
        try:
            _lead_through(folder, relay)
            yield made
        finally:
            made.stop()


def _lead_through(folder: Path, relay: Relay) -> None:
    """Has other sites find the relay where they look for `us`."""
    file = folder / ".headrace" / "sites" / "us" / ".headrace" / "service.json"
    until(file.exists, "us runs")
    process = json.loads(file.read_text())
    relay.target = ("127.0.0.1", process["wire_port"])
    file.write_text(json.dumps({**process, "wire_port": relay.port}))
    file.chmod(0o600)
    time.sleep(0.1)
