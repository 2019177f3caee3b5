"""Everything that can go wrong, as values (`Problem`) and as exceptions.

    HeadraceError               base of all
    +-- InputError              a project, query or file has mistakes; carries all of them
    |   +-- UnsupportedSql      SQL we understand but do not maintain, by the name of the first such operator
    +-- UsageError              the command was called wrongly, or no project was found
    |   +-- UnknownName         nothing of that name is there
    |   +-- UnreadableState     a file of a project's state is there and cannot be read
    +-- WireError               a text is no value of ours (`model.wire`)
    +-- EvaluationError         SQL that fails at run time under ANSI rules: overflow, division by zero, bad cast
    +-- ConnectError            something outside (a database, Java) did not answer as it should
    |   +-- DamagedLedger       the database of the ledger holds what nobody wrote
    |   +-- NotOurs             what is there was made by somebody else, and is not touched
    |   +-- RefusedRow          the place of a copy does not take a row of the view
    |   +-- CopyLocked          somebody else has locked a copy for longer than we wait
    |   +-- CopyChanged         somebody else has changed a copy: it has to be filled again

A mistake of the user's is shown without a traceback: what, where, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.model.bad_row import BadRow
    from headrace.model.types import Value


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a text: `line` and `column` count from 1. The file is as the user would type it."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Severity(StrEnum):
    """`ERROR` makes the project wrong; `WARNING` asks for a look; `NOTE` tells what was done silently otherwise."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: what happened, where, and what one can do about it."""

    message: str
    where: Location | None = None
    hint: str | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.message}"]
        if self.where is not None:
            lines.append(f"  at {self.where}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class HeadraceError(Exception):
    """Base of every error we raise on purpose."""


class InputError(HeadraceError):
    """What the user wrote has mistakes; `problems` holds all of them, in the order of the text."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnsupportedSql(InputError):
    """SQL that is valid but not maintained incrementally: `operator` is its name, as `docs/sql.md` lists it."""

    def __init__(self, operator: str, *problems: Problem) -> None:
        self.operator = operator
        super().__init__(problems)


class UsageError(HeadraceError):
    """The command was called wrongly."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)


class UnknownName(UsageError):
    """There is no view, contract or source of the name that was asked for."""


class UnreadableState(UsageError):
    """A file of a project's state is there and cannot be read: which, why, and what to do."""


class WireError(HeadraceError):
    """A text is no value of ours, or a value cannot be written as one."""


class EvaluationError(HeadraceError):
    """A value that ANSI SQL has no answer for: the query fails for this row, `bad_row` where that is known."""

    bad_row: BadRow | None = None


class ConnectError(HeadraceError):
    """Something outside did not answer as it should."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)


class DamagedLedger(ConnectError):
    """The database of the ledger is damaged: what it says is not what was committed."""

    def __init__(self, name: str, why: str) -> None:
        hint = (
            "stop the service, move this file and those beside it that begin with its name away, and run"
            " `headrace up`: sources are read and views are loaded again"
        )
        super().__init__(f'the ledger "{name}" is damaged: {why}', hint)


class NotOurs(ConnectError):
    """What is there was made by somebody else, or for another contract: it is not touched."""


class RefusedRow(ConnectError):
    """The place of a copy does not take a row of its view; `message` says why, and names the column where there is one.

    `row` has the values by the columns of the view.
    """

    def __init__(self, message: str, hint: str, row: Mapping[str, Value], column: str | None = None) -> None:
        self.row = row
        self.column = column
        super().__init__(message, hint)


class CopyLocked(ConnectError):
    """Somebody else has locked a copy, and did not let go while a delivery waited."""


class CopyChanged(ConnectError):
    """A copy does not hold what was delivered to it: somebody else has changed it. It has to be filled again."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The hint for a misspelt name, or None when nothing known is close."""
    by_fold = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    match = difflib.get_close_matches(name.casefold(), sorted(by_fold), n=1, cutoff=0.6)
    return f'did you mean "{by_fold[match[0]]}"?' if match else None


class LeaseHeld(HeadraceError):
    """Someone else has the lease."""


class Fenced(HeadraceError):
    """The lease was taken by someone else since: nothing may be committed under it any more."""


class Conflict(HeadraceError):
    """A log has moved on since it was read: the work must be done again from where it is now."""
