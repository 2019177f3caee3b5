"""Which pushes run beside all others: those of vertices that may take long, such as views in full, and transfers.

Rounds bring to a time what such a vertex reads; then it is pushed by itself, while rounds go on without it and without
what is made of it; then rounds push the rest. A contract that needs it waits, and no other does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from headrace.run.schedule.next_push import Due, Paths, Scene
from headrace.run.schedule.next_round import RoundPush, inputs_time


@dataclass(frozen=True, slots=True)
class Aside:
    """Pushes to begin beside the others; and what is left for rounds, with the paths that they may push."""

    begin: tuple[RoundPush, ...]
    due: tuple[Due, ...]
    paths: Paths


def set_aside(
    paths: Paths, scene: Scene, due: Iterable[Due], apart: Collection[str], running: Collection[str]
) -> Aside:
    """`apart` are vertices that are pushed beside the others, and `running` those of them that are just now.

    A vertex goes to the largest time that is asked for and that its inputs have reached, not further: whoever asks for
    a view in full at a time finds it at no other.
    """
    begin, left, left_out = dict[str, RoundPush](), list[Due](), dict[str, frozenset[str]]()
    for entry in sorted(due, key=lambda entry: entry.urgency):
        upstream = paths.upstream[entry.contract]
        behind = [name for name in upstream if name in apart and scene.times[name] < entry.target]
        idle = [name for name in behind if name not in running]
        ready = [name for name in idle if inputs_time(paths, scene, name) >= entry.target]
        for name in ready:
            if name not in begin or begin[name].target < entry.target:
                begin[name] = RoundPush(name, entry.target, entry.contract)
        made_of = _find_made_of(paths, upstream, behind)
        lacks = any(scene.times[name] < entry.target for name in upstream if name not in made_of)
        # While one of several is on its way, rounds bring up what the others read.
        if lacks or (len(idle) == len(behind) and not ready):
            left.append(entry)
            left_out[entry.contract] = made_of
    exact = frozenset(one.contract for one in left if not set(apart).isdisjoint(paths.upstream[one.contract]))
    return Aside(tuple(begin.values()), tuple(left), replace(paths, left_out=left_out, exact=exact))


def _find_made_of(paths: Paths, upstream: Iterable[str], vertices: Iterable[str]) -> frozenset[str]:
    """Some vertices, and what is made of them. `upstream` has inputs first."""
    found = set(vertices)
    for name in upstream:
        if not found.isdisjoint(paths.inputs[name]):
            found.add(name)
    return frozenset(found)
