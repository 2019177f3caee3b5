"""Write the starter project into a folder, without touching anything that is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.declare.starter import FILES, PROJECT
from headrace.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Started:
    """What `init` did: files written, and files that were there and stay as they are."""

    directory: str
    written: tuple[str, ...]
    kept: tuple[str, ...]


def write_starter(directory: Path) -> Started:
    """Safe to repeat: a file that exists is never written. A folder with another project gets nothing added."""
    file = directory / "headrace.yml"
    try:
        if file.exists() and file.read_text(encoding="utf-8", errors="replace") != PROJECT:
            return Started(str(directory), (), ("headrace.yml",))
        return _write(directory)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f'no project can be written to "{directory}": {reason}', "name another folder") from error


def _write(directory: Path) -> Started:
    written, kept = [], []
    for name, text in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            kept.append(name)
        else:
            written.append(name)
    return Started(str(directory), tuple(written), tuple(kept))
