"""What commands print and how they end: results to stdout, as text or one JSON document, the rest to stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TextIO

from headrace.model.errors import Problem

PIPED, NARROWEST, WIDEST = 80, 60, 120
"""Characters on a line."""
LEAST_ROOM = 20
"""Characters that the last column of a table is given, before rows become paragraphs."""
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


def say_troubles(what: str) -> None:
    """There is one document at the end; but nobody shall wait for it without a word of why."""
    from headrace.app.asking import HINT, TROUBLE

    if what.startswith((TROUBLE, HINT)):
        write(what, sys.stderr)


def show(as_json: bool, status: Exit, *, text: Callable[[], str], document: Callable[[], object]) -> int:
    """Print a result in the form that was asked for, and return how the command ends."""
    whole = json.dumps(document(), indent=2, ensure_ascii=False, allow_nan=False) if as_json else fit(text())
    return status if write(whole, sys.stdout) else Exit.BROKEN_PIPE


def show_errors(as_json: bool, problems: Iterable[Problem]) -> None:
    """Say why a command did nothing: to people on stderr, to programs as the one document on stdout."""
    if as_json:
        document = {"errors": [problem_document(problem) for problem in problems]}
        write(json.dumps(document, indent=2, ensure_ascii=False), sys.stdout)
    else:
        write(fit("\n".join(map(str, problems))), sys.stderr)


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
        print(_colour_text(text) if _wants_colour(stream) else text, file=stream, flush=True)
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


def page_width() -> int:
    """How many characters fit on a line: as many as the terminal has (or COLUMNS says), and 80 in a pipe or a file."""
    columns = shutil.get_terminal_size((PIPED, 24)).columns if _is_width_known() else PIPED
    return min(max(columns, NARROWEST), WIDEST)


def _is_width_known() -> bool:
    return "COLUMNS" in os.environ or sys.stdout.isatty()


def fit(text: str) -> str:
    """A text whose long lines are broken at spaces; what follows a break is indented.

    Where no terminal is known, messages stay on one line each, so that programs find them.
    """
    if not _is_width_known():
        return text
    width = page_width()
    return "\n".join(part for line in text.split("\n") for part in (_break(line) if len(line) > width else [line]))


def _break(line: str) -> list[str]:
    words = line.lstrip(" ")
    start = " " * (len(line) - len(words))
    return wrap(words, start, f"{start}    ")


def table(rows: Sequence[Sequence[str]], indent: int = 2, head: Sequence[str] = ()) -> list[str]:
    """Lines of aligned columns. The last column wraps under itself; where that leaves it no room, each row becomes a
    paragraph with a field on every line.
    """
    width, every = page_width(), [head, *rows] if head else list(rows)
    *widths, last = (max(map(len, column)) for column in zip(*every, strict=True))
    before_last = indent + sum(widths) + 2 * len(widths)
    least = max(LEAST_ROOM, *(len(word) for row in every for word in row[-1].split(" ")))
    if before_last + min(last, least) > width:
        return _paragraphs(rows, indent, head)
    lines: list[str] = []
    for row in every:
        start = " " * indent + "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines += wrap(row[-1], start)
    return lines


def _paragraphs(rows: Sequence[Sequence[str]], indent: int, head: Sequence[str]) -> list[str]:
    """Each row under its first field, with the names of the others in front of them."""
    lines = [" " * indent + head[0]] if head and head[0] else []
    indent += 2 if lines else 0
    for first, *others in rows:
        lines += wrap(first, " " * indent, " " * (indent + 4))
        fields = zip(head[1:] or [""] * len(others), others, strict=True)
        filled = [[name, other] if name else [other] for name, other in fields if other]
        lines += table(filled, indent + 2) if filled else []
    return lines


def wrap(text: str, start: str, indent: str | None = None) -> list[str]:
    """The text after `start`, broken at spaces; further lines stand under the first, unless that leaves no room."""
    width, lines, line = page_width(), list[str](), start
    under = " " * len(start) if indent is None else indent
    if indent is None and len(start) > width - LEAST_ROOM and len(start) + len(text) > width and start.strip():
        under = " " * (len(start) - len(start.lstrip()) + 4)
    for word in _words(text, width - len(under)):
        stands_alone = line == under or (line == start and len(under) >= len(start))
        if len(line) + len(word) > width and not stands_alone:
            lines.append(line.rstrip())
            line = under
        line += f"{word} "
    return [done.replace(UNBROKEN, " ") for done in (*lines, line.rstrip())]


def _words(text: str, room: int) -> Iterator[str]:
    """What is not to be broken, unless it would not fit on a line of its own."""
    for word in text.split(" "):
        yield from word.split(UNBROKEN) if len(word) > room else [word]


def join_items(items: Iterable[str]) -> str:
    """Items with commas between them, which `wrap` does not break within."""
    return ", ".join(item.replace(" ", UNBROKEN) for item in items)


def count(number: int, noun: str, several: str | None = None) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {several or noun + 's'}"


def _wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_COLOURS = {"error": "31;1", "warning": "33;1", "note": "36;1"}


def _colour_text(text: str) -> str:
    return re.sub(
        r"^(error|warning|note):", lambda found: f"\033[{_COLOURS[found[1]]}m{found[0]}\033[0m", text, flags=re.M
    )
