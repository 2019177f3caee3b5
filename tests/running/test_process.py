"""Which process runs a project, and what a dead one leaves behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.app.asking import stop_project
from headrace.app.refusing import refuse_second
from headrace.connect.ledger.holder import is_gone, this_holder
from headrace.connect.processes import birth_of, this_machine
from headrace.model.errors import LeaseHeld, UsageError
from headrace.model.log import Commit
from headrace.model.notes import ProjectHome
from headrace.site.folder import Folder
from headrace.site.home import Whose, decide_whose, home_of, refuse_copy
from headrace.site.process import (
    end_process,
    read_process,
    release_remains,
    running_process,
    this_process,
    write_process,
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.prepare()
    return made


def test_a_process_is_known_by_its_number_and_its_birth(folder: Folder) -> None:
    ledger = folder.ledger()
    process = this_process(ledger.acquire("service", "here", 30), 80, "secret", folder)
    write_process(folder, process)
    assert running_process(folder) == process
    write_process(folder, replace(process, birth=process.birth + 1))
    assert running_process(folder) is None and read_process(folder) is not None
    ledger.close()


def test_only_the_owner_can_read_how_to_reach_the_service(folder: Folder) -> None:
    ledger = folder.ledger()
    write_process(folder, this_process(ledger.acquire("service", "here", 30), 80, "secret", folder))
    assert (folder.root / "service.json").stat().st_mode & 0o777 == 0o600
    ledger.close()


def test_the_lease_of_a_process_that_died_is_given_back_at_once(folder: Folder) -> None:
    ledger = folder.ledger()
    process = this_process(ledger.acquire("service", "here", 3600), 80, "secret", folder)
    write_process(folder, process)
    assert release_remains(folder) is None, "it lives"
    with pytest.raises(LeaseHeld):
        ledger.acquire("service", "there", 30)
    dead = replace(process, birth=process.birth + 1)
    write_process(folder, dead)
    assert release_remains(folder) == dead
    assert ledger.acquire("service", "there", 30).epoch == process.epoch + 1
    assert release_remains(folder) is None, "only once"
    ledger.close()


def test_a_process_that_ended_as_it_should_leaves_nothing(folder: Folder) -> None:
    assert release_remains(folder) is None
    assert read_process(folder) is None


def test_ending_a_process_waits_until_it_has_ended(folder: Folder) -> None:
    ledger = folder.ledger()
    ours = this_process(ledger.acquire("service", "here", 30), 80, "secret", folder)
    ledger.close()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        other = replace(ours, pid=child.pid, birth=int(fields[19]))
        assert other.is_alive and ours.is_alive and other.pid != os.getpid()
        assert end_process(other, within_s=20)
        assert not other.is_alive


def test_a_process_that_was_killed_is_dead_before_it_has_noticed() -> None:
    """A process that is being traced, or that gets no time on a busy machine, takes a while to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        birth = birth_of(child.pid)
        assert birth is not None
        holder = f"{this_machine()}:{child.pid}-{birth}"
        assert not is_gone(holder)
        child.kill()
        assert birth_of(child.pid) is None and is_gone(holder)
    assert not is_gone(this_holder())
    assert is_gone(f"{this_machine()}:{os.getpid()}-1"), "its number was given again"
    assert not is_gone(holder.replace("/", "/another")), "nobody here can know"


@pytest.fixture
def another_container() -> Callable[[Folder], subprocess.CompletedProcess[str]]:
    """Runs `ELSEWHERE` where the processes of this machine cannot be seen."""
    words = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make a namespace")
    return lambda folder: subprocess.run(
        [*words, sys.executable, "-c", ELSEWHERE, str(folder.project)], capture_output=True, text=True
    )


