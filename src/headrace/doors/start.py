"""Where the command `headrace` begins: a device starts without the packages that all other commands need."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:2] == ["device"]:
        from headrace.doors.device.main import run as run_device

        run_device(sys.argv[2:])
    else:
        from headrace.doors.cli.main import main as run_command

        run_command()
