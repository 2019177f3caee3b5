"""One run of a service under load, and what was seen of it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.contracts_world import Kept, Machine, keeping
from bench.workloads.live_table1 import Live, Tweeting
from headrace.coordinate.compare.compare import compare_views
from headrace.model.plan import PlanOptions
from headrace.observe.audit import Record
from headrace.observe.money import paid_per_hour
from headrace.run.push.push import Pushed
from headrace.site.reading import ViewReader
from headrace.site.service import clock_now

LOOK_EVERY_S = 1.0
LOOK_AT_MEMORY_EVERY = 10
"""Seconds."""
PARTS = {"postgres.process": "capture", "postgres": "postgres", "java": "spark", "pyspark.daemon": "workers"}
"""Processes by what their command line has; this process is the service."""
PUSHING = ("service", "spark", "workers")
ADMITTED_WITHIN_S = 240.0


@dataclass(frozen=True, slots=True)
class Run:
    """How long, from when on it counts, and the load: tweets per second from the seconds since the start."""

    live: Live
    options: PlanOptions
    seconds: float
    settle_s: float
    rate: Callable[[float], float] | None = None
    compare: bool = False
    """Whether views are compared with their queries at the end."""


@dataclass(frozen=True, slots=True)
class Push:
    """Of a contract's view: lag before and after, seconds of changes, and what was predicted for it. All in seconds."""

    contract: str
    at_s: float
    before_s: float
    after_s: float
    batch_s: float
    predicted_s: float | None
    took_s: float | None


@dataclass(slots=True)
class Seen:
    """`episodes` and `broken_s` count after the run has settled; `lags` are by second. `rows` are by vertex."""

    run: Run
    admitted: int
    refused: int
    load_s: float
    tweets: int = 0
    behind_s: float = 0.0
    episodes: int = 0
    broken_s: float = 0.0
    cost_h: float = 0.0
    late_rows: int = 0
    view_rows: int = 0
    cpu: dict[str, float] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)
    """The most that was seen, by part."""
    lags: list[tuple[float, Mapping[str, float]]] = field(default_factory=list)
    pushes: list[Push] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    serves: dict[str, tuple[str, ...]] = field(default_factory=dict)
    critical_s: dict[str, float] = field(default_factory=dict)
    others_load: float = 0.0
    failure: str | None = None
    unequal: tuple[str, ...] | None = None

    @property
    def promised(self) -> dict[str, float]:
        freshness = self.run.live.freshness_s
        return {f"S{n + 1}": freshness[n % len(freshness)] for n in range(self.run.live.contracts)}

    @property
    def worst(self) -> float:
        """The largest lag after the run has settled, as a share of what is promised."""
        settled = [lags for at, lags in self.lags if at >= self.run.settle_s]
        return max((lag / self.promised[name] for lags in settled for name, lag in lags.items()), default=0.0)

    @property
    def kept_up(self) -> bool:
        return self.failure is None and self.episodes == 0 and self.broken_s == 0 and self.behind_s < 1

    @property
    def pushing_cpu_s(self) -> float:
        return sum(self.cpu.get(part, 0.0) for part in PUSHING)

    @property
    def pushing_memory_mb(self) -> float:
        return sum(self.memory_mb.get(part, 0.0) for part in PUSHING)

    @property
    def moved(self) -> int:
        return sum(self.rows.values())

    def moved_for(self, contract: str) -> float:
        """Rows, those of shared vertices in equal parts."""
        return sum(rows / len(self.serves[v]) for v, rows in self.rows.items() if contract in self.serves.get(v, ()))


def observe(machine: Machine, run: Run, say: Callable[[str], None]) -> Seen:
    """Loads, tweets, watches, and ends it."""
    with keeping(machine, run.live, run.options) as kept:
        tweeting = Tweeting(kept.dsn, run.live, run.rate or (lambda _: run.live.tweets_per_s))
        tweeting.start()
        try:
            _await_admission(kept, say)
            seen = Seen(run, len(kept.plan.contracts), len(kept.plan.rejected), kept.load_s)
            seen.serves = {name: figures.serves for name, figures in kept.plan.vertex_figures.items()}
            seen.critical_s = {one.contract: one.critical_path_s for one in kept.plan.contracts}
            _watch(kept, run, seen, tweeting, say)
        finally:
            tweeting.stop()
        if run.compare and seen.failure is None:
            seen.unequal = unequal_views(kept)
    return seen


def _await_admission(kept: Kept, say: Callable[[str], None]) -> None:
    """Waits until the service has measured enough to admit what it refused from estimates, as long as it goes on."""
    began, refused = time.monotonic(), len(kept.plan.rejected)
    while kept.plan.rejected and time.monotonic() - began < ADMITTED_WITHIN_S and kept.service.failure is None:
        time.sleep(LOOK_EVERY_S)
    if refused:
        admitted, waited_s = refused - len(kept.plan.rejected), time.monotonic() - began
        say(f"{refused} contracts were refused at first; {admitted} of them admitted within {waited_s:.0f} s of load")


