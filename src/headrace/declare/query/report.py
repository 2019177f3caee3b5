"""What is found while a query is read: mistakes, notes and refusals.

Reading goes on after a refusal where it can, as if that part were not there, so that all refusals of a view are found
at once. What looks like a mistake afterwards may follow from what was left out, and is not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from headrace.model.errors import Location, Problem, Severity, UnsupportedSql

REFUSALS: Mapping[str, str] = {
    "aggregate: NAME": "use count, sum, avg, min or max",
    "array element": "store each element as a row of a separate source",
    "clause: NAME": "leave the clause out",
    "correlated subquery": "compare columns of the two queries with = in the inner WHERE, or write a join",
    "count distinct of several columns": "count(*) over SELECT DISTINCT of these columns counts them",
    "cube": "write one GROUP BY for each set and combine them with UNION ALL",
    "deep nesting": "store the result of the inner steps in a source",
    "except all": "use EXCEPT, which gives each row once",
    "expression: NAME": "write it with operators and functions that docs/sql.md lists",
    "function: NAME": "docs/sql.md lists the functions that are maintained",
    "grouping sets": "write one GROUP BY for each set and combine them with UNION ALL",
    "intersect all": "use INTERSECT, which gives each row once",
    "interval column": "give the number of seconds or days: unix_timestamp(b) - unix_timestamp(a), datediff(b, a)",
    "lateral join": "write the inner query as a join",
    "lateral view": "store each element as a row of a separate source",
    "limit without order by": "add ORDER BY: otherwise it is not defined which rows are meant",
    "natural join": "name the columns: USING (...)",
    "nondeterministic function: NAME": "a maintained view may depend only on its sources",
    "now() outside a filter on time": "compare a time with it in WHERE: ts > now() - INTERVAL '7 days'",
    "offset without limit": "add LIMIT",
    "pivot": "write one aggregate with FILTER (WHERE ...) for each column",
    "recursive query": "views cannot read themselves",
    "rollup": "write one GROUP BY for each set and combine them with UNION ALL",
    "scalar subquery without aggregate": "return one row with an aggregate: (SELECT max(x) FROM ...), or write a join",
    "select without from": "read the values from a source",
    "session window": "use window(ts, '10 minutes')",
    "several time windows": "group in one query for each window",
    "several window functions": "rank in one query for each order",
    "stream-stream join without a window": "bound the distance in time (a.ts BETWEEN b.ts - INTERVAL 1 HOUR AND b.ts), "
    "or join equal windows",
    "struct column": "select its parts: window.start, window.end",
    "subquery as a value": "use EXISTS or IN as a condition of WHERE",
    "subquery in ON": "move the condition to WHERE",
    "subquery under OR": "write one query for each case and combine them with UNION",
    "table function: NAME": "read from sources and views",
    "table sample": "filter by a column: pmod(id, 10) = 0",
    "time travel": "a view reads what its sources hold now",
    "values": "keep the rows in a source",
    "window function: NAME": "ROW_NUMBER, RANK and DENSE_RANK are maintained when an outer WHERE keeps the first k",
    "window outside group by": "group by it: GROUP BY window(ts, '1 minute')",
}
"""Valid SQL that is not maintained, by name, with what to write instead. `NAME` stands for the construct's own name."""


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
