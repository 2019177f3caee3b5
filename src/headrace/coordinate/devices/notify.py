"""Posts changes of templates' results to their webhooks: in order, each at least once, from a position that is kept.

    POST URL      JSON lines {"t": microseconds, "op": "insert" or "delete", "row": {...}}

A webhook that is new begins with the next change, and so does that of a view that was declared anew: an event says so,
and its receiver reads the view's rows again. Changes of one time come together. Whoever does not take them gets
them again, and after a while more seldom; that is a trouble until it is over. One that is away delays no other.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.connect.webhook import post_lines
from headrace.model.device_events import ChangesLost
from headrace.model.errors import ConnectError, HeadraceError, UsageError
from headrace.model.log import Commit, Lease
from headrace.model.notes import NotifiedUpTo, read_note
from headrace.run.ports import Ledger
from headrace.run.rows.json_rows import json_changes
from headrace.site.journal import Journal
from headrace.site.reading import ViewReader
from headrace.site.troubles import NOTIFY, Troubles

log = logging.getLogger("headrace.devices")

LOOK_EVERY_S = 0.5
ANSWER_WITHIN_S = 10.0
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
LINES_AT_ONCE, BYTES_AT_ONCE = 1_000, 500_000
END_WITHIN_S = 15.0
NOTE_EVERY_S = 60.0
"""How old a position may become while nothing changes."""
MEND = "make its receiver reachable and have it answer with status 200; changes wait, and are posted again"


@dataclass(frozen=True, slots=True)
class Webhook:
    """The address may hold a secret."""

    view: str
    url: str = field(repr=False)


@dataclass(slots=True)
class Notifying:
    """`wanted` says which templates have a webhook now; raises nothing. `reader` raises while nothing is loaded."""

    ledger: Ledger
    lease: Lease
    journal: Journal
    troubles: Troubles
    clock: Callable[[], int]
    reader: Callable[[], ViewReader]
    wanted: Callable[[], Mapping[str, Webhook]]
    _threads: dict[str, tuple[Webhook, threading.Thread]] = field(default_factory=dict)

    def run(self, end: threading.Event) -> None:
        """Has a thread for each webhook until it is told to end."""
        while not end.wait(LOOK_EVERY_S):
            wanted = self.wanted()
            for name, hook in wanted.items():
                _, thread = self._threads.get(name, (hook, None))
                if thread is None or not thread.is_alive():
                    self._start(name, hook, end)
            for name in [name for name in self._threads if name not in wanted]:
                del self._threads[name]
                self.troubles.clear(f"{NOTIFY}{name}")
        for _, thread in list(self._threads.values()):
            thread.join(END_WITHIN_S)

    def _start(self, name: str, hook: Webhook, end: threading.Event) -> None:
        thread = threading.Thread(target=self._keep, args=(name, hook, end), name=f"notify {name}", daemon=True)
        self._threads[name] = hook, thread
        thread.start()

    def _keep(self, name: str, hook: Webhook, end: threading.Event) -> None:
        failures = 0
        while not end.is_set() and self.wanted().get(name) == hook:
            try:
                self.post_next(name, hook, end.is_set)
                failures = 0
                self.troubles.clear(f"{NOTIFY}{name}")
            except Exception as error:
                failures += 1
                self._report(name, error)
            end.wait(BACKOFF_S[min(failures, len(BACKOFF_S)) - 1] if failures else LOOK_EVERY_S)

    def _report(self, name: str, error: Exception) -> None:
        if isinstance(error, UsageError) and error.hint is not None and "status" in error.hint:
            return  # the views are not loaded yet
        if not isinstance(error, HeadraceError | OSError):
            log.exception("posting changes of template %s failed", name)
        line = next(iter(str(error).splitlines()), "") or type(error).__name__
        hint = error.hint if isinstance(error, UsageError | ConnectError) else None
        self.troubles.report(f"{NOTIFY}{name}", f'changes of template "{name}" are not posted: {line}', hint or MEND)

    def post_next(self, name: str, hook: Webhook, is_ended: Callable[[], bool] = lambda: False) -> int:
        """Posts all that is new; how many lines. Raises what keeps it from that."""
        reader = self.reader()
        log_ = reader.served(hook.view).log
        position = read_note(self.ledger, NotifiedUpTo, name)
        if position is None:
            self._note(name, log_.t)
            return 0
        if position.t < log_.start:  # what is not kept any more cannot be posted: the rest is
            self.journal.emit(ChangesLost(self.clock(), name, (log_.start - position.t) / 1e6))
        upto, found = reader.changes(hook.view, max(position.t, log_.start))
        posted = 0
        for t, lines in _gather(json_changes(found)):
            if is_ended():
                return posted
            post_lines(hook.url, b"".join(lines), ANSWER_WITHIN_S)
            self._note(name, t)
            posted += len(lines)
        if upto - position.t > NOTE_EVERY_S * 1e6:  # so that it is not too old when something changes
            self._note(name, upto)
        return posted

    def _note(self, name: str, t: int) -> None:
        self.ledger.commit(self.lease, Commit(notes=(NotifiedUpTo(name, t),)))


def _gather(changes: Iterator[Mapping[str, object]]) -> Iterator[tuple[int, list[bytes]]]:
    """Lines that go together, and the time that they reach: those of one time are never parted, since a position is a
    time.
    """
    lines: list[bytes] = []
    size, reached = 0, 0
    for change in changes:
        t = change["t"]
        assert isinstance(t, int)
        if lines and t != reached and (len(lines) >= LINES_AT_ONCE or size >= BYTES_AT_ONCE):
            yield reached, lines
            lines, size = [], 0
        line = json.dumps(change, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        lines.append(line)
        size, reached = size + len(line), t
    if lines:
        yield reached, lines
