"""What computes the views of a running project."""

from __future__ import annotations

from enum import StrEnum


class RunEngine(StrEnum):
    """Spark, or the service's own process alone, which is enough for small projects."""

    SPARK = "spark"
    LOCAL = "local"
