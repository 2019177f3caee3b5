"""`headrace devices status` and `devices plan`: who is there, and what each device is to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli import output
from headrace.doors.cli.device_status_text import devices_text, plan_text
from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit

ProjectFolder = Annotated[
    Path, typer.Option("--directory", metavar="DIR", help="The project's folder.", show_default="here")
]


def status(directory: ProjectFolder = Path(), json: Json = False) -> int:
    """Print which devices are online, what they run and send, and what waits."""
    from headrace.app.asking import read_devices

    found = read_devices(directory)
    lines = devices_text(found, time.time())
    return output.show(json, Exit.DONE, text=lambda: "\n".join(lines), document=lambda: found)


def plan(
    id_: Annotated[str, typer.Argument(metavar="ID", help="A device.")],
    directory: ProjectFolder = Path(),
    json: Json = False,
) -> int:
    """Print what a device was told to do: what it runs, sends and takes."""
    from headrace.app.asking import read_device_plan

    found = read_device_plan(directory, id_)
    return output.show(json, Exit.DONE, text=lambda: "\n".join(plan_text(found)), document=lambda: found)


def add_status_commands(devices: typer.Typer) -> None:
    devices.command()(status)
    devices.command()(plan)
