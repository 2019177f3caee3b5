"""The SQL that people write, as a table: each construct with an example, its state and its cost per change.

docs/sql.md is made from it. To add a row, add it to the tuple of its section.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.declare.constructs.construct import Construct
from headrace.declare.constructs.grouping import GROUPING
from headrace.declare.constructs.joining import JOINING
from headrace.declare.constructs.ordering import ORDERING
from headrace.declare.constructs.scalars import SCALARS
from headrace.declare.constructs.selecting import SELECTING
from headrace.declare.constructs.timing import TIMING

CONSTRUCTS: Mapping[str, tuple[Construct, ...]] = {
    "Columns, conditions, sets": SELECTING,
    "Joins and subqueries": JOINING,
    "Groups": GROUPING,
    "First rows and window functions": ORDERING,
    "Windows in time": TIMING,
    "Values of a row": SCALARS,
}
