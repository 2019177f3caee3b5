"""Small projects for tests, written to a folder and read back."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue
from headrace.model.errors import InputError, Problem, Severity

MINIMAL = "project: p\nsites: {us: {}, eu: {}}\n"


def write_project(folder: Path, text: str, **views: str) -> Path:
    (folder / "views").mkdir(parents=True, exist_ok=True)
    (folder / "headrace.yml").write_text(textwrap.dedent(text), encoding="utf-8")
    for name, sql in views.items():
        (folder / "views" / f"{name}.sql").write_text(textwrap.dedent(sql), encoding="utf-8")
    return folder


def read(folder: Path, text: str, **views: str) -> Catalogue:
    """The catalogue of a minimal project with more text and views."""
    return read_project(write_project(folder, MINIMAL + textwrap.dedent(text), **views), {})


def mistakes(folder: Path, text: str, **views: str) -> tuple[Problem, ...]:
    """The errors of a minimal project with more text and views."""
    with pytest.raises(InputError) as caught:
        read(folder, text, **views)
    return tuple(problem for problem in caught.value.problems if problem.severity is Severity.ERROR)
