"""A limit on memory ends processes without a word; so commands look at it first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.app.limits import need_for_heap, say_signal


@pytest.mark.parametrize("options", [[], ["--detach"]])
def test_up_says_that_it_may_not_have_the_memory_that_it_needs(tmp_path: Path, options: list[str]) -> None:
    command = f'ulimit -v 400000 && exec "{sys.executable}" -m headrace up "{tmp_path}" {" ".join(options)}'
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert ended.returncode == 2
    said = " ".join(ended.stderr.split())
    assert "at most 409.6 MB of memory here (`ulimit -v`), and `headrace up` needs at least 2 GB" in said
    assert "hint: `ulimit -v unlimited`" in said


def test_a_service_that_a_signal_ended_is_told_as_such() -> None:
    need_for_heap(1_000)
    assert say_signal(6).startswith("the service was ended by signal 6 right after it started")
