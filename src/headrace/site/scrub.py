"""Checks the files of all logs, at a bounded rate: that they are there every few seconds, and every byte in time.

Readers check what they read, but large indexes only at their ends, and nobody reads what lies there for long. Once
round takes (bytes of all files + FILE_COSTS x files) / RATE seconds: damage is found at the latest then. The service
begins at a random place, so that one that is started again often comes to all files as well.

Files that a version before checksums wrote are summed up on the way: from then on they are checked like others.

The ledger is looked at as well. Its connection holds what it has read, so that pages which are damaged on disk may not
be read for a long time, or ever.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.model.damage import DamagedFile, FileDamage
from headrace.model.errors import Conflict, DamagedLedger, Fenced, HeadraceError
from headrace.model.log import Commit, Edit, Lease, Log, StoredFile
from headrace.run.ports import Ledger, Store

log = logging.getLogger("headrace.service")

RATE = 500_000
"""Bytes a second. With the other checks in the background it is at most 1 MB/s."""
FILE_COSTS = 50_000
"""Bytes that a file counts beside its own: to open it takes as long as to sum these up."""
STEP_S = 2.0
LOOK_EVERY_S = 10.0
LOOKING = 0.005
"""The share of a core that looks may take: where there are very many files, they are less often."""
LOOKED_AT = 5_000
"""How many files a look asks the size of at most; the next one goes on from there."""
SUMMED_TOGETHER = 500
"""How many files that had no checksums get them at once."""
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ScrubProgress:
    """What there is to check, and how much of it was written before there were checksums."""

    files: int = 0
    bytes: int = 0
    unsummed: int = 0

    @property
    def round_s(self) -> float:
        """The longest that damage which nobody reads stays unknown."""
        return (self.bytes + FILE_COSTS * self.files) / RATE


@dataclass(slots=True)
class Scrub:
    """Belongs to one thread; others read `progress`, which is replaced whole.

    `check_ledger` looks at the ledger on disk, and raises `DamagedLedger`.
    """

    ledger: Ledger
    lease: Lease
    store: Store
    stop: threading.Event
    check_ledger: Callable[[], None]
    progress: ScrubProgress = ScrubProgress()
    _files: Mapping[str, tuple[str, StoredFile]] = field(default_factory=dict)
    _at: str | None = None
    _looked_at: str = ""
    _checking: Generator[int, None, int | None] | None = None
    _roots: dict[str, int] = field(default_factory=dict)
    _budget: float = 0.0
    _told: set[str] = field(default_factory=set)

    def run(self) -> None:
        look_at, stepped = time.monotonic(), time.monotonic()
        while not self.stop.wait(STEP_S):
            try:
                now = time.monotonic()
                if now >= look_at:
                    before = time.thread_time()
                    self.check_ledger()
                    self.look()
                    look_at = now + max(LOOK_EVERY_S, (time.thread_time() - before) / LOOKING)
                self.check(RATE * min(now - stepped, 2 * STEP_S))
                stepped = now
            except (Fenced, DamagedLedger):
                raise  # neither gets better by itself: the service ends
            except HeadraceError as error:  # a full disk, say: tried again
                log.warning("files could not be checked: %s", error)

    def look(self) -> None:
        """Notes what there is, and looks whether files are there."""
        self._keep_roots()
        logs = self.ledger.logs()
        self._files = dict(sorted(_find_files(logs.values()).items()))
        stored = [file for _, file in self._files.values()]
        unsummed = sum(file.root is None for file in stored)
        self.progress = ScrubProgress(len(stored), sum(file.bytes for file in stored), unsummed)
        names = list(self._files)
        later = [name for name in names if name > self._looked_at]
        chosen = [*later, *names[: len(names) - len(later)]][:LOOKED_AT]
        self._looked_at = chosen[-1] if chosen else ""
        by_site: dict[str, list[StoredFile]] = {}
        for site, file in map(self._files.__getitem__, chosen):
            by_site.setdefault(site, []).append(file)
        for site, files in by_site.items():
            for damage in self.store.find_damaged(site, files):
                self._tell(damage)

    def check(self, budget: float) -> None:
        """Checks so many bytes, one file after the other."""
        self._budget = min(self._budget, 0.0) + budget
        while self._budget > 0 and self._files and not self.stop.is_set():
            if self._checking is None:
                self._begin()
            self._go_on()

    def _begin(self) -> None:
        names = list(self._files)
        if self._at is None:
            self._at = random.choice(names)
        self._at = next((name for name in names if name > (self._at or "")), names[0])
        site, file = self._files[self._at]
        self._checking = self.store.check_slowly(site, file)
        self._budget -= FILE_COSTS

    def _go_on(self) -> None:
        assert self._checking is not None and self._at is not None
        try:
            self._budget -= next(self._checking)
            return
        except StopIteration as end:
            if end.value is not None and self._at in self._files and self._files[self._at][1].root is None:
                self._roots[self._at] = end.value
        except DamagedFile as error:
            self._tell(error.damage)
        self._checking = None

    def _tell(self, damage: FileDamage) -> None:
        """The store has noted it for whoever mends it. A file that was replaced since the last look is nobody's."""
        if damage.name not in self._told and damage.name in self.ledger.files():
            self._told.add(damage.name)  # once: one that only a person can put back may be there for days
            log.warning('file "%s" %s', damage.name, damage.why)

    def _keep_roots(self) -> None:
        if not self._roots:
            return
        roots = dict(list(self._roots.items())[:SUMMED_TOGETHER])
        self._roots = {name: root for name, root in self._roots.items() if name not in roots}
        for name in [one.name for one in self.ledger.logs().values() if _sum_up(one, roots) is not None]:
            self._keep_roots_of(name, roots)

    def _keep_roots_of(self, name: str, roots: Mapping[str, int]) -> None:
        """A commit for each log: of all together, one would always have moved on."""
        for _ in range(ATTEMPTS):
            found = self.ledger.logs([name]).get(name)
            edit = None if found is None else _sum_up(found, roots)
            if edit is None:
                return
            try:
                self.ledger.commit(self.lease, Commit((edit,)))
                return
            except Conflict:
                continue  # it moved on; if it always does, next time round


def _find_files(logs: Iterable[Log]) -> dict[str, tuple[str, StoredFile]]:
    return {f"{log.site}/{piece.file}": (log.site, piece.stored) for log in logs for piece in log.pieces}


def _sum_up(log: Log, roots: Mapping[str, int]) -> Edit | None:
    """Gives pieces of a log their roots."""
    found = [piece for piece in log.pieces if piece.root is None and f"{log.site}/{piece.file}" in roots]
    if not found:
        return None
    add = tuple(replace(piece, root=roots[f"{log.site}/{piece.file}"]) for piece in found)
    return Edit(log.name, log.t, log.t, add, tuple(piece.file for piece in found))
