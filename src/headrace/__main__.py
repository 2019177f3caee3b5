"""`python -m headrace` is the command `headrace`."""

from __future__ import annotations

from headrace.doors.cli.main import main

if __name__ == "__main__":
    main()
