"""Which process runs a project, and what a dead one leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.model.errors import LeaseHeld
from headrace.site.folder import Folder
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
    process = this_process(ledger.acquire("service", "here", 30), 80, "secret")
    write_process(folder, process)
    assert running_process(folder) == process
    write_process(folder, replace(process, birth=process.birth + 1))
    assert running_process(folder) is None and read_process(folder) is not None
    ledger.close()


def test_only_the_owner_can_read_how_to_reach_the_service(folder: Folder) -> None:
    ledger = folder.ledger()
    write_process(folder, this_process(ledger.acquire("service", "here", 30), 80, "secret"))
    assert (folder.root / "service.json").stat().st_mode & 0o777 == 0o600
    ledger.close()


def test_the_lease_of_a_process_that_died_is_given_back_at_once(folder: Folder) -> None:
    ledger = folder.ledger()
    process = this_process(ledger.acquire("service", "here", 3600), 80, "secret")
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
    ours = this_process(ledger.acquire("service", "here", 30), 80, "secret")
    ledger.close()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        other = replace(ours, pid=child.pid, birth=int(fields[19]))
        assert other.is_alive and ours.is_alive and other.pid != os.getpid()
        assert end_process(other, within_s=20)
        assert not other.is_alive
