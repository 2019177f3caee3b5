"""The values of groups in order, followed over time: what an aggregate of ordered values is after each change.

Every different value of a group has a place; places of one group follow each other in the order of the call. What is
kept per place is how often its value occurs. A change moves some of these numbers, and the group's answer is computed
from all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.meaning.ordered_values import finish_values
from headrace.model.relation import AggregateCall
from headrace.model.types import Value
from headrace.run.operators.lookup import Integers
from headrace.run.operators.numbering import GroupTimes, sums_by
from headrace.run.rows.arrow import arrow_table, rows_of_arrow


@dataclass(frozen=True, slots=True)
class OrderedLists:
    """`values` are the different ones of all groups in order, `place` says which of them each row holds.

    Those of group g are from `starts[g]` to before `starts[g + 1]`.
    """

    call: AggregateCall
    values: list[Value]
    place: Integers
    starts: Integers

    @classmethod
    def of(cls, call: AggregateCall, column: pa.Array, places: Integers, group: Integers, groups: int) -> OrderedLists:
        """`places` order all rows by group, then by the order of the call; equal rows have equal places."""
        _, first, place = np.unique(places, return_index=True, return_inverse=True)
        values = [row[0] for row in rows_of_arrow(pa.table({"": column.take(pa.array(first))}))]
        return cls(call, values, place.astype(np.int64), np.searchsorted(group[first], np.arange(groups + 1)))

    def follow(self, kept: Integers, changed: Integers, steps: GroupTimes) -> pa.Array:
        """The answer of each group after each step, then of each group before all steps.

        Rows count as often as `kept` says before all steps; `changed` is what the rows after them add at their step.
        """
        held = sums_by(kept, self.place[: len(kept)], len(self.values))
        new = np.flatnonzero(changed)
        order = new[np.argsort(steps.of_row[new], kind="stable")]
        bounds = np.searchsorted(steps.of_row[order], np.arange(len(steps) + 1)).tolist()
        places, amounts = self.place[len(kept) :][order], changed[order]
        before = [self._finish(group, held) for group in range(len(self.starts) - 1)]
        after: list[Value] = []
        for step, (group, is_first) in enumerate(zip(steps.group.tolist(), steps.is_first.tolist(), strict=True)):
            low, high = bounds[step], bounds[step + 1]
            np.add.at(held, places[low:high], amounts[low:high])
            last = before[group] if is_first else after[-1]
            after.append(last if low == high else self._finish(group, held))
        return arrow_table({"": self.call.type}, [(value,) for value in (*after, *before)]).column(0).combine_chunks()

    def _finish(self, group: int, held: Integers) -> Value:
        low, high = self.starts[group], self.starts[group + 1]
        counts = np.minimum(held[low:high], 1) if self.call.distinct else held[low:high]
        return finish_values(self.call, self.values[low:high], counts.tolist())
