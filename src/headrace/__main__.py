"""`python -m headrace` is the command `headrace`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Python looks for modules in the current folder first when it is started like this, and would execute a
    # `psycopg.py` that lies there. The command `headrace` does not look there either.
    if not sys.flags.safe_path:
        del sys.path[0]

    from headrace.doors.start import main

    main()
