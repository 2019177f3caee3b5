"""`headrace plan [DIR]`: which contracts can be kept, how, and what they cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show
from headrace.model.catalogue import Admission
from headrace.model.plan import PlanOptions
from headrace.model.plan_modes import ContractOrder, Method, Prefer, Sharing, WideArea

if TYPE_CHECKING:
    from headrace.app.planning import Planned

AS_PROJECT = "the project's"
MethodOption = Annotated[
    Method | None,
    typer.Option("--method", help="How to search for the plan of a contract.", show_default=AS_PROJECT),
]
SharingOption = Annotated[
    Sharing | None, typer.Option("--share", help="What several contracts may share.", show_default=AS_PROJECT)
]
AdmissionOption = Annotated[
    Admission | None,
    typer.Option("--admission", help="The rule that accepts or refuses a contract.", show_default=AS_PROJECT),
]
OrderOption = Annotated[ContractOrder, typer.Option("--order", help="Which contracts to plan first.")]

WideAreaOption = Annotated[
    WideArea | None,
    typer.Option(
        "--wide-area",
        metavar="MODE",
        help=f"Place one operator at a time, as wide-area schedulers do: {', '.join(WideArea)}.",
    ),
]
PreferOption = Annotated[
    Prefer, typer.Option("--prefer", help="With --wide-area: share to save bytes, or to cut latency.")
]

OnRunningOption = Annotated[
    bool, typer.Option("--on-running", help="Build on the running plan: its contracts keep their vertices.")
]


def plan(
    directory: Directory = Path(),
    method: MethodOption = None,
    share: SharingOption = None,
    admission: AdmissionOption = None,
    order: OrderOption = ContractOrder.SMALL_FIRST,
    wide_area: WideAreaOption = None,
    prefer: PreferOption = Prefer.BYTES,
    on_running: OnRunningOption = False,
    json: Json = False,
) -> int:
    """Show which contracts can be kept, how, and at what cost."""
    from headrace.app import planning

    options = PlanOptions(method, admission, share, order, wide_area, prefer)
    if on_running:
        made = planning.Planned(planning.plan_on_top(directory, os.environ, options), None)
    elif json:
        made = planning.Planned(planning.plan_project(directory, os.environ, options), None)
    else:
        made = planning.plan_and_compare(directory, os.environ, options)
    status = Exit.NO if made.plan.rejected else Exit.DONE
    return show(
        json,
        status,
        text=lambda: _planned_text(made),
        document=lambda: planning.plan_document(made.plan),
    )


def _planned_text(made: Planned) -> str:
    from headrace.doors.cli.plan_text import plan_text

    if made.change is None:
        return plan_text(made.plan)
    from headrace.doors.cli.change_text import change_text

    return f"{plan_text(made.plan)}\n\n{change_text(made.change, made.steps)}"
