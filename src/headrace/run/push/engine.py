"""The engine of a program: pushes its vertices, and starts those that are new at a common time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace

from headrace.model.errors import Conflict, ConnectError
from headrace.model.log import NEVER, Commit, Edit, Log, Piece
from headrace.model.notes import Halted, LogKeys, NoteChange
from headrace.model.words import name_id, put_in_words
from headrace.run.compile.timers import is_helper
from headrace.run.load.contents_needed import find_read_contents
from headrace.run.load.load import LoadSent
from headrace.run.load.load_work import Loaded, LoadItem, write_base
from headrace.run.load.transition import find_made_from
from headrace.run.program import Ingest, LogSpec, Program, RecomputeStep, origins_of
from headrace.run.push.halted import read_halted, waiting_for
from headrace.run.push.in_work import InWork
from headrace.run.push.locate import say_where
from headrace.run.push.push import ATTEMPTS, Pushed, Pusher
from headrace.run.push.work import Files


class NotThereYet(RuntimeError):
    """What new vertices are to start from has no common time yet: a little later it may have."""


class NoAnswer(RuntimeError):
    """A row for which a view has no answer: it cannot be computed before the data is another."""


@dataclass(slots=True)
class Engine(Pusher):
    """Holds no state of its own: everything is in the ledger and the store.

    `turn` is there if another thread pushes what runs: a loader takes it for its own pushes, or both would be in vain.
    `count_sent` is told what loading has sent from one site to another, the pushes that it takes included.
    """

    turn: AbstractContextManager[object] | None = None
    count_sent: Callable[[LoadSent], None] = lambda _: None
    in_work: InWork = field(default_factory=InWork)
    links_take_time: bool = field(default=False, kw_only=True)
    """Whether changes from another site may be on their way for long: then only those wait who need them."""

    def missing(self) -> list[str]:
        """Vertices of the program that have no log yet."""
        times = self.ledger.times()
        return [name for name in self.program.tasks if name not in times]

    def load(self, wanted: Collection[str] | None = None, t: int | None = None) -> list[str]:
        """Starts new vertices at one time; returns them. Sources must have been captured completely.

        All of the program, or those that some vertices need; at what `common_time` said before, or says now.
        """
        new = self._missing_for(wanted)
        if not new:
            return []
        t = self.common_time(wanted) if t is None else t
        sources = [name for name in new if isinstance(self.program.tasks[name].step, Ingest)]
        rest = [name for name in new if name not in sources]
        self.start_sources(sources)
        if rest:
            needed = [name for name in self.upstream(rest) if name not in rest]
            self._check(self.push([name for name in needed if name in sources], t))  # there may be much to read
            self.bring(needed, t)
            self._bring_imports(rest, t)
            self._load_at(rest, t)
        return new

    def common_time(self, wanted: Collection[str] | None = None) -> int:
        """Where new vertices can start: nothing that they read is further, and all is captured or soon will be."""
        times, new = self.ledger.times(), self._missing_for(wanted)
        imports = self.program.imports_of(new)
        started = [times[name] for name in (*self.upstream(new), *imports) if name in times]
        spools = self.ledger.logs(self.spools(new)).values()
        return max([self.watermark(new, times), *started, *(spool.start for spool in spools), *self._starts(imports)])

    def _starts(self, imports: Sequence[str]) -> Iterable[int]:
        """The times after which other sites keep changes. Raises `NotThereYet` if some of it is not there yet."""
        if not imports:
            return ()
        assert self.neighbours is not None, "nobody knows other sites"
        try:
            starts = self.neighbours.find_starts(imports)
        except ConnectError as error:
            raise NotThereYet(str(error)) from error
        missing = next((name for name in imports if name not in starts), None)
        if missing is not None:
            raise NotThereYet(f"{name_id(missing)} is not there yet at site {self.program.imports[missing].origin}")
        return starts.values()

    def missing_of(self, names: Collection[str]) -> list[str]:
        """Those of some vertices that have no log yet."""
        times = self.ledger.times()
        return [name for name in names if name in self.program.tasks and name not in times]

    def find_available(self, wanted: Collection[str] | None = None) -> list[str]:
        """Vertices that are not loaded, and could be now: all that they read of other sites is there."""
        new = self._missing_for(wanted)
        imports = self.program.imports_of(new)
        try:
            starts = {} if self.neighbours is None or not imports else self.neighbours.find_starts(imports)
        except (ConnectError, NotThereYet):
            starts = {}
        return [name for name in new if all(read in starts for read in self.program.imports_of([name]))]

    def _missing_for(self, wanted: Collection[str] | None) -> list[str]:
        among = None if wanted is None else set(self.upstream(wanted))
        return [name for name in self.missing() if among is None or name in among]

    def forget(self, vertices: Collection[str]) -> list[str]:
        """Drops vertices and all that read them, so that they are loaded again; returns them. Sources stay."""
        # What is brought from other sites starts anew with what is made of it. Copies that others keep of what goes
        # have no place here any more: when they ask for changes, they are told to start anew.
        gone: dict[str, None] = dict.fromkeys(name for name in self.program.imports if name in vertices)
        for name, task in self.program.tasks.items():
            if not isinstance(task.step, Ingest) and (name in vertices or any(read in gone for read in task.reads)):
                gone[name] = None
        for name, copy in self.program.exports.items():
            if name in vertices or any(read in gone for read in copy.task.reads):
                gone[name] = None
        tasks = self.program.tasks
        states = [state.name for name in gone if name in tasks and (state := tasks[name].state) is not None]
        known = self.ledger.times()
        self.ledger.commit(self.lease, Commit(forget=tuple(name for name in (*gone, *states) if name in known)))
        return list(gone)

    def rebuild(self, vertex: str) -> list[str]:
        """Computes anew, as of now, what bad rows keep a vertex from, and the vertex; returns all that was.

        Nothing of before has to be evaluated for that, so rows that are gone do not matter. Logs that hold contents get
        the difference as one change; logs of changes alone start here. Whatever else reads these is halted, until it is
        rebuilt as well. Raises `NoAnswer` while a bad row is still there. Safe to repeat: it is one commit.
        """
        halted, upstream, times = read_halted(self.ledger), self.upstream([vertex]), self.ledger.times()
        waiting = waiting_for(self.program, halted)
        anew = [name for name in upstream if name in waiting]
        rest = [name for name in upstream if name not in waiting]
        t = max([self.watermark(upstream, times), *(times[name] for name in upstream)])
        if not anew or t <= max(times[name] for name in anew):
            return []
        self.bring(rest, t)
        first = {waiting[name] for name in anew}
        try:
            self._load_at(anew, t, rebuilt={name: halted[waiting[name]] for name in anew})
        except NoAnswer as error:
            again = tuple(replace(halted[name], why=str(error), tried=t) for name in sorted(first))
            self.ledger.commit(self.lease, Commit(notes=again))
            raise
        return anew

    def level(self, program: Program) -> list[str]:
        """Brings what another program makes in another way so far that it can go on with it; what that was.

        That is where the logs start that it is made from, and as far as possible if a state has to be started. Raises
        `NotThereYet` while something is not captured as far.
        """
        logs, waiting = self.ledger.logs(program.logs), self.waiting()
        going_on = {name: task for name, task in program.tasks.items() if name in logs and name not in waiting}
        behind = {
            name: max(logs[read].start for read in task.reads if read in logs)
            for name, task in going_on.items()
            if any(read in logs and logs[read].start > logs[name].t for read in task.reads)
        }
        lacking = (name for name in _without_state(program, logs) if name in going_on)
        behind |= {name: self.watermark([name]) for name in lacking}
        for t in sorted(set(behind.values())):
            self.bring([name for name, start in behind.items() if start == t], t)
        return list(behind)

    def start_imports(self, program: Program) -> list[str]:
        """Starts what vertices that are there will read of other sites by another program: where they are, or later if
        the other site keeps no changes since then; returns what was started.

        Loading starts what new vertices read. These are not new: they were made in another way until now. Raises
        `NotThereYet` if another site is not as far.
        """
        times, found = self.ledger.times(), dict[str, int]()
        for name, task in program.tasks.items():
            for read in task.reads if name in times else ():
                if read in program.imports and read not in times:
                    found[read] = max(times[name], found.get(read, NEVER))
        if not found:
            return []
        assert self.neighbours is not None, "nobody knows other sites"
        try:
            starts = self.neighbours.find_starts(list(found))
            edits = [self._start_import(program.logs[name], max(t, starts[name])) for name, t in found.items()]
        except ConnectError as error:
            raise NotThereYet(str(error)) from error
        except KeyError as error:
            raise NotThereYet(f"{name_id(str(error.args[0]))} is not there yet at its site") from error
        notes = tuple(LogKeys(name, tuple(key.columns for key in program.logs[name].keys)) for name in found)
        self.ledger.commit(self.lease, Commit(tuple(edits), notes))
        return list(found)

    def _start_import(self, spec: LogSpec, t: int) -> Edit:
        assert self.neighbours is not None, "nobody knows other sites"
        pieces: tuple[Piece, ...] = ()
        if spec.has_contents:
            rows = self.neighbours.read_contents(spec.name, t)
            pieces = write_base(self.store, spec, rows, t, self.program.functions)
        return Edit(spec.name, None, t, pieces, start=t, site=spec.site)

    def find_lost(self) -> set[str]:
        """What is not there of the program, or cannot go on from where it is, with all that is made of it."""
        lost = {*self.missing(), *self.find_cut_off()}
        return lost | find_made_from(self.program, lost)

    def find_cut_off(self) -> list[str]:
        """Vertices that cannot go on from where they are: changes that they lack are gone from a log that they read, or
        that log is not there and will start later.

        Nothing gets into this state while a plan runs. A crash, or a plan whose views could not all be loaded, may
        leave it behind; these vertices have to be loaded again.
        """
        tasks, waiting = self.program.tasks, self.waiting()
        logs = self.ledger.logs({*tasks, *(read for task in tasks.values() for read in task.reads)})
        return [
            name
            for name, task in tasks.items()
            if name in logs and name not in waiting
            for log in [logs[name]]
            if any(read not in logs or logs[read].start > log.t for read in task.reads)
        ]

    def without_state(self) -> list[str]:
        """Vertices that lack the state of their operator, because they were made in another way."""
        return _without_state(self.program, self.ledger.times())

    def start_states(self) -> dict[str, RuntimeError | None]:
        """Starts states that vertices lack: of which, and why it failed. Nobody else may push them meanwhile.

        Vertices that are halted, or wait for one that is, get their states when they are rebuilt.
        """
        times, waiting = self.ledger.times(), self.waiting()
        done: dict[str, RuntimeError | None] = {}
        for name in self.without_state():
            if name in waiting:
                continue
            try:
                # What is read now may be behind what was read before: a state of then would miss what came in between.
                self.bring([read for read in self.upstream([name]) if read != name], times[name])
                self._load_at([name], times[name], states_only=True)
                done[name] = None
            except RuntimeError as error:  # of this one: the others can go on
                done[name] = error
        return done

    def start_sources(self, names: Sequence[str]) -> None:
        """Starts the logs of sources that were captured completely."""
        edits = []
        for name in names:
            step, spec = self.program.tasks[name].step, self.program.logs[name]
            assert isinstance(step, Ingest)
            spool = self.ledger.logs([step.spool])[step.spool]
            edits.append(Edit(name, None, spool.start, start=spool.start, site=spec.site))
        if edits:
            self.ledger.commit(self.lease, Commit(tuple(edits), self._key_notes(names)))

    def bring(self, vertices: Collection[str], t: int) -> None:
        """Brings vertices to a time, with what they need of other sites. What runs is never far behind: it goes as one
        job if somebody waits for the turn. Raises `NotThereYet`.
        """
        needed = self.upstream(vertices)
        self._bring_imports(needed, t)
        if self.turn is None:
            self._check(self.push(vertices, t))
            return
        for name in self.apart().intersection(needed):
            self.bring(self.program.tasks[name].reads, t)
            self._check(self._push_beside(name, t, self.turn))
        with self.turn:
            self._check(self.push_chains(dict.fromkeys(needed, t)))

    def bring_sources(self, sources: Collection[str], t: int) -> None:
        """Brings sources to a time up to which they are captured, ahead of their turn."""
        with nullcontext() if self.turn is None else self.turn:
            self._check(self.push(sources, t))

    def _bring_imports(self, vertices: Collection[str], t: int) -> None:
        """Waits until what is there of other sites has reached a time."""
        times = self.ledger.times()
        behind = [name for name in self.program.imports_of(vertices) if times.get(name, t) < t]
        if behind:
            assert self.neighbours is not None, "nobody knows other sites"
            try:
                self.neighbours.bring(behind, t)
            except ConnectError as error:
                raise NotThereYet(str(error)) from error

    def apart(self) -> set[str]:
        """Vertices that are pushed beside the others: they may take long, however little has changed."""
        in_full = {name for name, task in self.program.tasks.items() if isinstance(task.step, RecomputeStep)}
        return in_full | self.transfers()

    def transfers(self) -> set[str]:
        """Vertices whose changes come over links that take time. Those that have parts are pushed with these."""
        if not self.links_take_time:
            return set()
        tasks = self.program.tasks
        crossing = {name for name, task in tasks.items() if origins_of(self.program, task)}
        return {name for name in crossing if not any(map(is_helper, (name, *tasks[name].reads)))}

    def _push_beside(self, name: str, t: int, turn: AbstractContextManager[object]) -> list[Pushed]:
        """If somebody else pushes it as well, the first one counts: what is left to do then is less, or nothing."""
        for _ in range(ATTEMPTS):
            with ExitStack() as held:
                with turn:
                    item = self.begin(name, t)
                    if isinstance(item, Pushed):
                        return [item]
                    held.enter_context(self.in_work.holding(item))
                outcome = self.in_work.run(self.runner, item)
                with turn, suppress(Conflict):
                    return self.finish(item, outcome)
        return [Pushed(name, NEVER, error="somebody else pushes it all the time")]

    def _load_at(
        self, new: Sequence[str], t: int, states_only: bool = False, rebuilt: Mapping[str, Halted] | None = None
    ) -> None:
        """Contents and states of vertices at a time; `states_only` of vertices that have contents at that time.

        Vertices to be `rebuilt` are there already, and say why they are not right any more.
        """
        upstream = self.upstream(new)
        logs = self.ledger.logs([*upstream, *self.program.imports_of(new), *self.program.remembered(upstream, new)])
        ahead = [name for name, log in logs.items() if log.base_t is not None and log.base_t > t]
        if ahead:
            raise RuntimeError(f'the contents of "{ahead[0]}" at the time of loading are gone')
        kept = {
            name: Files(log.site, log.contents)
            for name, log in logs.items()
            if self.program.logs[name].has_contents and name not in new
        }
        brought = self._bring_contents(new, t, kept)
        kept |= {name: Files(self.program.logs[name].site, pieces) for name, pieces in brought.items()}
        there = self.ledger.logs(spec.name for name in new for spec in self._specs(name)) if rebuilt else {}
        item = LoadItem(self.program, tuple(new), t, self.store, kept, states_only, before=there)
        outcome = self.runner.run([item])[0]
        if outcome.bad_row is not None:
            came = {one.since for one in (rebuilt or {}).values()}
            raise NoAnswer(say_where(outcome.bad_row, self.program, self.ledger, self.store, came))
        if outcome.value is None:
            raise RuntimeError(f"loading failed: {outcome.error}")
        loaded: Loaded = outcome.value
        for sent in loaded.sent:
            self.count_sent(sent)
        edits = [
            _start_of(spec, there.get(spec.name), t, tuple(p for log, p in loaded.pieces if log == spec.name))
            for name in new
            for spec in self._specs(name)[states_only:]
        ]
        edits += self._start_imports(new, t, brought, logs)
        notes = self._key_notes([edit.log for edit in edits]) if rebuilt is None else self._halt_readers(rebuilt)
        # A state alone mends nothing: a vertex that was halted is where it was.
        mended = () if states_only else tuple(Halted.remove(name) for name in new)
        self.ledger.commit(self.lease, Commit(tuple(edits), (*notes, *mended)))

    def _bring_contents(self, new: Sequence[str], t: int, kept: Mapping[str, Files]) -> dict[str, tuple[Piece, ...]]:
        """The rows of other sites that vertices start from, as far as they are not kept here; in files, by log."""
        found: dict[str, tuple[Piece, ...]] = {}
        for name in find_read_contents(self.program, new, kept):
            assert self.neighbours is not None, "nobody knows other sites"
            spec = self.program.logs[name]
            try:
                rows = self.neighbours.read_contents(name, t)
            except ConnectError as error:
                raise NotThereYet(str(error)) from error
            found[name] = write_base(self.store, spec, rows, t, self.program.functions)
        return found

    def _start_imports(
        self, new: Sequence[str], t: int, brought: Mapping[str, tuple[Piece, ...]], there: Mapping[str, Log]
    ) -> list[Edit]:
        """How logs start that new vertices read of other sites."""
        specs = [self.program.logs[name] for name in self.program.imports_of(new) if name not in there]
        return [
            Edit(spec.name, None, t, brought[spec.name] if spec.has_contents else (), start=t, site=spec.site)
            for spec in specs
        ]

    def _halt_readers(self, rebuilt: Mapping[str, Halted]) -> tuple[NoteChange, ...]:
        """Other readers of what was rebuilt cannot go on from where they are: changes up to now are not there."""
        return tuple(
            replace(rebuilt[read], vertex=name, tried=NEVER)
            for name, task in self.program.tasks.items()
            if name not in rebuilt
            for read in task.reads
            if read in rebuilt
        )

    def _check(self, pushed: Iterable[Pushed]) -> None:
        """Also counts what they sent: nobody else hears of them."""
        for one in pushed:
            if one.halted:
                raise NoAnswer(one.error)
            if one.error is not None:
                raise NotThereYet(f"{name_id(one.vertex)} could not be pushed: {put_in_words(one.error)}")
            if one.origin is not None:
                self.count_sent(LoadSent(one.origin, self.program.logs[one.vertex].site, one.sent))

    def _key_notes(self, logs: Iterable[str]) -> tuple[NoteChange, ...]:
        """Notes by which keys the logs have indexes."""
        return tuple(LogKeys(name, tuple(key.columns for key in self.program.logs[name].keys)) for name in logs)

    def _specs(self, name: str) -> list[LogSpec]:
        state = self.program.tasks[name].state
        return [self.program.logs[name], *([] if state is None else [state])]


def _start_of(spec: LogSpec, log: Log | None, t: int, pieces: tuple[Piece, ...]) -> Edit:
    """How a log gets to a time at which it starts, or where it is known again."""
    if log is None:
        return Edit(spec.name, None, t, pieces, start=t, site=spec.site)
    if spec.has_contents:
        return Edit(spec.name, log.t, t, pieces)
    return Edit(spec.name, log.t, t, drop=tuple({piece.file for piece in log.pieces}), start=t)


def _without_state(program: Program, there: Collection[str]) -> list[str]:
    """Vertices that are there, but whose operator's state is not."""
    tasks = program.tasks.items()
    return [name for name, task in tasks if name in there and task.state is not None and task.state.name not in there]
