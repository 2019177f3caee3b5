"""What to push next in one job: whole pushes, from the sources to the views, the most urgent first.

Starting a job costs as much as many small pushes, so all that is due goes together as long as nobody has to wait for it
longer than promises allow: a job shall be done when the first of its own promises ends, and shall keep others waiting no
longer than pushes are started early for. Everything that is pushed together goes to where sources are captured by then:
a push that had to wait brings more, not the same later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.log import NEVER
from headrace.run.next_push import SECOND, START_AT, Due, Paths, Scene, path_s

SHORT_S = 1.0
"""Jobs may always be so long."""


@dataclass(frozen=True, slots=True)
class Job:
    """Vertices to bring to times, with all that they lack, and the seconds of work that it is."""

    targets: Mapping[str, int]
    work_s: float


def next_job(paths: Paths, scene: Scene, due: Iterable[Due], overhead_s: float) -> Job | None:
    """None if there is nothing to do, or if the most urgent push alone is too long for others to wait for it.

    `scene.seconds` are those of work alone; a job takes `overhead_s` beyond it. What is forced waits for all others.
    """
    entries = sorted(due, key=lambda entry: entry.urgency)
    others = [entry for entry in entries if not entry.forced]
    job = Job({}, 0.0)
    limit_s = longest_job_s(paths)
    for entry in others or entries:
        larger = _with(paths, scene, entry, job)
        length_s = overhead_s + larger.work_s
        left_s = (entry.deadline - scene.now) / SECOND
        if not entry.late and left_s > 0:
            limit_s = min(limit_s, max(left_s, SHORT_S))
        if length_s > limit_s + overhead_s and not job.targets and larger.targets:
            return None
        if length_s > limit_s and job.targets:
            break
        job = larger
    return job if job.targets else None


def longest_job_s(paths: Paths) -> float:
    """How long anybody may be kept waiting: what pushes of the shortest promise start early for."""
    shortest = min((entry.freshness_s for entry in paths.contracts), default=0.0)
    return max(SHORT_S, (1 - START_AT) * shortest)


def _with(paths: Paths, scene: Scene, entry: Due, job: Job) -> Job:
    target, targets, work_s = _target(paths, scene, entry), dict(job.targets), job.work_s
    for name in paths.upstream[entry.contract]:
        reached = max(scene.times[name], targets.get(name, NEVER))
        if reached < target:
            before = _work_s(scene, name, targets[name]) if name in targets else 0.0
            work_s += _work_s(scene, name, target) - before
            targets[name] = target
    return Job(targets, work_s)


def _target(paths: Paths, scene: Scene, entry: Due) -> int:
    """Further than was decided if more is captured by now and is done in time as well."""
    sources = [name for name in paths.upstream[entry.contract] if not paths.inputs[name]]
    watermark = min(scene.watermarks.get(name, NEVER) for name in sources)
    in_time = scene.now + path_s(paths, scene, entry.contract, watermark) * SECOND <= entry.deadline
    return max(entry.target, watermark) if entry.late or in_time else entry.target


def _work_s(scene: Scene, vertex: str, target: int) -> float:
    return scene.seconds(vertex, (target - scene.times[vertex]) / SECOND)
