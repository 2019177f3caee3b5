"""Steps that were printed are the steps that are done, in their order; and after a crash, the steps that were left."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.app.planning import plan_project
from headrace.coordinate.existing import Existing, find_existing
from headrace.coordinate.perform import find_unfinished, is_stuck, perform
from headrace.coordinate.steps import CompiledPlan, copies_asked, shapes_of, slots_asked, sources_read, steps_between
from headrace.declare.project_text import digest_files
from headrace.doors.cli.main import run
from headrace.model.going_over import GoingOver
from headrace.model.log import Commit, Edit, Lease
from headrace.model.note_texts import RemovedNote
from headrace.model.notes import CaptureSlot, LogKeys, NoteChange, SourceLoaded, SourceShape, StepsToDo
from headrace.model.plan import Plan, PlanOptions
from headrace.model.steps import (
    BuildIndex,
    ForgetVertices,
    LoadVertices,
    MoveVertex,
    ReadAgain,
    ReadSources,
    StartCapture,
    Step,
    Steps,
    StopCapture,
    StopContract,
    SwitchPlan,
    WriteCopy,
    split_acts,
    step_document,
)
from headrace.run.capture.spool import SPOOL
from headrace.run.load.transition import find_made_from
from headrace.run.ports import Ledger
from headrace.site.folder import Folder
from headrace.testing.worlds import quick_folder
from tests.examples import examples
from tests.plan.share.projects import wanted
from tests.running.loaded import existing_while_running, write_existing
from tests.running.test_steps import compiled, pairs, plan_of


class Crash(BaseException):
    """The process is gone: nobody hears of it."""


@dataclass
class Recorded:
    """Does with a ledger what a service does with captures, engine and databases as well; records what it did.

    It crashes after so many acts: before the next one begins, or after it was done and before that is noted.
    """

    ledger: Ledger
    lease: Lease
    before: CompiledPlan | None
    then: CompiledPlan
    existing: Existing = field(default_factory=Existing)
    crash_at: float = float("inf")
    done: list[Step] = field(default_factory=list)
    acts: int = 0
    runs: bool = False

    def begin(self, left: Steps) -> None:
        self.runs = SwitchPlan() not in left

    def finish(self) -> None:
        pass

    def act(self, steps: Steps) -> None:
        if self.acts == self.crash_at:
            raise Crash
        for step in steps:
            self._do(step)
        self.done += steps
        self.acts += 1
        if self.acts == self.crash_at + 0.5:
            raise Crash

    def _do(self, step: Step) -> None:
        programs = [one.program for one in (self.before, self.then) if one is not None]
        match step:
            case ReadAgain(source):
                made = frozenset[str]().union(*(find_made_from(program, [SPOOL + source]) for program in programs))
                self._commit(forget=(SPOOL + source, *made), notes=(SourceLoaded.remove(source),))
            case StartCapture():
                slots = sorted(slots_asked(self.then.plan, self.existing.directory))
                self._commit(notes=tuple(CaptureSlot(f"of_{one}", project, one, "") for project, one in slots))
            case ReadSources(sources):
                shapes = shapes_of(self.then.plan)
                notes = [note for name in sources for note in (SourceLoaded(name, 1), SourceShape(name, shapes[name]))]
                self._commit([SPOOL + name for name in sources], tuple(notes))
            case BuildIndex(_, log, _):
                self._commit(notes=(self._keys(log),))
            case LoadVertices() | MoveVertex():
                self._load(step.logs)
            case SwitchPlan():
                self._switch()
            case WriteCopy():
                self._commit(notes=tuple(copies_asked(self.then.plan)))
            case StopContract() | ForgetVertices():
                self._commit(forget=step.logs, notes=tuple(LogKeys.remove(name) for name in step.logs))
                if isinstance(step, ForgetVertices):
                    self._forget_sources(step.spools)
            case StopCapture(_, sources):
                assert self.runs
                self._forget_sources(frozenset(sources) - sources_read(self.then.plan))
            case _ if hasattr(step, "note"):
                self._commit(notes=(RemovedNote(step.note),))
            case _:
                pass

    def _load(self, names: tuple[str, ...]) -> None:
        """All that they are made from has to be there."""
        tasks, there = self.then.program.tasks, self.ledger.times()
        for name in names:
            assert not self.runs
            needed = [read for read in tasks[name].reads if read.startswith(SPOOL)]
            assert all(read in there for read in needed), f"{name} is loaded before its source is read"
        states = [state.name for name in names if (state := tasks[name].state) is not None]
        self._commit([*names, *states], tuple(self._keys(name) for name in (*names, *states)))

    def _switch(self) -> None:
        """States of vertices that are computed differently start; indexes that are not needed go."""
        program, there = self.then.program, self.ledger.times()
        assert there.keys() >= program.tasks.keys(), "something is missing"
        states = [task.state.name for task in program.tasks.values() if task.state is not None]
        self._commit([name for name in states if name not in there], tuple(self._keys(name) for name in program.logs))
        self.runs = True

    def _keys(self, log: str) -> LogKeys:
        return LogKeys(log, tuple(key.columns for key in self.then.program.logs[log].keys))

    def _forget_sources(self, sources: frozenset[str] | tuple[str, ...]) -> None:
        notes: list[NoteChange] = [SourceLoaded.remove(name) for name in sources]
        notes += [SourceShape.remove(name) for name in sources]
        self._commit(forget=tuple(SPOOL + name for name in sources), notes=tuple(notes))

    def _commit(
        self, logs: list[str] | tuple[str, ...] = (), notes: tuple[NoteChange, ...] = (), forget: tuple[str, ...] = ()
    ) -> None:
        """What is there already is not made again, and what is gone does not go."""
        there = self.ledger.times()
        edits = tuple(Edit(name, None, 1, start=1, site="us") for name in dict.fromkeys(logs) if name not in there)
        self.ledger.commit(self.lease, Commit(edits, notes, forget=tuple(name for name in forget if name in there)))


@contextmanager
def a_folder(running: Plan | None = None) -> Iterator[tuple[Folder, Ledger, Lease]]:
    with quick_folder() as made:
        folder = Folder(Path(made))
        folder.prepare()
        if running is not None:
            write_existing(folder, running)
        ledger = folder.ledger()
        try:
            yield folder, ledger, ledger.acquire("service", "test", 1e9)
        finally:
            ledger.close()


def found_in(ledger: Ledger, folder: Folder) -> Existing:
    found = find_existing(ledger, folder.project)
    kept = {name: keys for name, keys in found.keys.items() if keys}
    return replace(
        found, keys=kept, copies=tuple(sorted(found.copies, key=str)), slots=tuple(sorted(found.slots, key=str))
    )


def needed_by(plan: CompiledPlan, folder: Folder) -> Existing:
    found = existing_while_running(plan.plan, str(folder.project.absolute()))
    kept = {name: keys for name, keys in found.keys.items() if keys}
    return replace(
        found, keys=kept, copies=tuple(sorted(found.copies, key=str)), slots=tuple(sorted(found.slots, key=str))
    )


@settings(max_examples=examples(20), deadline=None)
@given(pair=pairs(), seed=st.integers(0, 2**32))
def test_the_steps_of_a_dry_run_are_those_that_are_done_and_leave_what_the_plan_needs(pair, seed):
    """Crashes before, in and after any act; logs that were lost are loaded again."""
    running, then, chance = pair.running, pair.then, random.Random(seed)
    before, after = None if running is None else compiled(running), compiled(then)
    with a_folder(running) as (folder, ledger, lease):
        lost = tuple(name for name in sorted(ledger.times()) if not name.startswith(SPOOL) and chance.random() < 0.1)
        ledger.commit(lease, Commit(forget=lost))
        existing = find_existing(ledger, folder.project)
        printed = steps_between(before, after, existing)
        assert steps_between(before, after, existing) == printed
        acts = Recorded(ledger, lease, before, after, existing=existing)
        acts.crash_at = chance.randrange(0, 2 * len(list(split_acts(printed))) + 1) / 2
        done: list[Step] = []
        try:
            perform(ledger, lease, GoingOver(then, {}, printed), acts)
        except Crash:
            going, number = find_unfinished(folder) or (None, 0)
            assert going is not None and going.steps == printed
            again = Recorded(ledger, lease, before, after, existing=existing)
            perform(ledger, lease, going, again, number)
            assert tuple(again.done) == printed[number:]
            done = [*acts.done[:number], *again.done]
        assert tuple(done or acts.done) == printed
        assert find_unfinished(folder) is None
        if printed:
            assert found_in(ledger, folder) == needed_by(after, folder)
            assert steps_between(after, after, find_existing(ledger, folder.project)) == ()


def test_a_list_that_another_version_wrote_is_dropped(caplog: pytest.LogCaptureFixture):
    plan = plan_of(wanted("sales"))
    with a_folder() as (folder, ledger, lease):
        acts = Recorded(ledger, lease, None, compiled(plan), crash_at=0)
        with pytest.raises(Crash):
            perform(ledger, lease, GoingOver(plan, {}, steps_between(None, compiled(plan), Existing())), acts)
        (text,) = (text for name, text in ledger.notes("steps").items() if name == "steps")
        assert json.loads(text)["format"] == "headrace/1" and find_unfinished(folder) is not None
        ledger.commit(lease, Commit(notes=(StepsToDo(text.replace("headrace/1", "headrace/9", 1)),)))
        assert find_unfinished(folder) is None
    assert "the steps that were left cannot be read, and the project is planned again" in caplog.text


@pytest.fixture
def city(tmp_path: Path) -> Path:
    project = tmp_path / "city"
    shutil.copytree(Path(__file__).parents[2] / "examples" / "city", project)
    return project


def crash_in(project: Path, going: GoingOver, crash_at: int = 1, number: int = 0) -> list[Step]:
    """The steps that a service did before it died on its way."""
    folder = Folder(project)
    folder.prepare()
    with closing(folder.ledger()) as ledger:
        lease = ledger.acquire("service", "test", 1e9)
        acts = Recorded(ledger, lease, None, compiled(going.plan), crash_at=crash_at)
        with pytest.raises(Crash):
            perform(ledger, lease, going, acts, number)
        ledger.release(lease)
    return acts.done


def test_steps_that_are_left_are_shown_until_the_files_of_the_project_change(
    city: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, plan = city, plan_project(city, {}, PlanOptions())
    steps = steps_between(None, compiled(plan), Existing(directory=str(project)))
    done = crash_in(project, GoingOver(plan, {}, steps, digest_files(project)))
    run(["apply", str(project), "--dry-run", "--json"])
    shown = json.loads(capsys.readouterr().out)["steps"]
    assert shown == [step_document(step) for step in steps[len(done) :]] and done
    (project / "headrace.yml").write_text((project / "headrace.yml").read_text() + "\n# another line\n")
    run(["apply", str(project), "--dry-run"])
    said = capsys.readouterr()
    assert "dropping the steps that the last run did not finish" in said.err
    assert "switch to the new plan" in said.out, "planned again, with the rows that were read"


def test_steps_that_lead_nowhere_by_now_are_dropped_with_the_reason(
    city: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, files = plan_project(city, {}, PlanOptions()), digest_files(city)
    steps = steps_between(None, compiled(plan), Existing(directory=str(city)))
    users = plan.catalogue.sources["users"]
    assert users.columns is not None
    wider = replace(users, columns=(*users.columns, replace(users.columns[0], name="gone")))
    sources = {**plan.catalogue.sources, "users": wider}
    before = replace(plan, catalogue=replace(plan.catalogue, sources=sources))
    dropped = {
        "it had begun them by itself, not for a change of the project's files": GoingOver(plan, {}, steps),
        "users changed in the meantime": GoingOver(before, {}, steps, files),
    }
    for why, going in dropped.items():
        crash_in(city, going)
        run(["apply", str(city), "--dry-run"])
        assert f"dropping the steps that the last run did not finish: {why}" in capsys.readouterr().err


def test_steps_that_were_begun_three_times_and_never_done_are_dropped(
    city: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_project(city, {}, PlanOptions())
    steps = steps_between(None, compiled(plan), Existing(directory=str(city)))
    going, number = GoingOver(plan, {}, steps, digest_files(city)), 0
    for crash_at in (0, 0, 1, 0, 0):  # the third time something is done
        crash_in(city, going, crash_at, number)
        assert not is_stuck(Folder(city))
        going, number = find_unfinished(Folder(city)) or (going, -1)
    assert number > 0
    crash_in(city, going, 0, number)
    run(["apply", str(city), "--dry-run"])
    assert "they were begun 3 times, and none of them was done" in capsys.readouterr().err
