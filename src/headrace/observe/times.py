"""How long operators take, learnt from what they took: seconds = fixed + per_in * rows in + per_out * rows out.

Slowly, one fit for each operator at each site (and link): least squares that forget, with coefficients that are not
negative. Quickly, one factor for each vertex, which rides out what the fit does not know yet. Until there are enough
samples, all that was planned is scaled by one factor; it holds wherever samples do not tell coefficients apart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from statistics import median

from headrace.model.catalogue import OperatorTime

FORGET = 0.98
"""What a sample still weighs when the next one comes."""

ENOUGH = 20
"""Samples before a fit has coefficients of its own, and before any are clipped."""

SCALES = 1 / 64, 4.0
"""Bounds of the factor before that: first pushes are slow, since nothing is warm yet."""

CLIP = 5.0
"""Samples are believed up to this many median deviations."""

RECENT = 41
"""Deviations of which the median is taken."""

CLOSE = 0.05
"""Share of the predicted seconds by which a sample may always deviate: where all agree the median says nothing."""

QUICK, SLOWEST, FASTEST = 0.2, 4.0, 0.25
"""Weight of the last sample in the quick factor, and its bounds."""

TRUST_IN_PLAN = 1e-6
"""Weight of the planned coefficients, compared with the samples'."""

ENOUGH_TO_PLAN = 100
"""Samples of an operator before others are planned with what it took: the first ones are of a cold machine."""

FADE_UPKEEP = 0.97
"""What seconds still weigh at the next look, some seconds later: at first, all that was loaded is merged."""

INGEST = "ingest"
"""What moves a source's own relation on: captured changes become rows that go and rows that come."""

RECOMPUTE = "recompute"
"""What makes a view from all rows of its sources."""

