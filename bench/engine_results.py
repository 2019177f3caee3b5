"""What the engine benchmark measures, as text and as a figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.cpu import Seconds

ENGINE = "push"
BAR_SPARK, BAR_GROWTH, BAR_JOBS, BAR_WRITES = 1 / 3, 2.0, 0.3, 8.0
BAR_DELTA = 10_000


@dataclass(slots=True)
class Results:
    """`pushes` by (rows, changed rows, view), `recomputed` by (rows, peer, view)."""

    pushes: dict[tuple[int, int, str], Seconds] = field(default_factory=dict)
    recomputed: dict[tuple[int, str, str], Seconds] = field(default_factory=dict)
    loads: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    """Wall and processor seconds to ingest and load everything, and GB of the largest worker."""
    jobs: tuple[Seconds, Seconds] | None = None
    """Many joins as one job, and as a job each."""
    writes: Mapping[str, float] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        return sorted({rows for rows, _, _ in self.pushes})

    @property
    def deltas(self) -> list[int]:
        return sorted({delta for _, delta, _ in self.pushes})

    @property
    def views(self) -> list[str]:
        return list(dict.fromkeys(view for _, _, view in self.pushes))

    @property
    def peers(self) -> list[str]:
        return list(dict.fromkeys(peer for _, peer, _ in self.recomputed))


def short(rows: int) -> str:
    return f"{rows / 1e6:g}M" if rows >= 100_000 else f"{rows / 1e3:g}k"


def text(results: Results) -> str:
    return "\n".join([*_loads(results), *_pushes(results), *_wins(results), *_rest(results), *_bars(results)])


def _loads(results: Results) -> Iterator[str]:
    yield f"{'rows':>6} {'ingest and load s':>18} {'cpu s':>7} {'largest worker GB':>18}"
    for rows, (wall, cpu, size) in sorted(results.loads.items()):
        yield f"{short(rows):>6} {wall:18.1f} {cpu:7.1f} {size:18.2f}"


def _pushes(results: Results) -> Iterator[str]:
    for view in results.views:
        yield ""
        yield f"{view}: cpu s (least..largest) [wall s]; of peers also how many times a push of each size that is"
        for rows in results.sizes:
            ours = {
                delta: results.pushes[rows, delta, view]
                for delta in results.deltas
                if (rows, delta, view) in results.pushes
            }
            for delta, found in ours.items():
                yield f"{short(rows):>6} {ENGINE + ' of ' + short(delta):18} {_cell(found)}"
            for peer in results.peers:
                anew = results.recomputed.get((rows, peer, view))
                if anew is not None:
                    times = " ".join(f"{anew.cpu / push.cpu:7.1f}x" for push in ours.values())
                    yield f"{short(rows):>6} {peer:18} {_cell(anew)} {times}"


def _cell(found: Seconds) -> str:
    return f"{found.cpu:7.2f} ({found.spread:>13}) [{found.wall:7.2f}]"


def _wins(results: Results) -> Iterator[str]:
    yield ""
    yield "rows from which a push takes less processor time than computing the view anew"
    for view, delta, peer in itertools.product(results.views, results.deltas, results.peers):
        yield f"  {view:10} {short(delta):>5} changed, {peer:16} {crossing(results, view, delta, peer)}"


def crossing(results: Results, view: str, delta: int, peer: str) -> str:
    """Between two sizes by a straight line in logarithms."""
    points = [
        (rows, results.recomputed[rows, peer, view].cpu / results.pushes[rows, delta, view].cpu)
        for rows in results.sizes
        if (rows, delta, view) in results.pushes and (rows, peer, view) in results.recomputed
    ]
    if not points:
        return "not measured"
    if points[0][1] >= 1:
        return f"{short(points[0][0])} or fewer"
    for (small, below), (large, above) in itertools.pairwise(points):
        if above >= 1:
            share = math.log(1 / below) / math.log(above / below)
            return f"about {short(round(small * (large / small) ** share, -5))}"
    return f"more than {short(points[-1][0])} ({points[-1][1]:.2f}x there)"


def _rest(results: Results) -> Iterator[str]:
    if results.jobs is not None:
        one, many = results.jobs
        yield ""
        yield f"joins due together: one job {_cell(one)}, a job each {_cell(many)}, ratio {one.cpu / many.cpu:.2f}"
    if results.writes:
        yield ""
        yield "bytes written, for each byte of changes: " + ", ".join(f"{k} {v:.2f}" for k, v in results.writes.items())


def bars(results: Results) -> Iterator[tuple[str, float, float]]:
    """What is asked, what was measured, and the most that it may be."""
    largest, smallest = results.sizes[-1], results.sizes[0]
    for view in results.views:
        push = results.pushes.get((largest, BAR_DELTA, view))
        first = results.pushes.get((smallest, BAR_DELTA, view))
        for peer in (peer for peer in results.peers if peer.startswith("Spark")):
            anew = results.recomputed.get((largest, peer, view))
            if push is not None and anew is not None:
                yield f"{view}, {short(largest)}: push of 10k / {peer}", push.cpu / anew.cpu, BAR_SPARK
        if push is not None and first is not None:
            yield f"{view}: push of 10k, {short(largest)} / {short(smallest)}", push.cpu / first.cpu, BAR_GROWTH
    if results.jobs is not None:
        yield "joins in one job / a job each", results.jobs[0].cpu / results.jobs[1].cpu, BAR_JOBS
    if results.writes:
        yield "bytes of runs, merges and bases / bytes of changes", results.writes["state"], BAR_WRITES


def _bars(results: Results) -> Iterator[str]:
    yield ""
    for name, found, bar in bars(results):
        yield f"{'ok  ' if found <= bar else 'MISS'} {name}: {found:.2f}, at most {bar:.2f}"


def plot(results: Results, file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, all_axes = pyplot.subplots(1, len(results.views), figsize=(6 * len(results.views), 4.5), squeeze=False)
    for axes, view in zip(all_axes[0], results.views, strict=True):
        for delta in results.deltas:
            points = [
                (n, results.pushes[n, delta, view].cpu) for n in results.sizes if (n, delta, view) in results.pushes
            ]
            axes.loglog(*zip(*points, strict=True), marker="o", label=f"{ENGINE} of {short(delta)} rows")
        for peer in results.peers:
            points = [
                (n, results.recomputed[n, peer, view].cpu)
                for n in results.sizes
                if (n, peer, view) in results.recomputed
            ]
            if points:
                axes.loglog(*zip(*points, strict=True), marker="s", linestyle="--", label=peer)
        axes.set(xlabel="rows of tweets", ylabel="processor seconds", title=view)
        axes.grid(alpha=0.3, which="both")
        axes.legend(fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
