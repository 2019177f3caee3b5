"""Runs templates on a device: rows of its own and of its partners go in, changes of results come out.

    document   which templates run, for which pairs; results that were known before are compared with what holds now
    put        rows of a stream of a device, or a whole table; of latest-row streams the newest counts
    advance    time passes: rows of `keep` streams are over, and what programs say about `now` changes

One program runs per template, for all its pairs at once. A template that cannot run, or fails, is refused alone:
`refused` says why, its results stay as they were, and every later change tries it again from the rows that are there
then. One that takes too long, or holds too much, is off until the next document.
"""

from __future__ import annotations

import datetime as dt
import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.meaning.evaluate import Python, evaluate
from headrace.meaning.zset import ZSet
from headrace.model.device_messages import CLOUD, NO_MORE, Document, Run, Sent, StreamShape
from headrace.model.errors import HeadraceError, WireError
from headrace.model.relation import Relation, Scan, fields_of, scans_of
from headrace.model.types import Row, Type
from headrace.run.device.fitting import fit_id, fit_row, read_time, write_id
from headrace.run.device.joins import Weighted
from headrace.run.device.programs import PAIRS, RunningProgram, read_program, start_program

Pair = tuple[str, ...]
Results = dict[tuple[Pair, Row], int]
"""How often each row of each pair is there."""

HEAD, DERIVED_HEAD = ("device", "seq", "at"), ("device", "position")
"""The columns that a stream has before its own, and those of a stream that devices derive from others."""
CLOCK_SLACK = dt.timedelta(minutes=1)
"""A clock that is set back by less just stands still meanwhile."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`seconds` is CPU time for one event of one template; `rows` are held of one stream, and of one answer."""

    rows: int = 100_000
    seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a pair comes (`weight` 1) or goes (-1); `copy` tells equal rows of the pair apart."""

    template: str
    pair: Pair
    weight: int
    copy: int
    row: Row


class _TooMuch(HeadraceError):
    """A template is over a limit: trying again would not help."""


@dataclass(slots=True)
class _Source:
    """How rows of a stream or table look in a program. `columns` are the stream's own, after the head."""

    name: str
    device: Type | None
    columns: tuple[tuple[str, Type], ...]
    is_derived: bool = False

    def make_rows(self, device: str, sent: Sent) -> list[Row]:
        rows = [fit_row(row, self.columns) for row in sent.rows]
        if self.device is None:
            return rows
        id_ = fit_id(device, self.device)
        if self.is_derived:
            return [(id_, position, *row) for position, row in enumerate(rows)]
        head = (id_, sent.seq, read_time(sent.at_ms))
        return [(*head, *row) for row in rows]


@dataclass(slots=True)
class _Template:
    """`tables` are its sources as they are. `program` is None while it fails, `is_off` if it is not tried again."""

    name: str
    relation: Relation
    sources: dict[str, list[_Source]]
    pair_at: tuple[int, ...]
    row_at: tuple[int, ...]
    tables: dict[str, dict[Row, int]]
    program: RunningProgram | None = None
    is_off: bool = False

    def split(self, row: Row) -> tuple[Pair, Row]:
        return tuple(write_id(row[at]) for at in self.pair_at), tuple(row[at] for at in self.row_at)


@dataclass(slots=True)
class _Held:
    """Rows of one stream of one device, by their numbers."""

    sent: dict[int, Sent] = field(default_factory=dict)
    newest: int = -1


