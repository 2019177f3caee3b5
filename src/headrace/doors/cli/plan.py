"""`headrace plan [DIR]`: which contracts can be kept, how, and what they cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, show
from headrace.model.catalogue import Admission
from headrace.model.plan import ContractOrder, Method, PlanOptions, Prefer, Sharing, WideArea

MethodOption = Annotated[Method, typer.Option("--method", help="How the plan of one contract is searched.")]
SharingOption = Annotated[Sharing, typer.Option("--share", help="What the plans of several contracts have in common.")]
AdmissionOption = Annotated[
    Admission | None, typer.Option("--admission", help="When a promise can be kept.", show_default="the project's")
]
OrderOption = Annotated[ContractOrder, typer.Option("--order", help="Which contracts are planned first.")]

WideAreaOption = Annotated[
    WideArea | None,
    typer.Option("--wide-area", help="Place operator by operator, as schedulers across a wide area do."),
]
PreferOption = Annotated[
    Prefer, typer.Option("--prefer", help="What sharing goes by across a wide area: bytes saved, or latency.")
]


def plan(
    directory: Directory = Path(),
    method: MethodOption = Method.CHEAPEST,
    share: SharingOption = Sharing.MARGINAL,
    admission: AdmissionOption = None,
    order: OrderOption = ContractOrder.SMALL_FIRST,
    wide_area: WideAreaOption = None,
    prefer: PreferOption = Prefer.BYTES,
    json: Json = False,
) -> int:
    """Say which contracts can be kept, how, and at what cost."""
    from headrace import app
    from headrace.doors.cli.plan_text import plan_text

    made = app.plan_project(directory, os.environ, PlanOptions(method, admission, share, order, wide_area, prefer))
    status = Exit.NO if made.rejected else Exit.DONE
    return show(json, status, text=lambda: plan_text(made), document=lambda: app.plan_document(made))
