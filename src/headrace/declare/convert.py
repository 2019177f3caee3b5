"""A view's file in Spark's dialect: what it is read as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.declare import build
from headrace.declare.dialect_line import read_dialect_line
from headrace.declare.entries import read_entries
from headrace.declare.project_text import PROJECT_FILE, read_files
from headrace.declare.read import Inspect, give_dialects
from headrace.declare.sql import ViewText, convert_view
from headrace.model.catalogue import Source
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class Converted:
    """A text in Spark's dialect, and the dialect that it was written in."""

    file: str
    dialect: SqlDialect
    sql: str


def find_project(file: Path) -> Path:
    """The folder of the project that a file belongs to: the nearest one around it, or the current one."""
    if not file.is_file():
        raise UsageError(f'file "{file}" does not exist', "name a file of views/")
    for folder in (*file.resolve().parents, Path.cwd()):
        if (folder / PROJECT_FILE).is_file():
            return folder
    hint = f"put it in views/ of a project: the types of its columns are in {PROJECT_FILE}"
    raise UsageError(f'"{file}" belongs to no project', hint)


def convert_file(file: Path, inspect: Inspect | None = None) -> Converted:
    """Raises InputError for mistakes, UnsupportedSql for what has no such text, and UsageError without a project."""
    project = read_files(find_project(file))
    if project.document is None:
        raise InputError(project.problems)
    entries, mistakes = read_entries(project.document)
    if mistakes:
        raise InputError(mistakes)
    sources: Mapping[str, Source] = build.build_sources(entries)
    if inspect is not None:
        sources, _ = inspect(entries.fields.project if entries.fields else "", sources)
    known = {Path(view.file).resolve(): name for name, view in project.views.items()}
    name = known.get(file.resolve(), file.stem)
    own = project.views.get(name) if file.resolve() in known else None
    view = own or read_dialect_line(ViewText(name, file.read_text(encoding="utf-8"), str(file)))
    texts = give_dialects({**project.views, name: view}, entries)
    sql = convert_view(name, texts, sources, build.build_functions(entries))
    return Converted(str(file), texts[name].text.dialect, sql)
