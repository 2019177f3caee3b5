"""What rounds tell while pushes go on."""

from __future__ import annotations

from pathlib import Path

from headrace.run.push.engine import Engine
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.running import make_running
from headrace.site.service import Service
from tests.plan.share.projects import wanted
from tests.running.test_steps import plan_of


def test_what_pushes_are_expected_to_take_is_what_the_last_round_published(tmp_path: Path) -> None:
    """Other threads ask while pushes go on, and what these teach changes at any moment."""
    service = Service(Folder(tmp_path), {}, HereRunner(perform))
    service.open()
    try:
        running = make_running(plan_of(wanted("sales")))
        (entry,) = running.plan.contracts
        with service.turns.pushing:
            ports = (service.ledger, service.store, service.runner, service.lease)
            service.rounds.switch(running, Engine(running.program, *ports))
            scheduler = service.rounds.scheduler
            assert scheduler is not None
            before = service.rounds.expect()
            scheduler.learning.begin(entry.contract, 0, predicted_s=1.0)
            scheduler.learning.end(entry.contract, 9_000_000)
            meanwhile = service.rounds.expect()
            assert before is not None and meanwhile is not None
            assert meanwhile(entry.vertex, 10.0) == before(entry.vertex, 10.0) > 0.0
            service.rounds.push_program(running.program)  # publishes what was learnt
            after = service.rounds.expect()
            assert after is not None and after(entry.vertex, 10.0) > before(entry.vertex, 10.0)
    finally:
        service.close()
