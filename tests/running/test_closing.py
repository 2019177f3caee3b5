"""A service that is told to end does, whoever it waits for."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.app.preparing import AskSources, prepare
from headrace.coordinate.perform import apply_plan
from headrace.model.options import ApplyWishes
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.service import Service
from tests.running.running_project import children, until

PROJECT = """
project: silent
sites: {us: {}}
sources:
  users: {kind: table, at: us, postgres: {dsn: "${ONE}", table: users}, key: [uid],
    columns: {uid: bigint}, rows: 9, rate: 1 /s}
  posts: {kind: table, at: us, postgres: {dsn: "${TWO}", table: posts}, key: [uid],
    columns: {uid: bigint}, rows: 9, rate: 1 /s}
contracts:
  both: {view: both, at: us, freshness: 10 s}
"""


@pytest.fixture
def address() -> Iterator[str]:
    """Of a server that takes connections and then says nothing, for much longer than a test lasts."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"postgresql://someone@127.0.0.1:{server.getsockname()[1]}/x?connect_timeout=300&sslmode=disable"


def test_a_service_whose_databases_never_answer_ends_soon(tmp_path: Path, address: str) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "both.sql").write_text("SELECT users.uid FROM users JOIN posts ON users.uid = posts.uid")
    (tmp_path / "headrace.yml").write_text(PROJECT)
    environment = {"ONE": address, "TWO": f"{address}&application_name=two"}
    service = Service(Folder(tmp_path), environment, HereRunner(perform))
    service.open()
    before = children(os.getpid())
    apply_plan(service, prepare(tmp_path, environment, ApplyWishes(), AskSources.DECLARED).plan)
    until(lambda: len(children(os.getpid()) - before) == 2, "both databases are asked")
    began = time.monotonic()
    service.close()
    assert time.monotonic() - began < 60.0  # each connection would wait for 300 s
    assert not children(os.getpid()) - before