SOME_FREE = tuple(free for count in (1, 2, 3) for free in combinations(range(3), count))
"""Which of three coefficients are not zero."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator at a site, or `INGEST`; copies differ by where they come from too."""

    op: str
    site: str
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What a push took; `weight` is how much it counts, compared with others."""

    rows_in: float
    rows_out: float
    seconds: float
    weight: float = 1.0


def seconds_of(time: OperatorTime, rows_in: float, rows_out: float) -> float:
    return time.fixed + time.per_in * rows_in + time.per_out * rows_out


# The slow fit


@dataclass(frozen=True, slots=True)
class Fit:
    """Sums over samples with x = (1, rows in, rows out): of x xᵀ, row by row, and of x * seconds.

    These are all that recursive least squares keep. `time` is None until there are enough samples; `scale` are sums
    too, with the seconds that were planned: of their squares, and of them times the seconds taken.
    """

    samples: int = 0
    squares: tuple[float, ...] = (0.0,) * 9
    products: tuple[float, ...] = (0.0,) * 3
    deviations: tuple[float, ...] = ()
    time: OperatorTime | None = None
    scale: tuple[float, float] = (0.0, 0.0)

    def time_or(self, planned: OperatorTime) -> OperatorTime:
        """What was fitted; before that, what was planned times the best factor for all samples."""
        if self.time is not None:
            return self.time
        squares, products = self.scale
        factor = min(SCALES[1], max(SCALES[0], products / squares)) if squares > 0.0 else 1.0
        return OperatorTime(factor * planned.fixed, factor * planned.per_in, factor * planned.per_out)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Fit:
        """Raises KeyError, TypeError or ValueError for a text that is none of ours."""
        found = json.loads(text)
        squares, products, deviations, scale = (
            tuple(found[name]) for name in ("squares", "products", "deviations", "scale")
        )
        time = None if found["time"] is None else OperatorTime(**found["time"])
        return Fit(found["samples"], squares, products, deviations, time, scale)


def add_sample(fit: Fit, sample: Sample, planned: OperatorTime, fade: float = FORGET) -> Fit:
    """The fit after one more sample; earlier ones count `fade` times as much as they did."""
    predicted = seconds_of(fit.time_or(planned), sample.rows_in, sample.rows_out)
    as_planned = seconds_of(planned, sample.rows_in, sample.rows_out)
    deviation = sample.seconds - predicted
    seconds = predicted + _clip_deviation(deviation, fit.deviations, predicted)
    x = (1.0, sample.rows_in, sample.rows_out)
    crossed = (one * other for one in x for other in x)
    squares = tuple(fade * known + sample.weight * new for known, new in zip(fit.squares, crossed, strict=True))
    products = tuple(fade * known + sample.weight * new * seconds for known, new in zip(fit.products, x, strict=True))
    samples = fit.samples + 1
    return Fit(
        samples,
        squares,
        products,
        (*fit.deviations, abs(deviation))[-RECENT:],
        _solve_coefficients(squares, products, planned) if samples >= ENOUGH else None,
        (
            fade * fit.scale[0] + sample.weight * as_planned**2,
            fade * fit.scale[1] + sample.weight * as_planned * seconds,
        ),
    )


def _clip_deviation(deviation: float, deviations: tuple[float, ...], predicted: float) -> float:
    if len(deviations) < ENOUGH:
        return deviation
    most = max(CLIP * median(deviations), CLOSE * predicted)
    return min(most, max(-most, deviation))


def _solve_coefficients(squares: tuple[float, ...], products: tuple[float, ...], planned: OperatorTime) -> OperatorTime:
    """The best coefficients that are not negative: the best of those for which some are zero and the others free."""
    scale = [math.sqrt(max(squares[4 * i], 1e-12)) for i in range(3)]
    expected = (planned.fixed, planned.per_in, planned.per_out)
    a = [[squares[3 * i + j] / (scale[i] * scale[j]) + TRUST_IN_PLAN * (i == j) for j in range(3)] for i in range(3)]
    b = [products[i] / scale[i] + TRUST_IN_PLAN * expected[i] * scale[i] for i in range(3)]
    best, least = [0.0, 0.0, 0.0], 0.0
    for free in SOME_FREE:
        found = [0.0, 0.0, 0.0]
        for i, coefficient in zip(
            free, _solve([[a[i][j] for j in free] for i in free], [b[i] for i in free]), strict=True
        ):
            found[i] = coefficient
        error = sum(found[i] * (sum(a[i][j] * found[j] for j in free) - 2 * b[i]) for i in free)
        if min(found) >= 0 and error < least:
            best, least = found, error
    return OperatorTime(*(one / by for one, by in zip(best, scale, strict=True)))


def _solve(a: list[list[float]], b: list[float]) -> list[float]:
    """Solves a few equations. No pivots are chosen, since `a` is symmetric and positive. Numpy takes ten times as long
    for so few, and this runs for every push.
    """
    count = len(b)
    for i in range(count):
        for k in range(i + 1, count):
            factor = a[k][i] / a[i][i]
            for j in range(i, count):
                a[k][j] -= factor * a[i][j]
            b[k] -= factor * b[i]
    found = [0.0] * count
    for i in reversed(range(count)):
        found[i] = (b[i] - sum(a[i][j] * found[j] for j in range(i + 1, count))) / a[i][i]
    return found


# All of them


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """`corrections` are the quick factors by vertex; `slowness` is seconds taken over seconds planned, by vertex, as
    re-planning wants it.
    """

    fits: Mapping[Operation, Fit] = field(default_factory=dict)
    corrections: Mapping[str, float] = field(default_factory=dict)
    slowness: Mapping[str, float] = field(default_factory=dict)

    def time_of(self, operation: Operation, planned: OperatorTime) -> OperatorTime:
        """An operation that was never seen is as much slower or quicker than planned as all others are."""
        return (self.fits.get(operation) or Fit(scale=self._scale)).time_or(planned)

    @property
    def _scale(self) -> tuple[float, float]:
        fits = self.fits.values()
        return sum(one.scale[0] for one in fits), sum(one.scale[1] for one in fits)

    def time_of_vertex(self, operation: Operation, vertex: str, planned: OperatorTime) -> OperatorTime:
        """`planned` is for the operation: divided by the site's speed, with what the link adds."""
        time, factor = self.time_of(operation, planned), self.corrections.get(vertex, 1.0)
        return OperatorTime(time.fixed * factor, time.per_in * factor, time.per_out * factor)


def observe_push(
    times: OperatorTimes, operation: Operation, vertex: str, sample: Sample, planned: OperatorTime
) -> OperatorTimes:
    """What is known of times after a push of a vertex took what it took."""
    fit = add_sample(times.fits.get(operation, Fit()), sample, planned)
    predicted = seconds_of(fit.time_or(planned), sample.rows_in, sample.rows_out)
    as_planned = seconds_of(planned, sample.rows_in, sample.rows_out)
    return OperatorTimes(
        {**times.fits, operation: fit},
        {**times.corrections, vertex: _nearer(times.corrections.get(vertex, 1.0), sample.seconds, predicted)},
        {**times.slowness, vertex: _nearer(times.slowness.get(vertex, 1.0), sample.seconds, as_planned)},
    )


