"""Runs a program that ends when the process that starts it does, even if that is killed.

    python -m headrace.connect.mqtt.with_parent PARENT PROGRAM WORDS...

The program takes the place of this process, so both have one id. Linux tells it to end when the thread that started it
does: start it from a thread that lives as long as the program shall.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PARENT_GONE = 70


def main(words: list[str]) -> None:
    parent, command = int(words[0]), words[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended before we asked to be told
        sys.exit(PARENT_GONE)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
