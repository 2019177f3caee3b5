"""Sites that join a project from elsewhere: each an agent with a folder and a home of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headrace.connect.ledger.holder import this_holder
from headrace.connect.wire.client import WireAddress, WireClient, WireReply
from headrace.connect.wire.contexts import IDENTITY_FOLDER, WireIdentity
from headrace.model.log import Commit, Edit
from headrace.run.compile.columns import serving_log
from headrace.site.folder import Folder
from headrace.site.process import SERVICE
from headrace.site.reading import open_reader
from tests.running.running_project import RunningProject, until
from tests.shifted_clock import ShiftedClock

END_WITHIN_S = 60.0


class Ask(Protocol):
    def __call__(self, method: str, path: str, asked: Mapping[str, object] | None = None) -> WireReply: ...


def lose_row(folder: Folder, contract: str) -> None:
    """Takes a row out of the files of a view, with right checksums, while nobody runs it."""
    reader = open_reader(folder)
    with closing(reader.ledger) as ledger:
        lease = ledger.acquire(SERVICE, this_holder(), 30.0)
        (entry,) = (one for one in reader.plan.contracts if one.contract == contract)
        log = ledger.logs()[serving_log(reader.program, entry)]
        held = next(one for one in log.contents if one.rows)
        rows = reader.store.read(log.site, held.stored).slice(1)
        other = reader.store.write(log.site, rows, "other")
        piece = other.as_piece(held.kind, held.after, held.upto, rows.num_rows)
        ledger.commit(lease, Commit((Edit(log.name, log.t, log.t, (piece,), (held.file,)),)))
        ledger.release(lease)


@dataclass
class JoinedSites:
    project: RunningProject
    root: Path
    agents: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def folder(self, site: str) -> Path:
        return self.root / f"machine of {site}" / "agent"

    def up(self) -> None:
        self.project.document("up", "--detach", "--engine=local", "--sites=agents")

    def invite(self, site: str) -> dict[str, Any]:
        said = self.headrace("sites", "invite", site, str(self.project.folder), "--json")
        found: dict[str, Any] = json.loads(said)
        return found

    def headrace(self, *words: str, status: int = 0) -> str:
        """What a command says that a person runs anywhere."""
        ended = subprocess.run(self._command(*words), text=True, capture_output=True, timeout=120, check=False)
        assert ended.returncode == status, f"{words}: {ended.stdout}{ended.stderr}"
        return ended.stdout if status == 0 else " ".join(ended.stderr.split())

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "headrace", *words]

    def start(self, site: str, *words: str, host: str = "127.0.0.1", clock: ShiftedClock | None = None) -> None:
        """Starts the agent of a site, which joins if it has not yet. All its processes see the clock that is given."""
        folder = self.folder(site)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / ".headrace" / "membership.json").exists():
            invited = self.invite(site)
            words = ("--join", invited["url"], "--token", invited["token"], "--listen", host, *words)
        with (folder / "agent.out").open("a") as out:
            command = self._command("agent", "--site", site, "--folder", str(folder), "--engine=local", *words)
            preload = {} if clock is None else {"LD_PRELOAD": os.fspath(clock.library)}
            environment = {**os.environ, "HOME": str(folder.parent), **preload}
            self.agents[site] = subprocess.Popen(
                command, cwd=folder.parent, env=environment, stdout=out, stderr=subprocess.STDOUT, text=True
            )

    def stop(self, site: str, how: signal.Signals = signal.SIGTERM) -> None:
        agent = self.agents.pop(site)
        agent.send_signal(how)
        agent.wait(END_WITHIN_S)

    def lose_row(self, site: str, contract: str) -> None:
        """Takes a row out of the files of a view, with right checksums, while the site's agent is stopped."""
        lose_row(Folder(self.folder(site)), contract)

    def said(self, site: str) -> str:
        return (self.folder(site) / "agent.out").read_text()

    def status(self) -> dict[str, dict[str, Any]]:
        return {one["id"]: one for one in self.project.document("status")["sites"]}

    def copy(self, site: str) -> Path:
        """A copy of a site's folder, on what may be another machine."""
        copied = self.root / f"copy of {site}"
        shutil.copytree(self.folder(site), copied, ignore=shutil.ignore_patterns(".s.PGSQL*"))
        return copied

    def refused_to_join(self, site: str, invited: dict[str, Any]) -> str:
        """What an agent in a new folder says that may not join."""
        with tempfile.TemporaryDirectory(dir=self.root) as folder:
            words = ("--join", invited["url"], "--token", invited["token"], "--folder", folder)
            return self.headrace("agent", "--site", site, *words, status=2)

    def ask(self, who: str, other: str) -> Ask:
        """Asks a site as another one would, with that one's certificate."""
        document = json.loads((self.folder(other) / ".headrace" / "membership.json").read_text())
        where = WireAddress(document["host"], document["port"])
        identity = WireIdentity(self.folder(who) / ".headrace" / IDENTITY_FOLDER)

        def ask(method: str, path: str, asked: Mapping[str, object] | None = None) -> WireReply:
            client = WireClient(other, lambda: where, identity)
            try:
                return client.ask(method, path, 10.0, asked)
            finally:
                client.close()

        return ask

    def audit(self) -> list[dict[str, Any]]:
        """What became of every promise: on a busy machine some may have been broken, which the exit status tells."""
        command = self._command("audit", str(self.project.folder), "--json")
        ended = subprocess.run(command, text=True, capture_output=True, timeout=120, check=False)
        found: list[dict[str, Any]] = json.loads(ended.stdout)["contracts"]
        return found

    def recomputed(self, folder: Path, status: int) -> dict[str, dict[str, Any]]:
        """How views compare with their queries, by contract, as a command says it that is run in a folder."""
        command = self._command("audit", "--recompute", str(folder), "--json")
        ended = subprocess.run(command, text=True, capture_output=True, timeout=240, check=False)
        assert ended.returncode == status, f"{ended.stdout}{ended.stderr}"
        found: list[dict[str, Any]] = json.loads(ended.stdout)["recompute"]
        return {one["contract"]: one for one in found}

    @contextmanager
    def following(self) -> Iterator[Callable[[], list[str]]]:
        """Kinds of events that `headrace events --follow` has told so far."""
        told = self.root / "followed"
        with told.open("w") as out:
            command = self._command("events", str(self.project.folder), "--follow", "--json")
            follower = subprocess.Popen(command, stdout=out)
            try:
                yield lambda: [json.loads(line)["kind"] for line in told.read_text().split("\n")[:-1]]
            finally:
                follower.terminate()
                follower.wait(END_WITHIN_S)

    def runs_now(self, site: str) -> bool:
        """Whether the process that was started last is the one that runs the site."""
        found = self.status()[site]
        return bool(found["state"] == "running" and found["pid"] == self.agents[site].pid)

    def until_running(self, *sites: str) -> None:
        until(lambda: all(self.status()[site]["state"] == "running" for site in sites), f"{sites} run")

    def rows(self, site: str, view: str) -> list[tuple[object, ...]]:
        """The rows of a view, read where they are."""
        found = json.loads(self.headrace("show", view, str(self.folder(site)), "--json"))
        return sorted(tuple(row) for row in found["rows"])

    def until_equal(self, site: str, view: str) -> None:
        until(lambda: self.rows(site, view) == self.project.expected(view), f"{view} is as its query", every_s=0.5)


@contextmanager
def joined_sites(project: RunningProject, root: Path) -> Iterator[JoinedSites]:
    """The project is coordinated, and nobody has joined yet. Everything ends afterwards."""
    made = JoinedSites(project, root)
    made.up()
    try:
        yield made
    finally:
        for agent in made.agents.values():
            agent.send_signal(signal.SIGTERM)
        for agent in made.agents.values():
            try:
                agent.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        project.headrace("down")
