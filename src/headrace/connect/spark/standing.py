"""Standing Spark tasks: one long job whose tasks take items from the service as they come.

Starting a Spark job costs the processor more than a tenth of a second; handing an item to a task that is there costs
less than a millisecond (`bench/items.py`). Ordinary jobs run beside the standing one, in slots that it leaves free.

    a task dies            its item may be tried again; Spark starts the task again, which then connects again
    the job dies           it is started again, after a while if it died at once
    an item is ended       the whole job is cancelled, since Spark ends no single task; the items of others are retried
    no task is there       nothing is accepted: the caller starts an ordinary job

Items are idempotent (they write files that no log names before the commit), so trying one again is always right.
"""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from headrace.connect.spark.session import is_alive
from headrace.connect.spark.signed_link import SignedLink, greet_task
from headrace.connect.spark.standing_task import BEGUN, GOODBYE, MOST_ITEMS, StandingTask
from headrace.run.push.items import Item, ItemOutcome, describe

log = logging.getLogger("headrace.engine")

Made = TypeVar("Made")

WORKER_ENDED = "a Python worker of Spark ended in the middle of a job"
ENDED = "its job was ended"
NO_TASK = "no standing task of Spark is there"
BACKOFF_S = (0.0, 1.0, 5.0, 15.0, 60.0)
"""How long to wait before the job is started again, after none, one, two, ... that died at once."""
AT_ONCE_S = 10.0
TASKS_WITHIN_S = 10.0
"""How long an item waits for a task to come back before it is given up, and tried as an ordinary job."""
BEGUN_WITHIN_S, LOOK_EVERY_S = 15.0, 2.0
GRACE_S = 5.0
"""How much longer than an item may take its worker waits before it ends itself: the service ends it first."""
ACCEPT_AGAIN_S = 0.1
STRANGERS = 16
"""Connections that may be waiting to prove themselves at a time."""


@dataclass(slots=True, eq=False)
class _Handed:
    """An item that was handed in: it waits, was sent to a task, or is in work `since` a time."""

    job: str
    position: int
    item: Item
    limit_s: float
    outcome: Future[ItemOutcome[Any]] = field(default_factory=Future)
    handed: float = field(default_factory=time.monotonic)
    since: float | None = None
    ended: bool = False
    """Whether its job was ended: then no other task takes it."""

    def give_up(self, why: str) -> None:
        self.settle(ItemOutcome(self.item.name, None, why, time.monotonic() - self.handed, retryable=True))

    def settle(self, outcome: ItemOutcome[Any]) -> None:
        with suppress(InvalidStateError):  # somebody else has given it up meanwhile
            self.outcome.set_result(outcome)


