"""Contracts that a site holds back stay so, whatever else it does, until another plan is gone over to."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from headrace.coordinate.acts import ServiceActs
from headrace.model.steps import SwitchPlan
from headrace.run.push.engine import Engine
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.importing import SitePeer
from headrace.site.loading import Loading
from headrace.site.running import make_running
from headrace.site.service import Service
from headrace.site.troubles import HELD
from tests.plan.share.projects import wanted
from tests.running.test_steps import plan_of


def test_they_are_held_back_also_after_a_source_was_read_again(tmp_path: Path) -> None:
    """That ends with a switch to what runs. Whoever coordinates would be told that all have gone over, and others would
    drop what these read.
    """
    service = Service(
        Folder(tmp_path),
        dict.fromkeys(("US_DSN", "EU_DSN"), "postgresql://127.0.0.1:1/nobody"),
        HereRunner(perform),
        in_processes=False,
        site="us",
        find_peer=lambda _: cast(SitePeer, None),
    )
    service.open()
    try:
        running = make_running(plan_of(wanted("sales")))
        held = {running.plan.contracts[0].contract: 'site "eu" does not answer'}
        ports = (service.ledger, service.store, service.runner, service.lease)
        with service.turns.pushing:
            service.rounds.switch(running, Engine(running.program, *ports))
        service.start_loading(Loading(running, held=held), lambda: None)
        again = Loading(running)
        service.start_loading(again, lambda: None)
        acts = ServiceActs(service, again)
        with service.turns.plan, acts.held:
            acts.act((SwitchPlan(),))
        assert service.loading is again and again.held == held
        assert any(key.startswith(HELD) for key in service.troubles.all())
    finally:
        service.close()
