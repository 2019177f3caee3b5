"""A project of phones that runs as people run it, with a database of its own, and which of its processes can be killed.

The view of two friends says which rows it is made of (`n` counts a phone's rows), so that every result can be judged.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.cpu import Process, cpu_since, processes
from bench.devices_counts import BrokerCount
from bench.kills_world import World, descendants
from bench.workloads.phones import Phones
from headrace.app.device_tokens import list_device_tokens
from headrace.connect.free_port import free_port
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.site.process import ServiceProcess, running_process

PROJECT_NAME, DATABASE, TEMPLATE, VIEW, KEPT = "phones", "people", "near", "near", "checkins"
NEAR_M = 100
FRESHNESS_S = 10.0
ALL_CLOUD_DOWN = 1_000_000
"""A price of messages to devices at which no view is ever worth running on one."""

PROJECT = """\
project: {name}
sites: {{core: {{}}}}
sources:
  people: {{kind: table, at: core, postgres: {{dsn: "${{PEOPLE_DSN}}", table: public.people}}, key: [uid]}}
  friends: {{kind: table, at: core, postgres: {{dsn: "${{PEOPLE_DSN}}", table: public.friends}}, key: [uid, friend]}}
devices:
  phones:
    table: people
    id: uid
    down: {down}
    streams:
      location: {{columns: {{lat: double, lng: double, n: bigint}}, rate: {rate:.3g} /s}}
      checkin: {{columns: {{n: bigint}}, rate: 0.1 /s, keep: 1 day}}
templates:
  {template}: {{per: {{table: friends, a: uid, b: friend}}, devices: phones, view: {view}{every}}}
{kept}contracts:
  {view}: {{view: {view}, at: core, freshness: {freshness_s:g} s}}
"""
KEPT_TEMPLATE = f"""\
  {KEPT}: {{per: {{table: people, a: uid}}, devices: phones, view: {KEPT}}}