class StandingTasks(Generic[Made]):
    """Keeps as many tasks of a session as `count` says when they start; may be used by several threads at once.

    `perform` is a function of a module that Spark's workers can import; `limit_s` says how long an item may take. A
    worker is replaced after `most_items`.
    """

    def __init__(
        self,
        session: SparkSession,
        perform: Callable[..., Made],
        count: Callable[[], int],
        modules: Sequence[str] = (),
        limit_s: Callable[[Item], float] = lambda _: 3600.0,
        most_items: int = MOST_ITEMS,
    ) -> None:
        self._session, self._find_count, self._limit_s = session, count, limit_s
        self._count = count()
        self._tag = f"standing-{os.getpid()}-{secrets.token_hex(4)}"
        self._secret = secrets.token_bytes(32)
        # One condition for all that threads share here: what waits, what is in work, and which tasks are there.
        self._changed = threading.Condition()
        self._waiting: deque[_Handed] = deque()
        self._sent: set[_Handed] = set()
        self._links: set[SignedLink] = set()
        self._closed = threading.Event()
        self._strangers = threading.Semaphore(STRANGERS)
        host, bound = _addresses(session)
        self._listener = socket.create_server((bound, 0), family=_family(bound))
        port = self._listener.getsockname()[1]
        self._task = StandingTask((host, port), self._secret, perform, tuple(modules), most_items)
        for target, name in ((self._accept, "standing tasks connect"), (self._keep_job, "standing tasks")):
            threading.Thread(target=target, name=name, daemon=True).start()

    # Items

    def is_there(self) -> bool:
        """Whether some task is connected, so that an item would be taken at once, or after others."""
        return bool(self._links)

    def wait_until_there(self, within_s: float) -> bool:
        """Waits for all tasks; whether some are there."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._links) >= self._count or self._closed.is_set(), within_s)
            return bool(self._links)

    def hand_in(self, job: str, numbered: Sequence[tuple[int, Item]]) -> list[Future[ItemOutcome[Made]]]:
        """Has items of a job performed, heaviest first; each is known in its job by a number."""
        handed = [_Handed(job, number, item, self._limit_s(item)) for number, item in numbered]
        with self._changed:
            if taken := bool(self._links):
                self._waiting.extend(sorted(handed, key=lambda one: -one.item.weight))
                self._changed.notify_all()
        for one in handed if not taken else ():
            one.give_up(NO_TASK)
        return [one.outcome for one in handed]

    def in_work(self, job: str) -> Mapping[int, object]:
        """When the items of a job that are in work were begun, by their number."""
        with self._changed:
            return {one.position: one.since for one in self._sent if one.job == job and one.since is not None}

    def end_job(self, job: str) -> None:
        """Gives up the items of a job. If one is in work, all tasks end and are started again."""
        with self._changed:
            mine = [one for one in self._waiting if one.job == job]
            self._waiting = deque(one for one in self._waiting if one.job != job)
            sent = [one for one in self._sent if one.job == job]
            for one in sent:
                one.ended = True
        for one in mine:
            one.give_up(ENDED)
        if sent:
            self._session.sparkContext.cancelJobsWithTag(self._tag)

    def close(self) -> None:
        """Lets tasks end; asks nobody, so that it can be called when Java is dead. The session is ended next."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._changed:
            left, self._waiting = [*self._waiting, *self._sent], deque()
            self._changed.notify_all()
        for one in left:
            one.give_up("Spark was ended")

    # The job

    def _keep_job(self) -> None:
        failures = 0
        while not self._closed.wait(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]):
            began = time.monotonic()
            try:
                self._count = self._find_count()
                if self._count:
                    self._run_job()
            except Exception as error:  # of a Java that has died, or a job that was cancelled, anything
                if self._closed.is_set() or not is_alive(self._session):
                    return
                log.info("the standing tasks ended, and are started again: %s", str(error).partition("\n")[0])
            failures = failures + 1 if time.monotonic() - began < AT_ONCE_S else 0

    def _run_job(self) -> None:
        context = self._session.sparkContext
        context.addJobTag(self._tag)
        context.setInterruptOnCancel(True)
        context.setLocalProperty("spark.job.description", "standing tasks")
        context.parallelize(range(self._count), self._count).mapPartitions(self._task.serve).count()

    # Tasks

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:  # it was closed, whoever connected is gone again, or there are too many open files
                self._closed.wait(ACCEPT_AGAIN_S)
                continue
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._greet, args=(connection,), name="standing task", daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        try:
            link = greet_task(connection, self._secret)
        except OSError:  # not one of ours
            connection.close()
            return
        finally:
            self._strangers.release()
        with self._changed:
            self._links.add(link)
            self._changed.notify_all()
        self._make_room()
        try:
            self._serve(link)
        finally:
            with self._changed:
                self._links.discard(link)
                alone = not self._links
            link.close()
            if alone:
                self._give_up_late()

    def _make_room(self) -> None:
        """Starts fewer tasks if executors have gone: those that are left would have no slot for ordinary jobs."""
        with suppress(Exception):  # of a Java that dies, anything
            if self._find_count() < self._count:
                log.warning("Spark has fewer executors than it had: there will be fewer standing tasks")
                self._session.sparkContext.cancelJobsWithTag(self._tag)

    def _serve(self, link: SignedLink) -> None:
        """Hands items to a task, one after the other, until either side ends."""
        while (one := self._take(link)) is not None:
            try:
                outcome = self._have_done(link, one)
            except OSError:
                outcome = None
            except Exception as error:  # an outcome that cannot be read: whoever waits for it must be told
                outcome = ItemOutcome(one.item.name, None, describe(error), time.monotonic() - one.handed)
            with self._changed:
                self._sent.discard(one)
            if outcome is not None:
                one.settle(outcome)
            elif one.since is None:  # the task was gone before: another one takes the item
                self._put_back(one)
                return
            else:
                one.give_up(WORKER_ENDED)
                return
        if self._closed.is_set():
            with suppress(OSError):
                link.send(GOODBYE)

    def _have_done(self, link: SignedLink, one: _Handed) -> ItemOutcome[Made] | None:
        """None if the task ended meanwhile."""
        # A task that waits for work reads it and begins at once. One that does not stands still, and is left.
        link.connection.settimeout(BEGUN_WITHIN_S)
        link.send(pickle.dumps((one.item.name, pickle.dumps(one.item), one.limit_s + GRACE_S)))
        if link.receive() != BEGUN:
            return None
        link.connection.settimeout(None)
        one.since = time.monotonic()
        answer = link.receive()
        outcome: ItemOutcome[Made] | None = None if answer is None else pickle.loads(answer)
        return outcome

    def _take(self, link: SignedLink) -> _Handed | None:
        """The next item; None if either side has ended. A task that ends while it waits is noticed within seconds."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._waiting or self._closed.is_set(), LOOK_EVERY_S):
                if link.is_closed():
                    return None
            if self._closed.is_set():
                return None
            one = self._waiting.popleft()
            self._sent.add(one)
            return one

    def _put_back(self, one: _Handed) -> None:
        with self._changed:
            if not self._closed.is_set() and not one.ended:
                self._waiting.appendleft(one)
                self._changed.notify_all()
                return
        one.give_up(ENDED)

    def _give_up_late(self) -> None:
        """Waits for another task to come; if none does, whatever waits is given up, to be run as an ordinary job."""
        with self._changed:
            if self._changed.wait_for(lambda: self._links or self._closed.is_set(), TASKS_WITHIN_S):
                return
            left, self._waiting = list(self._waiting), deque()
        for one in left:
            one.give_up(NO_TASK)


def _addresses(session: SparkSession) -> tuple[str, str]:
    """Where tasks find this process, and where it listens: as Spark's own driver, so on loopback unless told."""
    conf = session.sparkContext.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    return host, conf.get("spark.driver.bindAddress") or host


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