class DeviceEngine:
    """`device` is its own id. `functions` are those that programs may call, by NAME@VERSION."""

    def __init__(
        self,
        device: str,
        functions: Python | None = None,
        limits: Limits | None = None,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self.refused: dict[str, str] = {}
        self.left_out: list[str] = []
        """Rows that programs could not read, to be told and cleared."""
        self.results: dict[str, Results] = {}
        self._device, self._functions, self._cpu = device, functions or {}, cpu
        self._limits = limits or Limits()
        self._held: dict[tuple[str, str], _Held] = {}
        self._over: list[tuple[int, str, str, int]] = []
        """When rows of `keep` streams are over, ms since 1970."""
        self._shapes: Mapping[str, StreamShape] = {}
        self._templates: dict[str, _Template] = {}
        self._readers: dict[str, list[_Template]] = {}
        self._now = dt.datetime.min

    def restore(
        self, streams: Mapping[str, StreamShape], held: Iterable[tuple[str, str, Sent]], results: Mapping[str, Results]
    ) -> None:
        """What was known before a restart; `take` says what runs."""
        self._shapes = streams
        for stream, device, sent in held:
            self.put(stream, device, (sent,), 0)
        self.results = {template: dict(rows) for template, rows in results.items()}

    # What runs

    def take(self, document: Document, now_ms: int) -> list[Change]:
        """Run this from now on. What was there before and is not any more goes."""
        self._shapes = document.streams
        self._drop_partners(document)
        found = self._expire(now_ms)
        self.refused, self._templates, self._readers = {}, {}, {}
        for name, runs in _by_template(document.run).items():
            self._start(name, runs, document.programs)
        for gone in sorted(self.results.keys() - {one.template for one in document.run}):
            found += self._settle(gone, {key: -count for key, count in self.results[gone].items()})
            del self.results[gone]
        for template in self._templates.values():
            found += self._guard(template, tuple)
        return found

    def columns(self, template: str) -> tuple[str, ...]:
        """Names of a result's values."""
        known = self._templates.get(template)
        if known is None:
            return ()
        names = [one.name for one in fields_of(known.relation)]
        return tuple(names[at] for at in known.row_at)

    def is_ready(self, template: str) -> bool:
        """Whether a template of this device alone has what it reads: all tables, and some row of its own."""
        known = self._templates.get(template)
        if known is None:
            return False
        tables = {stream for stream, sources in known.sources.items() if any(one.device is None for one in sources)}
        has_tables = all(self.newest(table, CLOUD) > NO_MORE.seq for table in tables)
        return has_tables and any(self.known(stream, self._device) for stream in known.sources.keys() - tables)

    def forget(self, stream: str, device: str) -> None:
        """What is known of a stream counts no more for what `take` starts."""
        self._held.pop((stream, device), None)

    def _start(self, name: str, runs: Sequence[Run], programs: Mapping[str, str]) -> None:
        try:
            self._templates[name] = template = self._make_template(name, runs, programs)
        except (HeadraceError, RecursionError) as error:
            self.refused[name] = str(error)
            return
        for stream in template.sources:
            self._readers.setdefault(stream, []).append(template)

    def _make_template(self, name: str, runs: Sequence[Run], programs: Mapping[str, str]) -> _Template:
        chosen = {run.program for run in runs}
        if len(chosen) > 1 or not chosen <= programs.keys():
            raise WireError("its document does not have the one program that it runs")
        relation = read_program(programs[chosen.pop()], self._functions)
        scans = {scan.source: scan for scan in scans_of(relation)}
        names = [one.name for one in fields_of(relation)]
        pair_at = tuple(names.index(side) for side in ("a", "b") if side in names)
        if not pair_at:
            raise WireError('its answer does not have the column "a"')
        sources: dict[str, list[_Source]] = {}
        for scan in scans.values():
            if scan.source != PAIRS:
                sources.setdefault(_stream_of(scan.source, self._shapes), []).append(_make_source(scan))
        tables: dict[str, dict[Row, int]] = {name: {} for name in scans}
        tables[PAIRS] = dict.fromkeys(self._make_pairs(scans[PAIRS], runs), 1)
        row_at = tuple(at for at in range(len(names)) if at not in pair_at)
        template = _Template(name, relation, sources, pair_at, row_at, tables)
        for (stream, device), held in self._held.items():
            for source in sources.get(stream, ()):
                for sent in held.sent.values():
                    rows = self._make_rows(template, source, device, sent)
                    _add_all(tables[source.name], ((row, 1) for row in rows))
        return template

    def _make_pairs(self, scan: Scan, runs: Sequence[Run]) -> list[Row]:
        found: list[Row] = []
        for run in runs:
            if len(scan.types) == 1:
                found.append((fit_id(self._device, scan.types[0]),))
            for partner in run.partners if len(scan.types) > 1 else ():
                sides = (self._device, partner) if run.side == "a" else (partner, self._device)
                found.append(tuple(fit_id(side, type_) for side, type_ in zip(sides, scan.types, strict=True)))
        return found

    def _drop_partners(self, document: Document) -> None:
        taken = {(one.stream, one.device) for one in document.take}
        for key in [key for key in self._held if key[1] != self._device and key not in taken]:
            del self._held[key]

    # What changes

    def put(self, stream: str, device: str, sent: Sequence[Sent], now_ms: int) -> list[Change]:
        """Rows of a stream of a device; `CLOUD` as the device for a table, which comes as a whole."""
        found = self._expire(now_ms)
        held = self._held.setdefault((stream, device), _Held())
        keep_s = self._keep_s(stream, device)
        if keep_s:
            gone, came = [], [one for one in sent if one.seq not in held.sent and one.at_ms > now_ms - keep_s * 1000]
            for one in came:
                heapq.heappush(self._over, (one.at_ms + int(keep_s * 1000), stream, device, one.seq))
        else:
            newest = max(sent, key=lambda one: one.seq)
            if newest.seq <= held.newest:
                return found
            gone, came = list(held.sent.values()), [newest]
        return found + self._change(stream, device, gone, came)

    def held(self, stream: str, device: str) -> list[Sent]:
        """The rows that count now, in the order of their numbers."""
        held = self._held.get((stream, device), _Held())
        return [held.sent[seq] for seq in sorted(held.sent)]

    def newest(self, stream: str, device: str) -> int:
        """The number of the newest row that was ever put; -1 if none was."""
        return self._held.get((stream, device), _Held()).newest

    def known(self, stream: str, device: str) -> bool:
        """Whether a stream of a device was heard of, even if it has no rows."""
        return (stream, device) in self._held

    @property
    def reads_time(self) -> bool:
        """Whether anything changes while time passes."""
        running = (template.program for template in self._templates.values())
        return bool(self._over) or any(program.reads_time for program in running if program is not None)

    def advance(self, now_ms: int) -> list[Change]:
        found = self._expire(now_ms)
        for template in self._templates.values():
            if template.program is not None:
                found += self._guard(template, lambda one=template: one.program.advance(self._now))  # type: ignore[misc]
        return found

    def _keep_s(self, stream: str, device: str) -> float:
        return self._shapes[stream].keep_s if stream in self._shapes and device != CLOUD else 0.0

    def _expire(self, now_ms: int) -> list[Change]:
        """What is over stays over, whatever the clock does."""
        found = self._follow_clock(read_time(now_ms))
        over: dict[tuple[str, str], list[Sent]] = {}
        while self._over and self._over[0][0] <= now_ms:
            _, stream, device, seq = heapq.heappop(self._over)
            held = self._held.get((stream, device))
            if held is not None and seq in held.sent:
                over.setdefault((stream, device), []).append(held.sent[seq])
        for (stream, device), gone in over.items():
            found += self._change(stream, device, gone, [])
        return found

    def _follow_clock(self, now: dt.datetime) -> list[Change]:
        """Time never goes back for a program; if the clock was set back by much, programs start anew."""
        if now + CLOCK_SLACK >= self._now:
            self._now = max(self._now, now)
            return []
        self._now, found = now, []
        for template in self._templates.values():
            template.program = None
            found += self._guard(template, tuple)
        return found

    def _change(self, stream: str, device: str, gone: Sequence[Sent], came: Sequence[Sent]) -> list[Change]:
        held = self._held[stream, device]
        for one in gone:
            del held.sent[one.seq]
        held.sent.update((one.seq, one) for one in came)
        held.newest = max([held.newest, *(one.seq for one in came)])
        found = []
        for template in self._readers.get(stream, ()):
            found += self._guard(template, lambda one=template: self._pass_on(one, stream, device, gone, came))  # type: ignore[misc]
        while len(held.sent) > self._limits.rows:  # whoever reads this stream is off by now
            del held.sent[min(held.sent)]
        return found

    def _pass_on(
        self, template: _Template, stream: str, device: str, gone: Sequence[Sent], came: Sequence[Sent]
    ) -> list[Weighted]:
        found: list[Weighted] = []
        for source in template.sources[stream]:
            change: dict[Row, int] = {}
            for weight, several in ((-1, gone), (1, came)):
                for sent in several:
                    _add_all(change, ((row, weight) for row in self._make_rows(template, source, device, sent)))
            table = template.tables[source.name]
            _add_all(table, change.items())
            if len(table) > self._limits.rows:
                raise _TooMuch(f'more than {self._limits.rows:,} rows of "{stream}"')
            if template.program is not None and change:
                found += template.program.change(source.name, change.items(), self._now)
        return found

    def _make_rows(self, template: _Template, source: _Source, device: str, sent: Sent) -> list[Row]:
        """A row that is not what the program reads is left out, when it comes and when it goes."""
        try:
            return source.make_rows(device, sent)
        except WireError as error:
            self.left_out.append(f'"{template.name}" does not read a row of "{source.name}" of "{device}": {error}')
            return []

    # Results

    def _guard(self, template: _Template, work: Callable[[], Iterable[Weighted]]) -> list[Change]:
        """Changes of a template's results. Whatever goes wrong in it stays in it."""
        if template.is_off:
            return []
        started, net = self._cpu(), None
        try:
            try:
                changes = work()
                net = self._net(template, changes) if template.program is not None else None
            except _TooMuch:
                raise
            except Exception:
                # A change may pair rows that were never there together: only the whole answer proves that it fails.
                template.program = None
            if net is None:
                net = self._whole_net(template)
            self._check_limits(template, net, self._cpu() - started)
        except Exception as error:
            template.program, template.is_off = None, isinstance(error, _TooMuch | MemoryError | RecursionError)
            self.refused[template.name] = str(error) or type(error).__name__
            return []
        self.refused.pop(template.name, None)
        return self._settle(template.name, net)

    def _net(self, template: _Template, items: Iterable[Weighted]) -> Results:
        net: Results = {}
        for row, weight in items:
            key = template.split(row)
            net[key] = net.get(key, 0) + weight
        results = self.results.get(template.name, {})
        assert all(results.get(key, 0) + weight >= 0 for key, weight in net.items()), "what was not there has gone"
        return net

    def _whole_net(self, template: _Template) -> Results:
        """The whole answer less the results that were: by a program that starts anew, or else by the evaluator."""
        try:
            template.program, found = start_program(template.relation, template.tables, self._now, self._functions)
        except HeadraceError:
            tables = {source: ZSet(rows.items()) for source, rows in template.tables.items()}
            found = evaluate(template.relation, tables, self._now, self._functions).items()
        net = {key: -count for key, count in self.results.get(template.name, {}).items()}
        for row, weight in found:
            key = template.split(row)
            net[key] = net.get(key, 0) + weight
        return net

    def _check_limits(self, template: _Template, net: Results, seconds: float) -> None:
        if len(self.results.get(template.name, {})) + sum(net.values()) > self._limits.rows:
            raise _TooMuch(f"more than {self._limits.rows:,} rows of results")
        if seconds > self._limits.seconds:
            raise _TooMuch(f"an event took {seconds:.1f} s of computing; {self._limits.seconds:g} s are allowed")

    def _settle(self, template: str, net: Results) -> list[Change]:
        """Changes of results, those that go before those that come."""
        results = self.results.setdefault(template, {})
        goes, comes = [], []
        for (pair, row), weight in net.items():
            was = results.get((pair, row), 0)
            goes += [Change(template, pair, -1, copy, row) for copy in range(was - 1, was + weight - 1, -1)]
            comes += [Change(template, pair, 1, copy, row) for copy in range(was, was + weight)]
            if was + weight:
                results[pair, row] = was + weight
            else:
                results.pop((pair, row), None)
        return goes + comes


def _by_template(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.template, []).append(run)
    return found


def _stream_of(source: str, shapes: Mapping[str, StreamShape]) -> str:
    """`phones/location` is the stream `location`; a table, or another template's view, is called as it is."""
    stream = source.partition("/")[2]
    return stream if stream in shapes else source


def _make_source(scan: Scan) -> _Source:
    columns = tuple(zip(scan.columns, scan.types, strict=True))
    # No table has a slash in its name, but one may have columns of these names.
    if "/" in scan.source and scan.columns[: len(DERIVED_HEAD)] == DERIVED_HEAD:
        return _Source(scan.source, scan.types[0], columns[len(DERIVED_HEAD) :], is_derived=True)
    is_stream = scan.columns[: len(HEAD)] == HEAD
    return _Source(scan.source, scan.types[0] if is_stream else None, columns[len(HEAD) :] if is_stream else columns)


def _add_all(rows: dict[Row, int], changes: Iterable[Weighted]) -> None:
    for row, weight in changes:
        total = rows.get(row, 0) + weight
        if total:
            rows[row] = total
        else:
            rows.pop(row, None)
