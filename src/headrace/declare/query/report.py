"""What is found while a query is read: mistakes, notes and refusals.

Reading goes on after a refusal where it can, as if that part were not there, so that all refusals of a view are found
at once. What looks like a mistake afterwards may follow from what was left out, and is not reported.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from headrace.model.errors import Location, Problem, Severity, UnsupportedSql

REFUSALS: Mapping[str, str] = {
    "aggregate: NAME": "docs/sql.md lists the aggregates that are maintained",
    "asof join": "join the rows before it, and keep the last of each: QUALIFY ROW_NUMBER() OVER (PARTITION BY ... "
    "ORDER BY ... DESC) = 1",
    "clause: NAME": "leave the clause out",
    "correlated subquery": "write it as a join",
    "deep nesting": "store the result of the inner steps in a source",
    "expression: NAME": "write it with operators and functions that docs/sql.md lists",
    "function: NAME": "docs/sql.md lists the functions that are maintained",
    "grouping sets": "at most 64 sets are maintained: name those that are needed in GROUPING SETS",
    "interval column": "give the number of seconds or days: unix_timestamp(b) - unix_timestamp(a), datediff(b, a)",
    "join as of the event": "a stream that `joins: as_of_event` joins tables that are filtered or joined with each "
    "other: group and rank afterwards, and keep only rows of the stream without a partner",
    "lateral join": "write a query: LATERAL (SELECT ...)",
    "nondeterministic function: NAME": "a maintained view may depend only on its sources",
    "now() as a value": "it would change all rows at every instant: take date_trunc('minute', now()), current_date, or "
    "a comparison: ts > now() - INTERVAL '7 days'",
    "processing time": "only rows of a stream have one time at which they came: take a column with a time, "
    "window(ts, '10 seconds')",
    "pivot": "name aggregates and values: PIVOT (sum(x) AS total, count(*) AS n FOR (a, b) IN ((1, 2) AS both))",
    "recursive query": "views cannot read themselves",
    "scalar subquery without aggregate": "give its column a type: CAST(... AS ...)",
    "session window in grouping sets": "group by each set in a query of its own, and combine them with UNION ALL",
    "session window outside group by": "read FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' "
    "MINUTES), which adds window_start and window_end, or GROUP BY k, session_window(ts, '10 minutes')",
    "session window with a gap that changes": "use one gap for all rows: session_window(ts, '10 minutes')",
    "several table functions": "write the second one in FROM: LATERAL VIEW explode(...)",
    "several time windows": "group in one query for each window",
    "stream-stream join without a window": "bound the distance in time (a.ts BETWEEN b.ts - INTERVAL 1 HOUR AND b.ts), "
    "or join equal windows",
    "struct column": "select its parts: window.start, window.end",
    "subquery as a value": "compare one column, or use EXISTS",
    "subquery in ON": "a query in ON may name columns of one side: move the condition to WHERE",
    "table function: NAME": "explode, posexplode, unnest, generate_series, range, stack and json_tuple give rows, in "
    "FROM or in the SELECT list",
    "table function of groups": "group in a query of its own in FROM, and unfold that",
    "table sample": "filter by a column: pmod(id, 10) = 0",
    "time travel": "a view reads what its sources hold now",
    "unpivot": "give each entry of IN as many columns: UNPIVOT ((v, w) FOR c IN ((a, b), (c, d)))",
    "window frame: NAME": "use ROWS or RANGE",
    "window function: NAME": "docs/sql.md lists the window functions that are maintained",
    "window outside group by": "read FROM TUMBLE(t, ts, INTERVAL '1 minute'), which adds window_start and window_end, "
    "or GROUP BY window(ts, '1 minute')",
}
"""Valid SQL that is not maintained, by name, with what to write instead. `NAME` stands for the construct's own name."""


OUR_FAULT = "fault in Headrace"
"""The operator of a part of a query that made Headrace itself fail."""
_SAY_REPORT = "please report it with the text of the view; another way to write this part may work"


def describe_fault(error: Exception, where: Location) -> UnsupportedSql:
    """A refusal of what nobody foresaw: one view that Headrace cannot read does not keep it from reading the others."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" in {Path(frame.filename).name}, line {frame.lineno}" for frame in last)
    message = f"Headrace failed to read this, and the fault is ours: {type(error).__name__}: {error}{place}"
    return UnsupportedSql(OUR_FAULT, Problem(message, where, _SAY_REPORT))


def refuse(operator: str, where: Location, hint: str | None = None) -> NoReturn:
    """End the reading of this part: it is valid but its changes are not computed incrementally."""
    general = f"{operator.partition(': ')[0]}: NAME" if ": " in operator else operator
    message = f'"{operator}" is not maintained incrementally'
    raise UnsupportedSql(operator, Problem(message, where, hint or REFUSALS[general]))


@dataclass(slots=True)
class Report:
    """Findings in one view. `blocked`: it reads a view with mistakes, which are reported there.

    With `goes_on`, refusals are kept in the order in which they were met; otherwise the first ends the reading.
    """

    errors: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    refusals: list[UnsupportedSql] = field(default_factory=list)
    blocked: bool = False
    goes_on: bool = False

    def error(self, message: str, where: Location, hint: str | None = None) -> None:
        """Add a mistake, once: a common table expression is read again at each use."""
        problem = Problem(message, where, hint)
        if problem not in self.errors and not self.refusals:
            self.errors.append(problem)

    def gathering(self) -> Gathering:
        """Keeps a refusal of what is read within; what follows the block then stands for what was refused."""
        return Gathering(self)

    def refuse(self, operator: str, where: Location, hint: str | None = None) -> None:
        """Refuse something without which the rest can be read."""
        with self.gathering():
            refuse(operator, where, hint)

    def keeps(self, error: BaseException | None) -> bool:
        """Whether reading goes on after an error, because it is a refusal that is kept."""
        if not isinstance(error, UnsupportedSql) or not self.goes_on:
            return False
        if all(error.problems != known.problems for known in self.refusals):
            self.refusals.append(error)
        return True

    def note(self, message: str, where: Location, hint: str | None = None) -> None:
        problem = Problem(message, where, hint, Severity.NOTE)
        if problem not in self.notes:
            self.notes.append(problem)


@dataclass(frozen=True, slots=True)
class Gathering:
    """A block in which a report keeps refusals."""

    report: Report

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return self.report.keeps(error)
