"""What the placement benchmark measures, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Factor:
    """How many times dearer everything in the Cloud is, at a ratio of download to upload price."""

    workload: str
    down_per_up: float
    factor: float
    optimal: bool
    method: str
    seconds: float
    components: int
    trees: int
    paper: float | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """Deciding and peak memory for a number of view ends (directed edges), measured in a process of its own."""

    ends: int
    devices: int
    seconds: float
    bytes_per_end: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """A way to the same answer: seconds measured on a sample of devices, and for all of them."""

    name: str
    sample: int
    seconds_per_device: float
    seconds: float
    extrapolated: bool
    same_cost: bool


@dataclass(frozen=True, slots=True)
class Command:
    """`headrace place` from its start to the written table."""

    pairs: int
    devices: int
    wall_s: float
    decision_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Results:
    seed: int
    factors: tuple[Factor, ...]
    scales: tuple[Scale, ...]
    baselines: tuple[Baseline, ...]
    commands: tuple[Command, ...]
