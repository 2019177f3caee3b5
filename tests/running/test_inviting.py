"""Sites are invited as soon as their coordinator runs, with a command for a shell, whatever a site is called."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.app import inviting
from headrace.app.inviting import Invited, invite_site
from headrace.connect.ledger.holder import this_holder
from headrace.coordinate.joined_files import write_wire_address
from headrace.model.errors import UnknownName, UsageError
from headrace.model.options import SitesMode
from headrace.model.plan import Plan
from headrace.plan.document import plan_document
from headrace.site.folder import Folder
from headrace.site.process import SERVICE, this_process, write_process
from headrace.site.site_folders import note_sites
from tests.running.test_apart import SMALL, prepare_apart


@pytest.mark.parametrize("site", ["eu", "New York", "l'Aquila", "$HOME"])
def test_a_shell_takes_the_name_of_a_site_as_one_word(site: str) -> None:
    command = Invited(site, "https://10.0.0.1:7433", "abc.def", 0.0).command
    words = ["headrace", "agent", "--site", site, "--join", "https://10.0.0.1:7433", "--token", "abc.def"]
    assert shlex.split(command) == words


def plan_of(project: Path, sites: str) -> Plan:
    (project / "views").mkdir(exist_ok=True)
    (project / "views" / "named.sql").write_text("SELECT name, count(*) AS n FROM users GROUP BY name")
    (project / "headrace.yml").write_text(SMALL.replace("sites: {", f"sites: {{{sites}"))
    return prepare_apart(project, SitesMode.AGENTS).plan


def tell(folder: Folder, plan: Plan) -> None:
    """As a coordinator does when it starts."""
    write_wire_address(folder, "127.0.0.1", 7433)
    note_sites(folder, tuple(plan.catalogue.sites), SitesMode.AGENTS)
    folder.save_running(plan, plan_document(plan))


@contextmanager
def coordinating(folder: Folder) -> Iterator[None]:
    """This process runs the project, and has not written down its plan yet."""
    folder.prepare()
    ledger = folder.ledger()
    lease = ledger.acquire(SERVICE, this_holder(), 600.0)
    try:
        write_process(folder, this_process(lease, 1, "token", folder))
        yield
    finally:
        ledger.release(lease)
        ledger.close()


@pytest.mark.parametrize("ran_before", [False, True])
def test_a_site_is_invited_before_the_first_plan_of_a_coordinator_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran_before: bool
) -> None:
    folder = Folder(tmp_path)
    before, plan = plan_of(tmp_path, ""), plan_of(tmp_path, "asia: {}, ")
    if ran_before:
        folder.prepare()
        tell(folder, before)
    looked = threading.Event()

    def look(_: float) -> None:
        if not looked.is_set():
            looked.set()
            tell(folder, plan)

    with coordinating(folder):
        monkeypatch.setattr(time, "sleep", look)
        assert invite_site(tmp_path, "asia").site == "asia"
        assert looked.is_set()
        with pytest.raises(UnknownName, match='no site "africa"'):
            invite_site(tmp_path, "africa")


def test_whoever_invites_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inviting, "TOLD_WITHIN_S", 0.1)
    folder = Folder(tmp_path)
    with coordinating(folder):
        note_sites(folder, ("us",), SitesMode.AGENTS)
        write_wire_address(folder, "127.0.0.1", 7433)
        with pytest.raises(UsageError, match="has no plan yet"):
            invite_site(tmp_path, "us")