ELSEWHERE = """
import sys
from pathlib import Path
from headrace.app.asking import stop_project
from headrace.app.refusing import refuse_second
from headrace.connect.ledger.holder import this_holder
from headrace.model.errors import LeaseHeld, UsageError
from headrace.site.folder import Folder
from headrace.site.process import release_remains
folder = Folder(Path(sys.argv[1]))
for act in (refuse_second, lambda folder: stop_project(folder.project)):
    try:
        print("done", act(folder))
    except UsageError as error:
        print(error.message)
print(release_remains(folder))
try:
    print(folder.ledger().acquire("service", this_holder(), 30).epoch)
except LeaseHeld as error:
    print(error)
"""


def test_a_service_in_another_container_is_left_alone_while_it_renews_its_lease(
    folder: Folder, another_container: Callable[[Folder], subprocess.CompletedProcess[str]]
) -> None:
    ledger = folder.ledger()
    lease = ledger.acquire("service", this_holder(), 3600)
    write_process(folder, this_process(lease, 80, "secret", folder))
    with subprocess.Popen([sys.executable, "-c", RENEWS, str(folder.project)]) as renewing:
        try:
            said = another_container(folder)
        finally:
            renewing.kill()
    name = f'process {os.getpid()} of "{this_machine().partition("/")[0]}", in another container or machine'
    first, second, third, fourth = said.stdout.splitlines()
    assert first == f'the project in "{folder.project}" is already running, as {name}'
    assert second == f"the project is run by {name}"
    assert third == "None"
    assert fourth.startswith(f'{name} holds the lease "service" for another')
    ledger.renew(lease, 0.5)
    assert another_container(folder).stdout.splitlines()[-1] == "2", "it ran out"
    ledger.close()


RENEWS = """
import sys, time
from pathlib import Path
from headrace.site.folder import Folder
ledger = Folder(Path(sys.argv[1])).ledger()
while True:
    ledger.renew(ledger.find_lease("service").lease, 3600)
    time.sleep(0.5)
"""


def test_a_copy_of_a_folder_does_not_touch_the_service_of_the_original(tmp_path: Path) -> None:
    original, copy, moved = (Folder(tmp_path / name) for name in ("original", "copy", "moved"))
    original.prepare()
    ledger = original.ledger()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        lease = ledger.acquire("service", f"{this_machine()}:{child.pid}-{birth_of(child.pid)}", 3600)
        ledger.commit(lease, Commit(notes=(home_of(original),)))
        running = replace(this_process(lease, 80, "secret", original), pid=child.pid, birth=birth_of(child.pid) or 0)
        write_process(original, running)
        shutil.copytree(original.project, copy.project)
        assert stop_project(copy.project) is None
        assert running_process(original) == running and running_process(copy) is None
        with pytest.raises(UsageError, match="is a copy of") as refused:
            refuse_copy(copy)
        assert "--moved" in str(refused.value.hint)
        refuse_copy(original)
        with pytest.raises(UsageError, match=f"already running, as process {child.pid}"):
            refuse_second(original)
        original.project.rename(moved.project)
        refuse_copy(moved)
        assert running_process(moved) == running
        shutil.rmtree(moved.project)
        refuse_copy(copy)
        child.send_signal(signal.SIGKILL)
    ledger.close()


def test_state_is_moved_or_copied_by_what_is_left_where_it_was() -> None:
    noted = ProjectHome("here", "/a/.headrace", 5, 6)
    assert decide_whose(None, noted, is_there=False) is Whose.OWN
    assert decide_whose(noted, replace(noted, folder="/b/.headrace"), is_there=False) is Whose.OWN, "the same numbers"
    restored = replace(noted, folder_number=7, ledger_number=8)
    assert decide_whose(noted, restored, is_there=True) is Whose.OWN, "restored where it was"
    other = replace(restored, folder="/b/.headrace")
    assert decide_whose(noted, other, is_there=False) is Whose.MOVED
    assert decide_whose(noted, other, is_there=True) is Whose.COPIED
    assert decide_whose(noted, replace(restored, machine="there"), is_there=False) is Whose.COPIED
