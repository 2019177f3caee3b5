"""Decides what to push next in one job: whole pushes, from the sources to the views, the most urgent first.

Starting a job costs as much as many small pushes, so all pushes that are due go together if no promise suffers: a
job must be done before the first of its own promises expires, and must not hold up others for longer than pushes are
started early. All pushes of a job go to the time that is captured by then, so a push that had to wait brings more
changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headrace.model.log import NEVER
from headrace.run.push.items import group_by_weight
from headrace.run.schedule.next_push import SECOND, START_AT, Due, Paths, Scene, path_s

SHORT_S = 1.0
"""Jobs may always be this long."""


@dataclass(frozen=True, slots=True)
class Job:
    """Vertices to bring to times, with all that they lack, and the seconds of work that each is."""

    targets: Mapping[str, int]
    seconds: Mapping[str, float]

    @property
    def work_s(self) -> float:
        return sum(self.seconds.values())


def next_job(paths: Paths, scene: Scene, due: Iterable[Due], overhead_s: float) -> Job | None:
    """None if there is nothing to do, or if the most urgent push alone is better done level by level.

    `scene.seconds` are those of work alone; a job takes `overhead_s` beyond it. What is forced waits for all others.
    """
    entries = sorted(due, key=lambda entry: entry.urgency)
    job, limit_s, margin = Job({}, {}), longest_job_s(paths), 0.0
    for entry in [entry for entry in entries if not entry.forced] or entries:
        larger = _with(paths, scene, entry, job)
        if not job.targets and larger.work_s > limit_s + _levels(paths, larger.targets) * overhead_s:
            return None
        left_s = (entry.deadline - scene.now) / SECOND
        if not entry.late and left_s > 0:
            limit_s = min(limit_s, max(left_s, SHORT_S))
        margin = max(margin, scene.margins.get(entry.contract, 0.0))
        if job.targets and overhead_s + larger.work_s * (1.0 + margin) > limit_s:
            break
        job = larger
    return job if job.targets else None


def longest_job_s(paths: Paths) -> float:
    """How long anybody may be kept waiting: what pushes of the shortest promise start early for."""
    shortest = min((entry.freshness_s for entry in paths.unforced), default=0.0)
    return max(SHORT_S, (1 - START_AT) * shortest)


def _with(paths: Paths, scene: Scene, entry: Due, job: Job) -> Job:
    target, targets, seconds = _target(paths, scene, entry), dict(job.targets), dict(job.seconds)
    for name in paths.upstream[entry.contract]:
        if max(scene.times[name], targets.get(name, NEVER)) < target:
            targets[name] = target
            seconds[name] = scene.seconds(name, (target - scene.times[name]) / SECOND)
    return Job(targets, seconds)


def _target(paths: Paths, scene: Scene, entry: Due) -> int:
    """Extends the target time if newer changes also fit."""
    if entry.contract in paths.exact:
        return entry.target
    sources = [name for name in paths.upstream[entry.contract] if not paths.inputs[name]]
    watermark = min(scene.watermarks.get(name, NEVER) for name in sources)
    in_time = scene.now + path_s(paths, scene, entry.contract, watermark) * SECOND <= entry.deadline
    return max(entry.target, watermark) if entry.late or in_time else entry.target


# Side by side


@dataclass(frozen=True, slots=True)
class ParallelSlots:
    """Slots that do a share of their work side by side and wait for each other with the rest."""

    slots: int
    parallel: float = 1.0

    def follows(self, longest: float, total: float) -> float:
        """How much follows each other, of what the longest slot has and what all have."""
        return self.parallel * longest + (1 - self.parallel) * total


def parts_of(paths: Paths, job: Job, sides: ParallelSlots, overhead_s: float) -> tuple[Mapping[str, int], ...]:
    """A job as one or several, one after the other: what builds on each other runs in one place, one after the other.

    Most pushes have sources in common, so that all of them hang together. Cut between levels they fall apart into some
    that run side by side, which is worth another job if more than that is saved. Of all ways to cut it is the shortest.
    """
    depth = _depths(paths, job.targets)
    levels = [
        [name for name in job.targets if depth[name] == level] for level in range(max(depth.values(), default=0) + 1)
    ]
    # The best way to do all levels before each one: its seconds, and where its last part begins.
    best = [(0.0, 0)]
    for end in range(1, len(levels) + 1):
        ways = []
        for begin in range(end):
            part = [name for level in levels[begin:end] for name in level]
            start_s = overhead_s if begin else 0.0
            ways.append((best[begin][0] + start_s + length_s(paths, job.seconds, part, sides), begin))
        best.append(min(ways))
    cuts, end = list[tuple[int, int]](), len(levels)
    while end:
        cuts.append((best[end][1], end))
        end = best[end][1]
    parts = (
        {name: job.targets[name] for level in levels[begin:end] for name in level} for begin, end in reversed(cuts)
    )
    return tuple(parts)


def length_s(paths: Paths, seconds: Mapping[str, float], names: Collection[str], sides: ParallelSlots) -> float:
    """Seconds until all is done."""
    longest = sum(seconds[name] for name in longest_share(paths, seconds, names, sides.slots))
    return sides.follows(longest, sum(seconds[name] for name in names))


def longest_share(paths: Paths, seconds: Mapping[str, float], names: Collection[str], slots: int) -> list[str]:
    """The vertices of the slot that is done last; each group of what builds on each other is in one slot."""
    groups = together(paths.inputs, names)
    lengths = [sum(seconds[name] for name in group) for group in groups]
    shares = [[name for position in share for name in groups[position]] for share in group_by_weight(lengths, slots)]
    return max(shares, key=lambda share: sum(seconds[name] for name in share), default=[])


def together(inputs: Mapping[str, Iterable[str]], names: Collection[str]) -> list[list[str]]:
    """Vertices in groups: those that build on each other are in one, in the order given."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for name in names:
        for read in inputs[name]:
            if read in leader:
                leader[find(read)] = find(name)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(find(name), []).append(name)
    return list(groups.values())


def _depths(paths: Paths, names: Collection[str]) -> dict[str, int]:
    """Levels among the vertices, from 0; they are given inputs first."""
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = 1 + max((depth[read] for read in paths.inputs[name] if read in depth), default=-1)
    return depth


def _levels(paths: Paths, names: Collection[str]) -> int:
    return 1 + max(_depths(paths, names).values(), default=-1)
