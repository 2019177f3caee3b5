"""Records which modules of ours run, here or in other processes: a module has run when one of its functions was called.

Other processes record themselves: `sitecustomize.py` in a folder of PYTHONPATH has them write every module to a file
at once, so that the record of a process that is killed is complete.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

import pytest

import headrace

ROOT = Path(headrace.__file__).parent

IN_OTHER_PROCESSES = """
import os, sys, threading

ROOT, RECORD, FUNCTION = {root!r}, os.environ.get("HEADRACE_RECORD"), {function}
seen = set()

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename not in seen and code.co_filename.startswith(ROOT):
        if code.co_flags & FUNCTION and not code.co_name.startswith("<"):
            seen.add(code.co_filename)
            os.write(record, (code.co_filename + chr(10)).encode())

if RECORD:
    record = os.open(RECORD, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    threading.setprofile(note)
    sys.setprofile(note)
"""


def record_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, processes that are started record themselves within `recorded_processes`."""
    (folder / "sitecustomize.py").write_text(IN_OTHER_PROCESSES.format(root=f"{ROOT}/", function=CO_OPTIMIZED))
    monkeypatch.setenv("PYTHONPATH", str(folder))


@contextmanager
def recorded_processes(file: Path, monkeypatch: pytest.MonkeyPatch, *into: set[str]) -> Iterator[None]:
    """What runs in processes that are started meanwhile, as paths within the package: `run/push/push.py`."""
    monkeypatch.setenv("HEADRACE_RECORD", str(file))
    yield
    monkeypatch.delenv("HEADRACE_RECORD")
    for modules in into:
        modules.update(str(Path(line).relative_to(ROOT)) for line in file.read_text().splitlines())


@contextmanager
def recorded_here(into: set[str]) -> Iterator[None]:
    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes run when they are imported: only functions are optimised.
        is_function = code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(f"{ROOT}/"):
            into.add(str(Path(code.co_filename).relative_to(ROOT)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
