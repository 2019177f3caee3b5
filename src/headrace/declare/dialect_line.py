"""The first line of a view's text may say its dialect: `-- dialect: postgres`."""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.declare.sql import ViewText
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError, Location, Problem, nearest_name

_LINE = re.compile(r"\s*(?P<comment>--\s*)?dialect\s*:\s*(?P<name>\S+)[ \t]*(?:\r?\n|$)", re.IGNORECASE)


def read_dialect_line(view: ViewText) -> ViewText:
    """The view with the dialect that its first line says, if it does. Raises InputError for one that does not exist."""
    found = _LINE.match(view.sql)
    if found is None:
        return view
    try:
        dialect = SqlDialect(found["name"].lower())
    except ValueError:
        hint = nearest_name(found["name"], tuple(SqlDialect)) or f"dialects are {' and '.join(SqlDialect)}"
        line, column = (
            view.sql[: found.start("name")].count("\n"),
            found.start("name") - view.sql.rfind("\n", 0, found.start("name")),
        )
        where = Location(view.file, line + 1, column)
        raise InputError([Problem(f'dialect "{found["name"]}" does not exist', where, hint)]) from None
    if found["comment"] is not None:
        return replace(view, dialect=dialect)
    # Blanks take the place of a line that is no comment, so that places in the text stay where they are.
    blank = re.sub(r"\S", " ", found.group())
    return replace(view, sql=blank + view.sql[found.end() :], dialect=dialect)
