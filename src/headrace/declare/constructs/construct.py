"""What a row of the table of SQL constructs says, and the tables that its example reads.

Tests run every example: they hold its way of refreshing true, keep it through random histories, and compare its answer
with Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Type


class HowKept(StrEnum):
    """How the view of an example can be refreshed."""

    INCREMENTALLY = "incremental"
    IN_FULL = "full"
    NOT = "refused"


@dataclass(frozen=True, slots=True)
class Construct:
    """One row: what people write, an example over `TABLES`, what is stored for it, and what a change costs.

    `state` and `cost` are for readers of the page: the state beside the rows of the view itself, and the work that one
    changed row of a source causes. A construct that is not maintained leaves them empty. With `is_open` Spark may give
    one of several answers, of which ours is one. `in_spark` is the example where Spark spells it otherwise.
    """

    name: str
    example: str
    state: str = ""
    cost: str = ""
    kept: HowKept = HowKept.INCREMENTALLY
    is_open: bool = False
    in_spark: str = ""


NOTHING = "nothing"
ONE_ROW = "the changed row"

TABLES: Mapping[str, Mapping[str, Type]] = {
    "orders": {
        "id": INT,
        "customer": INT,
        "total": Decimal(10, 2),
        "quantity": BIGINT,
        "weight": DOUBLE,
        "status": STRING,
        "day": DATE,
        "placed": TIMESTAMP,
        "paid": BOOLEAN,
    },
    "customers": {"id": INT, "name": STRING, "country": STRING, "since": DATE, "active": BOOLEAN},
    "visits": {"customer": INT, "page": STRING, "at": TIMESTAMP, "seconds": INT},
}
