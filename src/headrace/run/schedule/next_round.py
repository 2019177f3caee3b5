"""Chooses the items of the next round from the pushes that are due; they run together and are committed together.

A round takes the ready items of the most urgent push, then items that fit beside them: on free slots, or after items
that end early. It lasts no longer than the longest ready item, and no push in it waits for the rest longer than its
promise allows. So a contract of seconds waits behind one of minutes for at most one item, and small pushes still go
together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.run.schedule.next_push import SECOND, Due, Paths, Scene, path_s

WORTH_A_ROUND_S = 0.25
"""Rounds that are shorter than this are not divided: starting one costs about as much."""

SHARED_SLACK = 0.5
"""Share of the time that a push could wait which it may spend waiting for others in its round."""


@dataclass(frozen=True, slots=True)
class RoundPush:
    """One vertex to bring to a time, and the contract that needs it there first."""

    vertex: str
    target: int
    contract: str


def next_round(paths: Paths, scene: Scene, due: Iterable[Due]) -> tuple[RoundPush, ...]:
    """Items that are ready, the most urgent first. Pushes that have begun and are not done belong to `due`."""
    order = sorted(due, key=lambda entry: entry.urgency)
    ready = _ready(paths, scene, order)
    lengths = [_length_s(scene, move) for move in ready]
    slack = {entry.contract: _slack_s(paths, scene, entry) for entry in order}
    limit, ends, round_ = max(lengths, default=0.0), [0.0] * scene.slots, list[RoundPush]()
    for move, length in zip(ready, lengths, strict=True):
        slot = ends.index(min(ends))
        if not round_ or max(*ends, ends[slot] + length) <= max(limit, WORTH_A_ROUND_S):
            ends[slot] += length
            limit = min(limit, max(*ends, ends[slot] + SHARED_SLACK * max(0.0, slack[move.contract])))
            round_.append(move)
    return tuple(round_)


def _ready(paths: Paths, scene: Scene, order: Iterable[Due]) -> list[RoundPush]:
    """Vertices that lack something, and whose inputs have it; each once, for the most urgent push that needs it."""
    found: dict[str, RoundPush] = {}
    for due in order:
        for name in paths.upstream[due.contract]:
            lacks = scene.times[name] < due.target
            if lacks and name not in found and inputs_time(paths, scene, name) >= due.target:
                found[name] = RoundPush(name, due.target, due.contract)
    return list(found.values())


def inputs_time(paths: Paths, scene: Scene, vertex: str) -> int:
    """Up to where a vertex can be pushed now."""
    inputs = paths.inputs[vertex]
    return min(scene.times[name] for name in inputs) if inputs else scene.watermarks[vertex]


def _length_s(scene: Scene, move: RoundPush) -> float:
    return scene.seconds(move.vertex, (move.target - scene.times[move.vertex]) / SECOND)


def _slack_s(paths: Paths, scene: Scene, due: Due) -> float:
    """How long a push may wait and still be in time."""
    return (due.deadline - scene.now) / SECOND - path_s(paths, scene, due.contract, due.target)
