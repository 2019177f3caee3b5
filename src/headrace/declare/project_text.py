"""The files of a project folder: `headrace.yml` and `views/*.sql`, read as text and as YAML, not yet checked."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.dialect_line import read_dialect_line
from headrace.declare.document import WrittenDocument
from headrace.declare.project_file import read_name
from headrace.declare.sql import ViewText
from headrace.declare.units import Unreadable
from headrace.declare.yaml_text import read_yaml
from headrace.model.amounts import format_bytes
from headrace.model.errors import InputError, Location, Problem, UsageError

PROJECT_FILE = "headrace.yml"
VIEWS = "views"
MOST_BYTES = 1_000_000
"""Of a file: a thousand sources and contracts are a tenth of it, and more takes minutes to read."""
KEEP_HERE = "keep the text itself in the project's folder"


@dataclass(frozen=True, slots=True)
class ProjectText:
    """A project before it is checked: the document, the queries, and what was wrong with the files themselves."""

    directory: str
    document: WrittenDocument | None
    views: Mapping[str, ViewText]
    problems: tuple[Problem, ...]


def read_files(directory: Path) -> ProjectText:
    file = _find_project_file(directory)
    text, problems = _read_file(file, directory)
    document = None
    if text is not None:
        document, mistakes = read_yaml(text, str(file))
        problems += mistakes
    views: dict[str, ViewText] = {}
    for path in sorted((directory / VIEWS).glob("*.sql"), key=_by_name):
        view, mistakes = _read_view(path, directory)
        problems += mistakes
        if view is not None:
            views[view.name] = view
    return ProjectText(str(directory), document, views, problems)


def digest_files(directory: Path) -> str:
    """Differs when somebody changed the files of a project."""
    digest = hashlib.sha256()
    for path in (directory / PROJECT_FILE, *sorted((directory / VIEWS).glob("*.sql"))):
        found = _read_content(path, directory)
        content = found if isinstance(found, bytes) else b""
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _by_name(path: Path) -> list[str]:
    """V2 before V10."""
    return [part.zfill(9) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


def _find_project_file(directory: Path) -> Path:
    if directory.is_file():
        raise UsageError(f'"{directory}" is a file', f"name the folder: {directory.parent}")
    if not directory.is_dir():
        raise UsageError(f'folder "{directory}" does not exist', f"`headrace init {directory}` makes one")
    file = directory / PROJECT_FILE
    if file.is_file():
        return file
    other = next((name for name in ("headrace.yaml", "Headrace.yml") if (directory / name).is_file()), None)
    hint = f"rename {other} to {PROJECT_FILE}" if other else f"`headrace init {directory}` writes one to start from"
    raise UsageError(f'no project in "{directory}": it has no {PROJECT_FILE}', hint)


def _read_file(path: Path, directory: Path) -> tuple[str | None, tuple[Problem, ...]]:
    content = _read_content(path, directory)
    if isinstance(content, Problem):
        return None, (content,)
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        before = content[: error.start].split(b"\n")
        where = Location(str(path), len(before), len(before[-1]) + 1)
        return None, (Problem(f"{path} is not UTF-8 text", where, "save it as UTF-8"),)


def _read_content(path: Path, directory: Path) -> bytes | Problem:
    """What a regular file of the project holds, or why it is not read.

    Errors repeat the words that they are about: a link must not make us show words of a file that is somebody else's.
    """
    where = Location(str(path))
    if not path.resolve().is_relative_to(directory.resolve()):
        return Problem(f"{path} is a link that leads out of the project", where, KEEP_HERE)
    try:
        # Without waiting, since nobody may ever write to a pipe; what was opened is looked at, so that nothing changes.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return Problem(f"{path} is not a regular file", where, KEEP_HERE)
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        return Problem(f"{path} cannot be read: {error.strerror}", where)
    if len(content) > MOST_BYTES:
        return Problem(f"{path} is larger than {format_bytes(MOST_BYTES)}", where, "put what is long in a table")
    return content


def _read_view(path: Path, directory: Path) -> tuple[ViewText | None, tuple[Problem, ...]]:
    text, problems = _read_file(path, directory)
    if text is None:
        return None, problems
    try:
        return read_dialect_line(ViewText(read_name(path.stem), text, str(path))), ()
    except InputError as error:
        return None, error.problems
    except Unreadable as error:
        return None, (Problem(f"view {error.message}", Location(str(path)), error.hint),)
