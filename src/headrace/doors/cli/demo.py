"""`headrace demo`: the sample project."""

from __future__ import annotations

from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, show


def demo(json: Json = False) -> int:
    """Check the sample project and show it."""
    from headrace import app
    from headrace.doors.cli.check_document import check_document
    from headrace.doors.cli.check_text import check_text
    from headrace.model.errors import Severity, UsageError

    folder = app.sample_project()
    if folder is None:
        raise UsageError("the sample project is not installed", "`headrace init DIR` writes a project to start from")
    report = app.check_project(folder, {})
    status = Exit.NO if report.of(Severity.ERROR) else Exit.DONE
    closing = f"This is {folder}: checked, not run. Headrace cannot run a project yet."
    return show(
        json,
        status,
        text=lambda: f"{check_text(report)}\n{closing}",
        document=lambda: {**check_document(report), "directory": str(folder), "ran": False},
    )
