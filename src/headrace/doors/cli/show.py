"""`headrace show VIEW [DIR]`: the rows of a view, and how recent they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, count
from headrace.doors.cli.output import show as show_result
from headrace.model.errors import UsageError

if TYPE_CHECKING:
    from headrace.app.reading import Seen

ROWS_SHOWN = 20

View = Annotated[str, typer.Argument(metavar="VIEW", help="A view, or a contract on one.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=0, help="Show at most this many rows.", show_default="20, or all as JSON")
]
Where = Annotated[str | None, typer.Option("--where", metavar="SQL", help='Only rows that match: "total > 10".')]
Order = Annotated[
    str | None,
    typer.Option("--order", metavar="SQL", help='Sort by: "total desc, id".', show_default="as in the view"),
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="As it was: 10s or 5 min (ago), or 2024-02-29T12:30:15Z."),
]
Export = Annotated[
    Path | None, typer.Option("--export", metavar="FILE", help="Write the rows to FILE.parquet or FILE.csv.")
]


def show(
    view: View,
    directory: Directory = Path(),
    limit: Limit = None,
    where: Where = None,
    order: Order = None,
    at: At = None,
    export: Export = None,
    json: Json = False,
) -> int:
    """Show the rows of a view as they are now, or were at a time."""
    from headrace.app import reading
    from headrace.doors.documents import seen_document

    asked = reading.ask_for(where, order)
    if at is not None and export is not None:
        raise UsageError("`--at` and `--export` do not go together", "show the rows with `--json`, or export them now")
    if export is not None:
        seen, written = reading.export(directory, view, export, limit, asked)
        about = {"view": seen.view, "as_of": reading.moment_text(seen.as_of), "rows": written}
        return show_result(
            json,
            Exit.DONE,
            text=lambda: f"{count(written, 'row')} to {export}, {as_of(seen)}",
            document=lambda: {**about, "file": str(export)},
        )
    seen = reading.show(directory, view, asked=asked, at=reading.read_time(at))
    return show_result(
        json,
        Exit.DONE,
        text=lambda: show_rows(seen, ROWS_SHOWN if limit is None else limit),
        document=lambda: seen_document(seen if limit is None else reading.first(seen, limit)),
    )


def as_of(seen: Seen) -> str:
    from headrace.doors.cli.status_text import ago
    from headrace.model.amounts import format_seconds

    version = ", earlier version of the view" if seen.earlier else ""
    return f"as of {ago(seen.lag_s)} (promised {format_seconds(seen.freshness_s)}){version}"


def show_rows(seen: Seen, limit: int) -> str:
    from headrace.app import reading

    rows = [list(map(_cell, row.values())) for row in reading.rows_as_json(seen.rows.slice(0, limit))]
    more = seen.rows.num_rows - len(rows)
    lines = _row_lines(list(seen.rows.column_names), rows)
    hidden = f", {more} not shown" if more else ""
    return "\n".join([*lines, f"{count(seen.rows.num_rows, 'row')}{hidden}, {as_of(seen)}"])


def _row_lines(names: list[str], rows: list[list[str]]) -> list[str]:
    """A table; where that does not fit, each row as a paragraph with a column on every line."""
    from headrace.doors.cli.output import page_width, table

    if not names:
        return []
    width = sum(max(map(len, column)) + 2 for column in zip(names, *rows, strict=True)) - 2
    if width <= page_width() or not rows:
        return table([names, *rows], indent=0)
    paragraphs = (
        [f"row {number}", *table([[name, cell] for name, cell in zip(names, row, strict=True)])]
        for number, row in enumerate(rows, start=1)
    )
    return [line for paragraph in paragraphs for line in paragraph]


def _cell(value: object) -> str:
    return "NULL" if value is None else str(value)
