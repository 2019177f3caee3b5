"""What Headrace costs to keep views: pushes, and the upkeep that they cause, in processor seconds of all processes.

Upkeep (merges of indexes, new bases) comes in steps of very different sizes, so it is the mean over enough pushes that
each kind has come: a base is written after 64 pushes at the latest.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.cpu import Seconds, cpu_since, processes, timed, together
from bench.engine_peers import Contents, Digest, digest_table
from bench.engine_world import Batch, EngineWorld, inserts
from bench.workloads.tweets import COLUMNS, VIEWS, Tweets, make_catalogue
from headrace.run.ports import Runner

ENOUGH_PUSHES = 66
ONE_ROW_PUSHES, ONE_ROW_WARM_UPS = 10, 3


@dataclass(frozen=True, slots=True)
class Kept:
    """Of many pushes. `push` is each by itself and `upkeep_s` the mean of all; `written` are bytes by kind of file."""

    push: Seconds
    upkeep_s: float
    upkeep_steps: int
    load: tuple[float, float]
    """Wall and processor seconds."""
    written: dict[str, int] = field(default_factory=dict)

    @property
    def total_s(self) -> float:
        return self.push.mean_cpu + self.upkeep_s


def keep_by_pushes(
    runner: Runner[Any], scratch: Path, contents: Contents, batches: Sequence[Batch]
) -> tuple[Kept, dict[str, Digest]]:
    """Both views in one push of each batch, then all upkeep that is due; and what the views are in the end."""
    with load_world(runner, scratch, contents) as (world, load):
        vertices = world.engine.upstream([world.vertex_of(view) for view in VIEWS])
        pushes, upkeeps, steps = list[tuple[float, float]](), list[tuple[float, float]](), 0
        world.note_written()
        world.written.clear()
        for batch in batches:
            world.capture(batch)
            pushes.append(time_once(partial(world.push_vertices, vertices)))
            world.note_written()
            wall, before = time.perf_counter(), processes()
            steps += world.keep_up()
            upkeeps.append((time.perf_counter() - wall, cpu_since(before)))
        digests = {view: digest_table(world.read_view(view)) for view in VIEWS}
        upkeep = together(upkeeps)
        return Kept(together(pushes), upkeep.mean_cpu, steps, load, dict(world.written)), digests


def push_one_row(runner: Runner[Any], scratch: Path, contents: Contents, tweets: Tweets, repeats: int) -> Seconds:
    """The fixed cost of a push: one changed tweet. Each of the repeats is the mean of some pushes: one alone takes few
    ticks of the clock by which processor time is counted.
    """
    with load_world(runner, scratch, contents) as (world, _):
        vertices = world.engine.upstream([world.vertex_of(view) for view in VIEWS])
        found = list[tuple[float, float]]()
        for _ in range(ONE_ROW_WARM_UPS):
            _push_rows(world, vertices, tweets)
        for _ in range(repeats):
            walls, cpus = 0.0, 0.0
            for _ in range(ONE_ROW_PUSHES):
                wall, cpu = _push_rows(world, vertices, tweets)
                walls, cpus = walls + wall, cpus + cpu
            found.append((walls / ONE_ROW_PUSHES, cpus / ONE_ROW_PUSHES))
            world.keep_up()
        return together(found)


def _push_rows(world: EngineWorld, vertices: list[str], tweets: Tweets) -> tuple[float, float]:
    world.capture({"tweets": tweets.batch(2)["tweets"]})
    return time_once(partial(world.push_vertices, vertices))


def time_once(run: Callable[[], object]) -> tuple[float, float]:
    seconds = timed(run, 1)
    return seconds.wall, seconds.cpu


@contextmanager
def load_world(
    runner: Runner[Any], scratch: Path, contents: Contents
) -> Iterator[tuple[EngineWorld, tuple[float, float]]]:
    """The views, loaded, and how long that took."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        world = EngineWorld(make_catalogue(contents["tweets"].num_rows), Path(folder), runner)
        world.capture({name: inserts(contents[name]) for name in COLUMNS})
        wall, before = time.perf_counter(), processes()
        world.engine.load()
        world.keep_up()
        yield world, (time.perf_counter() - wall, cpu_since(before))
