"""What an agent does for comparisons over several sites: it starts a process for each, passes on what the coordinator
asks it, and gives other sites the rows that the process has written for them.

A comparison of which nobody asks any more ends by itself, and so do its locks and snapshots in databases.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from headrace.connect.files import open_private
from headrace.connect.wire.rows import MEDIA_TYPE, PART, PARTS
from headrace.connect.wire.server import WireAnswer, WireRequest, answer_refusal
from headrace.connect.wire.snapshot_files import SnapshotFiles
from headrace.model.errors import ConnectError
from headrace.site.folder import Folder
from headrace.site.process import module_command

log = logging.getLogger("headrace.service")

MOST_AT_ONCE = 4
IDLE_S = 120.0
"""After so long without a word of the coordinator a comparison ends: longer than that waits for any answer."""
ANSWER_WITHIN_S, LOOK_WITHIN_S, END_WITHIN_S, WATCH_EVERY_S = 110.0, 10.0, 10.0, 1.0
ENDED = "the comparison has ended here"


@dataclass
class ShareProcess:
    """The process of one comparison. Questions are asked one after the other."""

    process: subprocess.Popen[bytes]
    heard: float = field(default_factory=time.monotonic)
    given: SnapshotFiles | None = None

    def __post_init__(self) -> None:
        self._turn = threading.Lock()
        self._asked = 0
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, name="comparison", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def ask(self, asked: Mapping[str, Any], within_s: float) -> dict[str, Any]:
        """Raises ConnectError if it does not answer, or says what is wrong."""
        until = time.monotonic() + within_s
        if not self._turn.acquire(timeout=within_s):
            raise ConnectError("the comparison is busy here")
        try:
            found = self._exchange(asked, until)
        except OSError as error:
            raise ConnectError(ENDED) from error
        except queue.Empty as error:
            raise ConnectError("the comparison did not answer in time") from error
        finally:
            self._turn.release()
        if "error" in found:
            raise ConnectError(str(found["error"]))
        if "given" in found:
            self.given = SnapshotFiles(Path(found["given"]))
        return found

    def _exchange(self, asked: Mapping[str, Any], until: float) -> dict[str, Any]:
        """Answers carry the number of their question: one that comes too late is not taken for another's."""
        assert self.process.stdin is not None
        self._asked += 1
        self.process.stdin.write(json.dumps({**asked, "number": self._asked}).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            if not line:
                self._lines.put(line)  # for whoever asks next
                raise ConnectError(f"{ENDED}; see audit.log")
            found: dict[str, Any] = json.loads(line)
            if found.get("number", self._asked) == self._asked:
                return found

    def end(self) -> None:
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class SharedComparisons:
    """The comparisons that a site takes part in, by the id that the coordinator chose."""

    folder: Folder

    def __post_init__(self) -> None:
        self._turn = threading.Lock()  # held while a comparison begins or ends
        self._shares: dict[str, ShareProcess] = {}

    def answer_coordinator(self, request: WireRequest) -> WireAnswer:
        try:
            asked = json.loads(request.body)
            comparison, what = str(asked["comparison"]), str(asked["do"])
        except (ValueError, KeyError, TypeError) as error:
            return answer_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"the question cannot be read: {error}")
        if what == "end":
            self._end(comparison)
            return WireAnswer(b"{}")
        share = self._open(comparison) if what == "open" else self._shares.get(comparison)
        if share is None:
            return answer_refusal(HTTPStatus.GONE, ENDED if what != "open" else "too many comparisons run here")
        share.heard = time.monotonic()
        try:
            return WireAnswer(json.dumps(share.ask(asked, ANSWER_WITHIN_S)).encode())
        except ConnectError as error:
            return answer_refusal(HTTPStatus.CONFLICT, error.message)

    def answer_site(self, request: WireRequest, site: str) -> WireAnswer:
        """A part of the rows that were written for a site: what was not is not given."""
        try:
            name, number = f"{site} {request.query['of']}", int(request.query["from"])
            share = self._shares.get(request.query["comparison"])
        except (KeyError, ValueError) as error:
            return answer_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"the question cannot be read: {error}")
        if share is None or share.given is None:
            return answer_refusal(HTTPStatus.GONE, ENDED)
        if (part := share.given.read(name, 0, number)) is not None:
            said = {PART: str(part.number), PARTS: str(part.of)}
            return WireAnswer(part.body, MEDIA_TYPE, headers=said, is_load=True)
        try:
            look = share.ask({"do": "look"}, LOOK_WITHIN_S)
        except ConnectError as error:
            has_ended = share.process.poll() is not None
            return answer_refusal(HTTPStatus.GONE if has_ended else HTTPStatus.TOO_EARLY, error.message)
        if name in look["not_given"]:
            return answer_refusal(HTTPStatus.GONE, look["not_given"][name])
        if look["has_given"] and share.given.read(name, 0, number) is None:
            return answer_refusal(HTTPStatus.FORBIDDEN, f"{request.query['of']} is not for site {site}")
        return answer_refusal(HTTPStatus.TOO_EARLY, "it is not read yet")

    def end_all(self) -> None:
        for comparison in tuple(self._shares):
            self._end(comparison)

    def _open(self, comparison: str) -> ShareProcess | None:
        with self._turn:
            if comparison not in self._shares and len(self._shares) < MOST_AT_ONCE:
                self._shares[comparison] = self._start(comparison)
            return self._shares.get(comparison)

    def _start(self, comparison: str) -> ShareProcess:
        command = module_command("headrace.app.comparing_share", str(self.folder.project), comparison)
        with open_private(self.folder.root / "audit.log", os.O_APPEND) as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, umask=0o077
            )
        share = ShareProcess(process)
        threading.Thread(target=self._watch, args=(comparison, share), name="comparison", daemon=True).start()
        log.info("began to take part in a comparison", extra={"pid": process.pid})
        return share

    def _watch(self, comparison: str, share: ShareProcess) -> None:
        """Ends a comparison that nobody asks for any more, or whose process has ended."""
        while share.process.poll() is None and time.monotonic() - share.heard < IDLE_S:
            time.sleep(WATCH_EVERY_S)
        self._end(comparison)

    def _end(self, comparison: str) -> None:
        with self._turn:
            share = self._shares.pop(comparison, None)
        if share is not None:
            share.end()
