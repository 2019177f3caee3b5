"""What tests of running projects start from."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.connect.free_port import free_port
from headrace.connect.postgres.embedded import EmbeddedPostgres
from tests.running.running_project import RunningProject, a_project
from tests.running.trapped_folder import make_trapped


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """A second server, at a port that it keeps."""
    folder, port = Path(tempfile.mkdtemp(prefix="headrace-tests-")), free_port()
    try:
        with EmbeddedPostgres(folder, {"fsync": "off"}, lambda: port) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def project(
    tmp_path: Path,
    postgres_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[RunningProject]:
    with a_project(tmp_path, postgres_database(), postgres_database(), monkeypatch, capsys) as made:
        yield made


@pytest.fixture
def trapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which nothing may be imported."""
    return make_trapped(tmp_path_factory.mktemp("trapped"))