def measure_operators(times: OperatorTimes, speeds: Mapping[str, float]) -> dict[str, OperatorTime]:
    """What operators take in work, which the `speeds` of sites divide; only of those that were seen often enough.

    Copies are left out: how long these take depends on their links.
    """
    pooled: dict[str, list[tuple[float, Fit]]] = {}
    for operation, fit in times.fits.items():
        if operation.origin is None and operation.site in speeds:
            pooled.setdefault(operation.op, []).append((speeds[operation.site], fit))
    return {op: _pool(fits) for op, fits in pooled.items() if sum(fit.samples for _, fit in fits) >= ENOUGH_TO_PLAN}


def _pool(fits: Sequence[tuple[float, Fit]]) -> OperatorTime:
    """What the samples of several sites say together."""
    squares = tuple(sum(fit.squares[i] for _, fit in fits) for i in range(9))
    products = tuple(sum(speed * fit.products[i] for speed, fit in fits) for i in range(3))
    return _solve_coefficients(squares, products, OperatorTime(0.0, 0.0, 0.0))


@dataclass(slots=True)
class UpkeepShare:
    """Seconds of upkeep for each second of pushes, of late."""

    _upkeep_s: float = 0.0
    _pushed_s: float = 0.0
    _seen: tuple[float, float] = (0.0, 0.0)

    def note(self, upkeep_s: float, pushed_s: float) -> None:
        """One more look at the seconds of both since the start."""
        self._upkeep_s = FADE_UPKEEP * self._upkeep_s + max(0.0, upkeep_s - self._seen[0])
        self._pushed_s = FADE_UPKEEP * self._pushed_s + max(0.0, pushed_s - self._seen[1])
        self._seen = upkeep_s, pushed_s

    @property
    def share(self) -> float:
        return self._upkeep_s / self._pushed_s if self._pushed_s else 0.0


def add_upkeep(times: Mapping[str, OperatorTime], share: float) -> dict[str, OperatorTime]:
    """What operators take with the upkeep of what they make."""
    parts = {op: (time.fixed, time.per_in, time.per_out) for op, time in times.items()}
    return {op: OperatorTime(*((1.0 + share) * part for part in time)) for op, time in parts.items()}


def forget(times: OperatorTimes, vertices: frozenset[str]) -> OperatorTimes:
    """Drops vertices that are gone; what their operators taught stays."""
    corrections = {name: factor for name, factor in times.corrections.items() if name not in vertices}
    slowness = {name: factor for name, factor in times.slowness.items() if name not in vertices}
    return replace(times, corrections=corrections, slowness=slowness)


def _nearer(factor: float, seconds: float, predicted: float) -> float:
    """No single push counts for more than the bounds: on a busy machine one of many takes a hundred times as long."""
    if predicted <= 0.0:
        return factor
    return (1 - QUICK) * factor + QUICK * min(SLOWEST, max(FASTEST, seconds / predicted))


# How good predictions are

REMEMBERED = 100
"""Pushes of a contract over which its prediction error is taken."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How well the last pushes of a contract were predicted: the predicted critical path over the measured one."""

    ratios: tuple[float, ...] = ()

    @property
    def error_90(self) -> float | None:
        """Nine of ten pushes are predicted at least as well, as a share; None before the first."""
        return _find_quantile([abs(ratio - 1.0) for ratio in self.ratios], 0.9) if self.ratios else None

    @property
    def margin(self) -> float:
        """How much more than predicted a push takes in one of ten cases, as a share; at most twice as long."""
        if not self.ratios:
            return 0.0
        return min(1.0, max(0.0, _find_quantile([1 / ratio for ratio in self.ratios], 0.9) - 1.0))


def _find_quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of them is, between the two nearest; twenty times as quick as numpy for so few."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def compare_times(accuracy: Accuracy, predicted_s: float, measured_s: float) -> Accuracy:
    """The accuracy after a push; one that took no time, or was not predicted to take any, says nothing."""
    if measured_s <= 0.0 or predicted_s <= 0.0:
        return accuracy
    return Accuracy((*accuracy.ratios, predicted_s / measured_s)[-REMEMBERED:])
