"""Finds what is missing or wrong on this machine and with the sources of a project, and says how to fix it."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace.connect.sources import connector_of, sources_by_kind
from headrace.connect.spark.java import find_java
from headrace.model.amounts import format_bytes
from headrace.model.catalogue import Catalogue
from headrace.model.errors import ConnectError, DamagedLedger, Problem, UnreadableState
from headrace.run.source_port import Looked, ProjectPlace
from headrace.site.folder import Folder
from headrace.site.forced import read_forced
from headrace.site.last_status import current_status, last_status
from headrace.site.process import read_process, running_process
from headrace.site.sources.databases import databases_of

MEND_FAILING = "it resumes by itself once this is fixed; `headrace show` shows its last good rows"
LEAST_MEMORY = 1.5e9
LEAST_DISK = 2e9
PACKAGES = ("headrace", "pyspark", "pyarrow", "psycopg", "numpy", "sqlglot")


def look_at_machine(environment: Mapping[str, str], directory: Path) -> Iterator[Looked]:
    yield _versions()
    yield _java(environment)
    yield _memory()
    yield _disk(directory)


def _versions() -> Looked:
    found, missing = [f"Python {sys.version.split()[0]}"], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            missing.append(package)
    hint = "pip install 'headrace[spark]'"
    problem = Problem(f"not installed: {', '.join(missing)}", None, hint) if missing else None
    return Looked("versions", ", ".join(found), problem)


def _java(environment: Mapping[str, str]) -> Looked:
    try:
        java = find_java(environment)
    except ConnectError as error:
        return Looked("java", "none", Problem(error.message, None, error.hint))
    return Looked("java", f"Java {java.major} of {java.origin.value}")


def _memory() -> Looked:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    available = next((int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"), 0)
    problem = None
    if available < LEAST_MEMORY:
        hint = f"Spark and captures need about {format_bytes(LEAST_MEMORY)}; `headrace up --engine local` needs less"
        problem = Problem(f"only {format_bytes(available)} of memory is free", None, hint)
    return Looked("memory", f"{format_bytes(available)} free", problem)


def _disk(directory: Path) -> Looked:
    free = shutil.disk_usage(directory).free
    problem = None
    if free < LEAST_DISK:
        hint = ".headrace holds views, their changes and Spark's scratch files: make room, or move the project"
        problem = Problem(f'only {format_bytes(free)} of disk is free at "{directory}"', None, hint)
    return Looked("disk", f"{format_bytes(free)} free", problem)


def look_at_state(folder: Folder) -> Iterator[Looked]:
    """What is left of runs."""
    if not folder.root.exists():
        return
    mode = stat.S_IMODE(folder.root.stat().st_mode)
    problem = None
    if mode & 0o077:
        problem = Problem(f'other users can read "{folder.root}"', None, f"chmod 700 {folder.root}")
    yield Looked("state", f"{folder.root} with mode {mode:o}", problem)
    unreadable = list(_look_at_files(folder))
    yield from unreadable
    if not unreadable:
        yield from _look_at_service(folder)


def _look_at_files(folder: Folder) -> Iterator[Looked]:
    """State that cannot be read, each problem once: reading the status also reads which process runs the project."""
    found: dict[str, str | None] = {}
    for read in (Folder.running, Folder.check_ledger, read_forced, read_process, last_status):
        try:
            read(folder)
        except (UnreadableState, DamagedLedger) as error:
            found[error.message] = error.hint
    yield from (Looked("state", "cannot be read", Problem(message, None, hint)) for message, hint in found.items())


def _look_at_service(folder: Folder) -> Iterator[Looked]:
    process = read_process(folder)
    if process is not None and not process.belongs_to(folder):
        yield Looked("service", f"none; {process.words} runs the folder that this one is a copy of")
    elif process is not None and running_process(folder) is None:
        hint = "`headrace up` continues from its last commit"
        gone = Problem(f"the service (process {process.pid}) ended unexpectedly", None, hint)
        yield Looked("service", "gone", gone)
    elif process is not None:
        yield Looked("service", f"runs as {process.words}")
        last = current_status(folder)
        if last is not None:
            yield from _repeat_told(last)


def _repeat_told(last: Mapping[str, Any]) -> Iterator[Looked]:
    """What the service itself says is wrong."""
    for trouble in last.get("troubles", ()):
        yield Looked("service", "in trouble", Problem(trouble["what"], None, trouble["hint"]))
    for contract in last["contracts"]:
        if contract["state"] == "failing":
            what = f'contract "{contract["id"]}" is failing: {contract["reason"]}'
            yield Looked(contract["id"], "failing", Problem(what, None, MEND_FAILING))


def look_at_sources(catalogue: Catalogue, place: ProjectPlace) -> Iterator[Looked]:
    """Looks at sources that can be reached; what keeps one from being captured is found when the project is loaded."""
    for kind, sources in sources_by_kind(catalogue.sources.values()).items():
        databases = databases_of(catalogue, frozenset(source.name for source in sources))
        yield from connector_of(kind).look_at(databases, sources, place)
