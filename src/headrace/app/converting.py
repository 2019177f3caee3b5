"""Shows a view in Spark's dialect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.app.project import inspector
from headrace.declare.convert import Converted, convert_file, find_project

__all__ = ["Converted", "convert"]


def convert(file: Path, environment: Mapping[str, str], connect: bool = False) -> Converted:
    """Converts a file of a project. Databases are asked for columns that are not declared, with `connect`."""
    return convert_file(file, inspector(find_project(file), environment) if connect else None)
