"""`headrace demo`: the sample project."""

from __future__ import annotations

from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, show
from headrace.model.plan import PlanOptions


def demo(json: Json = False) -> int:
    """Check the sample project, show it and plan it."""
    from headrace import app
    from headrace.doors.cli.check_document import check_document
    from headrace.doors.cli.check_text import check_text
    from headrace.doors.cli.plan_text import plan_text
    from headrace.model.errors import UsageError

    folder = app.sample_project()
    if folder is None:
        raise UsageError("the sample project is not installed", "`headrace init DIR` writes a project to start from")
    report = app.check_project(folder, {})
    plan = app.plan_project(folder, {}, PlanOptions())
    closing = f"This is {folder}: checked and planned, not run. Headrace cannot run a project yet."
    return show(
        json,
        Exit.NO if plan.rejected else Exit.DONE,
        text=lambda: f"{check_text(report)}\n\n{plan_text(plan)}\n\n{closing}",
        document=lambda: {
            **check_document(report),
            "plan": app.plan_document(plan),
            "directory": str(folder),
            "ran": False,
        },
    )
