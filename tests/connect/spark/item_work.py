"""Items for tests of runners."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """What to do: a number is doubled, words name ways to fail."""

    name: str
    what: int | str
    weight: float = 1.0


def perform(job: Job) -> object:
    match job.what:
        case int():
            return job.what * 2
        case "fail":
            raise ValueError("this one never works")
        case "too much":
            return b"x" * 2_000_000
        case "unsendable":
            return lambda: job
        case "process":
            return os.getpid()
        case "hang":
            return threading.Event().wait()
        case "regular expression":
            return re.match(r"(a+)+$", "a" * 60 + "b")
        case "crash":
            os._exit(3)
        case other:
            raise AssertionError(other)
