"""What commands print and how they end: results to stdout, as text or one JSON document, the rest to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import TextIO

from headrace.model.errors import Problem

WIDTH = 80
UNBROKEN = "\N{NO-BREAK SPACE}"


class Exit(IntEnum):
    """How a command ends."""

    DONE = 0
    NO = 1
    WRONG_USE = 2
    NOT_COMPARED = 3
    OUR_FAULT = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


def show(as_json: bool, status: Exit, *, text: Callable[[], str], document: Callable[[], object]) -> int:
    """Print a result in the form that was asked for, and return how the command ends."""
    whole = json.dumps(document(), indent=2, ensure_ascii=False, allow_nan=False) if as_json else text()
    return status if write(whole, sys.stdout) else Exit.BROKEN_PIPE


def show_errors(as_json: bool, problems: Iterable[Problem]) -> None:
    """Say why a command did nothing: to people on stderr, to programs as the one document on stdout."""
    if as_json:
        document = {"errors": [problem_document(problem) for problem in problems]}
        write(json.dumps(document, indent=2, ensure_ascii=False), sys.stdout)
    else:
        write("\n".join(map(str, problems)), sys.stderr)


def problem_document(problem: Problem) -> dict[str, object]:
    where = problem.where
    return {
        "message": problem.message,
        "file": where.file if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "hint": problem.hint,
    }


def write(text: str, stream: TextIO) -> bool:
    """Whether anybody was listening: `headrace check | head -1` closes the pipe, and that is no fault."""
    try:
        print(_coloured(text) if _wants_colour(stream) else text, file=stream, flush=True)
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


def table(rows: Sequence[Sequence[str]], indent: int = 2) -> list[str]:
    """Lines of aligned columns within 80 characters. The last column wraps under itself; rows too long wrap whole."""
    *widths, last = (max(map(len, column)) for column in zip(*rows, strict=True))
    before_last = indent + sum(widths) + 2 * len(widths)
    if before_last + last > WIDTH and before_last > WIDTH - 20:
        return [line for row in rows for line in wrap("  ".join(row), " " * indent, " " * (indent + 4))]
    lines: list[str] = []
    for row in rows:
        start = " " * indent + "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines += wrap(row[-1], start)
    return lines


def wrap(text: str, start: str, indent: str | None = None) -> list[str]:
    """The text after `start`, broken at spaces within 80 characters; further lines stand under the first."""
    under = " " * len(start) if indent is None else indent
    lines, line = [], start
    for word in text.split(" "):
        if len(line) + len(word) > WIDTH and line not in (start, under):
            lines.append(line.rstrip())
            line = under
        line += f"{word} "
    return [done.replace(UNBROKEN, " ") for done in (*lines, line.rstrip())]


def listed(items: Iterable[str]) -> str:
    """Items with commas between them, which `wrap` does not break within."""
    return ", ".join(item.replace(" ", UNBROKEN) for item in items)


def count(number: int, noun: str, several: str | None = None) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {several or noun + 's'}"


def _wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_COLOURS = {"error": "31;1", "warning": "33;1", "note": "36;1"}


def _coloured(text: str) -> str:
    return re.sub(
        r"^(error|warning|note):", lambda found: f"\033[{_COLOURS[found[1]]}m{found[0]}\033[0m", text, flags=re.M
    )
