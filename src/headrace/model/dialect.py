"""The dialects in which people write views, each with the number of its translation."""

from __future__ import annotations

from enum import StrEnum


class SqlDialect(StrEnum):
    """What a text is written in. Everything is read as Spark's SQL in the end."""

    SPARK = "spark"
    POSTGRES = "postgres"

    @property
    def number(self) -> int:
        """The number that stored texts carry. A text that is read otherwise is another text."""
        return _NUMBERS[self]


_NUMBERS = {SqlDialect.SPARK: 1, SqlDialect.POSTGRES: 3}
"""Raised when the same text begins to mean something else."""