"""
EVERY = ", every: {a: every_a, b: every_b}"
TABLES = """
    CREATE TABLE people (uid bigint PRIMARY KEY);
    CREATE TABLE friends (uid bigint, friend bigint, every_a double precision, every_b double precision,
        PRIMARY KEY (uid, friend))"""
NEAR = f"""
SELECT x.n AS mine, y.n AS theirs
FROM a.location x JOIN b.location y ON distance(x.lat, x.lng, y.lat, y.lng) < {NEAR_M}
"""
CHECKINS = "SELECT n FROM a.checkin"
"""Every row of a stream that is kept: none of them may be lost."""
EXPECTED = f"""
SELECT friends.uid, friends.friend, x.n, y.n FROM friends
JOIN {{rows}} x ON x.device = friends.uid JOIN {{rows}} y ON y.device = friends.friend
WHERE distance(x.lat, x.lng, y.lat, y.lng) < {NEAR_M}
"""
"""What the view must hold: `location` has the latest rows, `location_published` all of them."""
TRUE = f"""
SELECT a, b, mine, theirs FROM said
JOIN location_published x ON x.device = a AND x.n = mine JOIN location_published y ON y.device = b AND y.n = theirs
WHERE distance(x.lat, x.lng, y.lat, y.lng) < {NEAR_M}
"""
"""Of what was said, what was true of rows that existed."""

MARKS = {"router": b"headrace.site.devices.router", "broker": b"nats-server"}
STARTED_WITHIN_S = 180.0
LOOK_EVERY_S = 0.2
LEAST_RATE = 0.01
"""Rows per second of a phone, as declared: the mean of all, since that is what people know of theirs."""


@dataclass
class DevicesWorld(World):
    """`phones` are rows of the tables once they are loaded."""

    phones: Phones | None = None
    counts: BrokerCount | None = None

    # What runs

    def declare(self, *, down: float = 1.0, sampled: bool = False, kept: bool = False) -> None:
        """`sampled` has pairs demand rows as often as their columns say, `kept` adds a view of rows that are kept."""
        text = PROJECT.format(
            name=PROJECT_NAME,
            template=TEMPLATE,
            view=VIEW,
            down=f"{down:g}" if down < ALL_CLOUD_DOWN else str(int(down)),
            every=EVERY if sampled else "",
            kept=KEPT_TEMPLATE if kept else "",
            rate=1.0 if self.phones is None else max(LEAST_RATE, float(self.phones.rate.mean())),
            freshness_s=FRESHNESS_S,
        )
        (self.project / "views").mkdir(parents=True, exist_ok=True)
        (self.project / "headrace.yml").write_text(text)
        (self.project / "views" / f"{VIEW}.sql").write_text(NEAR)
        if kept:
            (self.project / "views" / f"{KEPT}.sql").write_text(CHECKINS)

    def load(self, phones: Phones) -> None:
        """One row per phone and per pair of friends."""
        self.phones = phones
        every = zip(phones.every_a.tolist(), phones.every_b.tolist(), strict=True)
        with psycopg.connect(self.servers[DATABASE].dsn()) as session, session.cursor() as cursor:
            cursor.execute("TRUNCATE people, friends")
            with cursor.copy("COPY people FROM STDIN") as rows:
                for phone in range(len(phones)):
                    rows.write_row((phone,))
            with cursor.copy("COPY friends FROM STDIN") as rows:
                for (a, b), intervals in zip(phones.pairs, every, strict=True):
                    rows.write_row((a, b, *intervals))

    def begin(self) -> float:
        """Starts the service and counts at its broker; the seconds until it can be asked."""
        began = time.monotonic()
        self.start()
        self.wait_for(
            lambda: self.reachable is not None and self._status() is not None, STARTED_WITHIN_S, "the service"
        )
        self.wait_for(lambda: self.broker_port != 0 or self.refusal is not None, STARTED_WITHIN_S, "the broker")
        if self.refusal is not None:
            sys.exit(f"error: the template is refused: {self.refusal}")
        if self.counts is None:
            self.counts = BrokerCount(PROJECT_NAME, self.broker_folder / "broker.conf", self.broker_port)
            self.counts.start()
        return time.monotonic() - began

    def end(self) -> None:
        if self.counts is not None:
            self.counts.stop()
            self.counts = None
        self.stop()

    @property
    def reachable(self) -> ServiceProcess | None:
        found = running_process(self.folder)
        return None if found is None or not found.port else found

    @property
    def broker_folder(self) -> Path:
        return self.folder.root / "devices"

    @property
    def broker_port(self) -> int:
        try:
            return int(json.loads((self.broker_folder / "broker.json").read_text())["port"])
        except (OSError, ValueError, KeyError):
            return 0

    @property
    def broker_url(self) -> str:
        return f"mqtt://127.0.0.1:{self.broker_port}"

    # What it says

    def ask(self, *words: str) -> Any:
        """A command's document. Raises `RuntimeError` with what it said if it did not work."""
        done = self.command(*words, str(self.project), "--json")
        if done.returncode:
            raise RuntimeError(f"headrace {' '.join(words)}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def show(self, view: str = VIEW) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.ask("show", view)["rows"]]

    def changes(self) -> list[tuple[int, tuple[Any, ...]]]:
        """All changes of the view that are kept, in order: 1 for a row that came, -1 for one that went."""
        done = self.command("changes", VIEW, str(self.project), "--json")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        return [(1 if one["op"] == "insert" else -1, tuple(one["row"].values())) for one in found]

    @contextmanager
    def following(self) -> Iterator[list[tuple[float, int, tuple[Any, ...]]]]:
        """Changes of the view as an app hears of them that follows it: ms since 1970, 1 or -1, and the row."""
        words = [sys.executable, "-m", "headrace", "changes", VIEW, str(self.project), "--from", "1s", "--follow"]
        process = subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, text=True)
        heard: list[tuple[float, int, tuple[Any, ...]]] = []

        def hear() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                change = json.loads(line)
                weight = 1 if change["op"] == "insert" else -1
                heard.append((time.time() * 1000, weight, tuple(change["row"].values())))

        thread = threading.Thread(target=hear, daemon=True)
        thread.start()
        try:
            yield heard
        finally:
            process.terminate()
            process.wait()
            thread.join()
            assert process.stdout is not None
            process.stdout.close()

    def template(self) -> Mapping[str, Any]:
        """What `status` says about the template; nothing before it runs."""
        status = self._status() or {}
        return next((one for one in status.get("templates", ()) if one["id"] == TEMPLATE), {})

    @property
    def refusal(self) -> str | None:
        """Why the service does not run the template."""
        template = self.template()
        return str(template.get("reason")) if template.get("state") == "refused" else None

    def _status(self) -> Any:
        try:
            return self.ask("status")
        except (RuntimeError, json.JSONDecodeError):
            return None

    def tokens(self) -> dict[str, str]:
        """Of all phones, by device."""
        assert self.phones is not None
        return {one.device: one.token for one in list_device_tokens(self.project, [*map(str, range(len(self.phones)))])}

    def count_foreign(self) -> int:
        """Messages for somebody else that the router has counted since it started."""
        assert self.counts is not None
        found: int = self.counts.rates.get("refused", {}).get("foreign publish", 0)
        return found

    # Processes

    def find(self, kind: str) -> list[int]:
        if kind not in MARKS:
            return super().find(kind)
        service = running_process(self.folder)
        found = [] if service is None else descendants(service.pid)
        return [pid for pid in found if MARKS[kind] in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def wait_for_process(self, kind: str, within_s: float) -> int:
        self.wait_for(lambda: bool(self.find(kind)), within_s, f"the {kind}")
        return self.find(kind)[0]

    def measure(self, kind: str) -> dict[int, Process]:
        return {pid: one for top in self.find(kind) for pid, one in processes(top).items()}

    def cpu_since(self, kind: str, before: Mapping[int, Process]) -> float:
        return sum(cpu_since(before, top) for top in self.find(kind))

    def memory(self, kind: str) -> int:
        """Bytes that processes of a kind hold."""
        return sum(_resident(pid) for pid in self.find(kind))

    @staticmethod
    def wait_for(is_done: Callable[[], bool], within_s: float, what: str) -> float:
        """The seconds it took. Raises `TimeoutError`."""
        began = time.monotonic()
        while not is_done():
            if time.monotonic() - began > within_s:
                raise TimeoutError(f"{what} did not come within {within_s:g} s")
            time.sleep(LOOK_EVERY_S)
        return time.monotonic() - began


def _resident(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return 1024 * int(next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")), "0"))


@contextmanager
def devices_world(engine: str) -> Iterator[DevicesWorld]:
    """A project whose tables are empty and which does not run yet; nothing of it is left afterwards."""
    root = Path(tempfile.mkdtemp(prefix="devices-"))
    port = free_port()
    server = EmbeddedPostgres(root / DATABASE, find_port=lambda: port)
    made = DevicesWorld(root, {DATABASE: server}, engine)
    try:
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as session:
            session.execute(TABLES)
        made.project.mkdir()
        yield made
    finally:
        made.end()
        server.stop()
        for folder in (server.folder, root):
            shutil.rmtree(folder, ignore_errors=True)
