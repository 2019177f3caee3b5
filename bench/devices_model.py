"""How many messages a placement sends, by RACE's model: predicted from pairs and rates, before anything runs.

    up     a phone sends its stream as often as the most demanding view needs it that does not run on the phone itself
    down   a phone gets a stream as often as the most demanding of its views needs it
    all in the cloud          every phone sends its stream, and gets nothing
    a filter on each device   as rule engines on devices do (eKuiper): what passes goes up. A view over two phones has
                              no condition over one of them alone, so all of its rows pass

Results are not counted, as in the paper: they are few, and are told beside.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from bench.workloads.phones import Phones
from headrace.plan.place.pairs import AT_A, AT_B, Pairs, Where
from headrace.plan.place.single import decide_pairs, where_views_run
from headrace.plan.place.tables import uniform_star

UNIT = 1_000_000
"""Rates are integers for deciding: this many to one per second."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Messages per second."""

    up: float
    down: float
    all_cloud: float
    filtered: float
    on_devices: int
    pairs: int

    @property
    def placed(self) -> float:
        return self.up + self.down

    @property
    def ratio(self) -> float:
        return self.all_cloud / self.placed if self.placed else float("inf")


def place_phones(phones: Phones) -> Where:
    """Where each pair's view costs least, decided as `headrace place` does, with equal prices up and down."""
    star, _ = uniform_star(len(phones), 1, 1)
    pairs = as_pairs(phones)
    return where_views_run(pairs, decide_pairs(pairs, star).limit)


def as_pairs(phones: Phones) -> Pairs:
    rates = (np.rint(needed * UNIT).astype(np.int64) for needed in (phones.needed_a, phones.needed_b))
    return Pairs(phones.a, phones.b, *rates)


def predict_messages(phones: Phones, where: Where) -> Predicted:
    """Counted stream by stream, apart from how placements are decided: the two must agree on what a placement costs."""
    up: dict[int, float] = defaultdict(float)
    down: dict[tuple[int, int], float] = defaultdict(float)
    sent: dict[int, float] = defaultdict(float)
    needed = zip(phones.needed_a.tolist(), phones.needed_b.tolist(), strict=True)
    for (a, b), (rate_a, rate_b), at in zip(phones.pairs, needed, where.tolist(), strict=True):
        for one, other, rate, here in ((a, b, rate_a, AT_A), (b, a, rate_b, AT_B)):
            sent[one] = max(sent[one], rate)
            if at != here:
                up[one] = max(up[one], rate)
            if at not in (0, here):
                down[other, one] = max(down[other, one], rate)
    all_cloud = sum(sent.values())
    on_devices = int((where != 0).sum())
    return Predicted(sum(up.values()), sum(down.values()), all_cloud, all_cloud, on_devices, len(where))
