"""Adapts to measured latency by one number: the score from which pairs are stored ahead although that costs more.

Moving a pair on read ahead saves its consumer's queries a pull, for extra cost. Its score is one by the other:

    score = query_rate / (event_rate * H - query_rate * L)

and the cheapest way to any number of pulls saved is to move the highest scores, up to one pair. So the state is a
threshold. With one H and one L, a higher score is the same as a higher `query_rate / event_rate`, and the threshold
is a lower push threshold than H / L (`priority_threshold`). Section 3.3.1 of Feeding Frenzy, with steps that
double.

    measured above the limit            one batch of pairs more is moved; the next batch is twice as large
    measured below (1 - slack) limit    one batch is moved back; pairs that cost alone stores ahead never are
    between                             nothing; batches start small again

The first batch is a hundredth of what may be moved, so that eight steps reach everything. Storing ahead makes reads
quicker where they wait for pulls. Where they wait for something else, such as a machine without a free core, it makes
them slower: if everything is stored ahead and reads are slower than before, only what cost alone says is stored ahead
again, and the next attempt is made after a while.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import FloatArray
from headrace.plan.feeds.instance import Feeds


@dataclass(frozen=True, slots=True)
class Threshold:
    """Pairs with at least this score are stored ahead; `batch` is how many pairs the next step moves at least."""

    score: float = math.inf
    batch: int = 1
    before: float = math.inf
    """What was measured when the first batch was moved."""
    rest: int = 0
    """Steps until it is tried again: storing everything ahead has made reads slower."""


@dataclass(frozen=True, slots=True)
class Goal:
    """`limit` for whatever is measured, by itself the share of its own limit that a latency takes; below
    `(1 - slack) * limit` cost is saved again.
    """

    limit: float = 1.0
    slack: float = 0.2
    first_batch: int = 1


FIRST_SHARE = 0.01
"""Of the pairs that may be moved, in the first batch."""
HURT = 1.2
"""Reads have become slower if they take more than so many times what they took before."""
REST = 40
"""Steps after which it is tried again."""


class ThresholdOutcome(StrEnum):
    """What a step did. UNREACHABLE: with everything stored ahead, reads are still too slow. It stays so, unless
    that has made them slower: then only what cost alone says is stored ahead for a while.
    """

    HELD = "held"
    LOWERED = "lowered"
    RAISED = "raised"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class ThresholdStep:
    threshold: Threshold
    outcome: ThresholdOutcome


def scores(feeds: Feeds, ahead: BoolArray) -> FloatArray:
    """The score of every pair that least cost puts on read (infinite for the others), to rounding. Per-pair pricing."""
    consumer, producer = feeds.consumer, feeds.producer
    query_rate = feeds.query_rate.near[consumer]
    stored = feeds.event_rate.near[producer] * feeds.store_price.near[producer]
    extra = stored - query_rate * feeds.fetch_price.near[producer]
    score = np.full(len(feeds), math.inf)
    np.divide(query_rate, extra, out=score, where=~ahead & (extra > 0))
    return score


def apply_threshold(score: FloatArray, threshold: Threshold) -> BoolArray:
    """Which pairs to store ahead, given the scores of all."""
    ahead: BoolArray = score >= threshold.score
    return ahead


def priority_threshold(threshold: Threshold, store_price: float, fetch_price: float) -> float:
    """The threshold on `query_rate / event_rate`, where all pairs have the same prices; H / L at the start."""
    if math.isinf(threshold.score):
        return store_price / fetch_price if fetch_price else math.inf
    return store_price * threshold.score / (1 + fetch_price * threshold.score)


def adapt(state: Threshold, measured: float, goal: Goal, rising: FloatArray) -> ThresholdStep:
    """The next threshold. `rising` holds the finite scores, sorted; pairs of equal score move together."""
    moved = len(rising) - int(np.searchsorted(rising, state.score, side="left"))
    first = max(goal.first_batch, math.ceil(FIRST_SHARE * len(rising)))
    if measured > goal.limit:
        return _lower(state, measured, moved, first, rising)
    rested = replace(state, batch=first, before=state.before if moved else math.inf, rest=0)
    if measured < (1 - goal.slack) * goal.limit and moved:
        return _raise(rested, moved, rising)
    return ThresholdStep(rested, ThresholdOutcome.HELD)


def _lower(state: Threshold, measured: float, moved: int, first: int, rising: FloatArray) -> ThresholdStep:
    if state.rest > 1:
        return ThresholdStep(replace(state, rest=state.rest - 1), ThresholdOutcome.UNREACHABLE)
    if moved == len(rising):
        if moved and measured > HURT * state.before:
            return ThresholdStep(Threshold(batch=first, rest=REST), ThresholdOutcome.UNREACHABLE)
        return ThresholdStep(state, ThresholdOutcome.UNREACHABLE)
    batch = max(first, state.batch)
    position = max(0, len(rising) - moved - batch)
    before = state.before if moved else measured
    return ThresholdStep(Threshold(float(rising[position]), 2 * batch, before), ThresholdOutcome.LOWERED)


def _raise(state: Threshold, moved: int, rising: FloatArray) -> ThresholdStep:
    """Raises the threshold to the next score above those of the batch: everything at or below the batch's last goes
    back on read.
    """
    last = rising[min(len(rising) - moved + state.batch, len(rising)) - 1]
    position = int(np.searchsorted(rising, last, side="right"))
    score = float(rising[position]) if position < len(rising) else math.inf
    return ThresholdStep(replace(state, score=score), ThresholdOutcome.RAISED)
