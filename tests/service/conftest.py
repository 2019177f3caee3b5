"""What tests of running projects start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.service.running_project import RunningProject, a_project


@pytest.fixture
def project(
    tmp_path: Path,
    postgres_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[RunningProject]:
    with a_project(tmp_path, postgres_database(), postgres_database(), monkeypatch, capsys) as made:
        yield made