def _watch(kept: Kept, run: Run, seen: Seen, tweeting: Tweeting, say: Callable[[str], None]) -> None:
    service, started, cpu = kept.service, time.monotonic(), Cpu()
    tweets, rows = tweeting.tweets, dict(service.accounts.rows)
    service.tell_pushes(_Pushes(kept, seen, started, dict(service.ledger.times())).note)
    settled: Mapping[str, tuple[int, float]] | None = None
    while (at := time.monotonic() - started) < run.seconds and service.failure is None:
        time.sleep(LOOK_EVERY_S)
        cpu.look()
        seen.lags.append((at, dict(service.auditor.lags_s)))
        seen.behind_s = max(seen.behind_s, tweeting.behind_s)
        seen.others_load = max(seen.others_load, os.getloadavg()[0])
        if settled is None and at >= run.settle_s:
            settled, seen.behind_s = _broken(kept), 0.0
        if round(at) % LOOK_AT_MEMORY_EVERY == 0:
            seen.memory_mb = {part: max(mb, seen.memory_mb.get(part, 0.0)) for part, mb in memory_by_part().items()}
        if round(at) % 30 == 0:
            say(f"{at:4.0f} s, {tweeting.tweets} tweets, largest lag {max(seen.lags[-1][1].values(), default=0):.1f} s")
    tweeting.stop()
    service.tell_pushes(None)
    seen.failure = tweeting.error or (None if service.failure is None else str(service.failure))
    seen.tweets, seen.cpu = tweeting.tweets - tweets, cpu.by_part
    _judge(kept, seen, settled or {})
    seen.rows = {vertex: count - rows.get(vertex, 0) for vertex, count in service.accounts.rows.items()}


def _broken(kept: Kept) -> dict[str, tuple[int, float]]:
    """Episodes and seconds of broken promises, by contract."""
    return {name: (one.episodes, one.violated_s) for name, one in kept.service.auditor.records.items()}


def _judge(kept: Kept, seen: Seen, before: Mapping[str, tuple[int, float]]) -> None:
    service = kept.service
    for name, (episodes, broken_s) in _broken(kept).items():
        earlier = before.get(name, (0, 0.0))
        seen.episodes += episodes - earlier[0]
        seen.broken_s += broken_s - earlier[1]
    seen.cost_h = sum(
        paid_per_hour(account, service.auditor.records.get(name, Record()), clock_now()) or 0.0
        for name, account in service.accounts.catch_up().accounts.items()
    )
    seen.late_rows = sum(one.late_rows for one in service.auditor.records.values())
    seen.view_rows = sum(one.rows for one in service.auditor.records.values())


@dataclass
class _Pushes:
    """Notes what pushes of views did to their lags."""

    kept: Kept
    seen: Seen
    started: float
    times: dict[str, int]

    def note(self, pushed: list[Pushed]) -> None:
        now, scheduler = clock_now(), self.kept.service.rounds.scheduler
        assert scheduler is not None
        done = {one.vertex: one.t for one in pushed if one.error is None and not one.skipped}
        for contract in self.kept.plan.contracts:
            if contract.vertex in done:
                after = done[contract.vertex]
                before = self.times.get(contract.vertex, after)
                last = scheduler.learning.last.pop(contract.contract, None)
                self.seen.pushes.append(
                    Push(
                        contract.contract,
                        time.monotonic() - self.started,
                        (now - before) / 1e6,
                        (now - after) / 1e6,
                        (after - before) / 1e6,
                        None if last is None else last[0],
                        None if last is None else last[1],
                    )
                )
        self.times |= done


def unequal_views(kept: Kept) -> tuple[str, ...]:
    """Contracts whose view is not what its query gives; none should be."""
    service = kept.service
    assert service.rounds.state is not None
    reader = ViewReader(kept.plan, service.rounds.state.program, service.ledger, service.store)
    compared = compare_views(reader, service.folder, service.environment, service.rounds.push_to)
    return tuple(view.contract for view in compared.views if not view.equal)


class Cpu:
    """Seconds of user and system time by part, since it was made and as of the last look.

    Spark's workers end when they have been idle for a while, and leave their time with nobody: only who looks often
    has it. What begins and ends between two looks is missed.
    """

    def __init__(self) -> None:
        self._first = dict(_cpu_of_processes())
        self._last = dict(self._first)

    def look(self) -> None:
        self._last |= _cpu_of_processes()

    @property
    def by_part(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for process, (part, seconds) in self._last.items():
            before = self._first[process][1] if process in self._first else 0.0
            found[part] = found.get(part, 0.0) + seconds - before
        return found


def _cpu_of_processes() -> Iterator[tuple[tuple[int, str], tuple[str, float]]]:
    """By process and when it started: its part and its own seconds."""
    for process, part in _parts(os.getpid()):
        with suppress(OSError):  # ended meanwhile
            fields = _stat(process)
            yield (process, fields[19]), (part, sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK"))


def memory_by_part(service: int | None = None) -> dict[str, float]:
    """MB of a service and of what it started; of this process if none is given."""
    found: dict[str, float] = {}
    for process, part in _parts(os.getpid() if service is None else service):
        found[part] = found.get(part, 0.0) + resident_mb(process)
    return found


def resident_mb(process: int) -> float:
    """What a process has in memory; pages that several share count in parts."""
    try:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:  # ended meanwhile
        return 0.0
    return int(found[1]) / 1000 if found else 0.0


def _parts(service: int) -> Iterator[tuple[int, str]]:
    """A service and all processes below it, each with the part that it belongs to."""
    below, parts = dict[int, list[int]](), dict[int, str]()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                below.setdefault(int(_stat(int(folder.name))[1]), []).append(int(folder.name))
                command = (folder / "cmdline").read_text(errors="replace")
            except OSError:  # ended meanwhile
                continue
            parts[int(folder.name)] = next((part for text, part in PARTS.items() if text in command), "")
    waiting = [(service, "service")]
    while waiting:
        process, parent = waiting.pop()
        part = "service" if process == service else parts.get(process) or parent
        yield process, part
        waiting += [(child, part) for child in below.get(process, [])]


def _stat(process: int) -> list[str]:
    """From the state on, which is the third of its fields."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
