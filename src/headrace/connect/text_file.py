"""The text of a file that somebody named on the command line."""

from __future__ import annotations

from pathlib import Path

from headrace.model.errors import InputError, Location, Problem, UsageError


def read_text(file: Path) -> str:
    """Text in UTF-8, without the mark that some editors put in front of it."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise UsageError(f'no file "{file}"', hint="the path is relative to the current folder") from error
    except OSError as error:
        raise UsageError(f'"{file}" cannot be read: {(error.strerror or "").lower()}') from error
    except UnicodeDecodeError as error:
        raise InputError([Problem("the file is not text in UTF-8", Location(str(file)))]) from error
