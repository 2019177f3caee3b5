"""`headrace device`, for `--help` and for those who call commands from Python; `doors.start` goes there directly."""

from __future__ import annotations

import typer


def device(context: typer.Context) -> int:
    """Run a device: rows as JSON lines on stdin, results as JSON lines on stdout."""
    from headrace.doors.device.main import main

    return main(context.args)
