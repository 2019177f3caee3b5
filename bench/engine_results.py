"""What the engine benchmark measures, as text and as a figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.cpu import Seconds
from bench.engine_aggregates import CHANGED as AGGREGATED
from bench.engine_aggregates import AggregateCost
from bench.engine_ours import Kept
from bench.engine_over import CHANGED as WINDOWED
from bench.engine_over import WindowCost
from bench.engine_small import SmallViews
from bench.engine_tops import CHANGED, LARGE, NEW, SMALL, TopResults

ON_SPARK, LOCAL = "Headrace on Spark", "Headrace, --engine local"
BAR_JOBS, BAR_TOPS, BAR_LARGE_GROUPS = 0.3, 1.0, 1.5


@dataclass(slots=True)
class Results:
    """`kept` by rows and engine, `others` by rows and name; a name without seconds is not installed here."""

    changed: int
    kept: dict[tuple[int, str], Kept] = field(default_factory=dict)
    others: dict[tuple[int, str], Seconds | None] = field(default_factory=dict)
    one_row: dict[str, Seconds] = field(default_factory=dict)
    small: SmallViews | None = None
    jobs: tuple[Seconds, Seconds] | None = None
    """Many joins as one job, and as a job each."""
    tops: TopResults = field(default_factory=TopResults)
    aggregates: tuple[AggregateCost, ...] = ()
    windows: tuple[WindowCost, ...] = ()

    @property
    def sizes(self) -> list[int]:
        return sorted({rows for rows, _ in self.kept})


def short(rows: int) -> str:
    return f"{rows / 1e6:g}M" if rows >= 100_000 else f"{rows / 1e3:g}k"


def text(results: Results) -> str:
    parts = [*(line for rows in results.sizes for line in _size(results, rows)), *_fixed(results)]
    return "\n".join(
        [
            *parts,
            *_small(results),
            *_jobs(results),
            *_tops(results),
            *_aggregates(results),
            *_windows(results),
            *_bars(results),
        ]
    )


def _size(results: Results, rows: int) -> Iterator[str]:
    ours = {name: kept for (size, name), kept in results.kept.items() if size == rows}
    totals = {name: kept.total_s for name, kept in ours.items()}
    yield ""
    yield f"{short(rows)} tweets: cpu s of all processes to bring both views to {short(results.changed)} changed rows"
    heads = " ".join(f"{'of ' + _tag(name):>9}" for name in ours)
    yield f"{'':34} {'push':>7} {'least..largest':>15} {'upkeep':>7} {'total':>7} {heads}"
    for name, kept in ours.items():
        upkeep, total = f"{kept.upkeep_s:7.3f}", f"{kept.total_s:7.3f}"
        ratios = _ratios(kept.total_s, totals)
        yield f"{name:34} {kept.push.mean_cpu:7.3f} {kept.push.spread:>15} {upkeep} {total} {ratios}"
    for (size, name), found in results.others.items():
        if size == rows and found is None:
            yield f"{name:34} not installed here"
        elif size == rows and found is not None:
            yield (
                f"{name:34} {'':7} {found.spread:>15} {'':7} {found.mean_cpu:7.3f} {_ratios(found.mean_cpu, totals)}"
            )
    for name, kept in ours.items():
        changes, runs, bases = (kept.written.get(kind, 0) for kind in ("change", "run", "base"))
        each = f"indexes {runs / changes:.1f}, bases {bases / changes:.1f}" if changes else "nothing"
        pushes = len(kept.push.cpus)
        yield (
            f"  {_tag(name)}: {pushes} pushes, {kept.upkeep_steps} jobs of upkeep; bytes written for each byte of"
            f" changes: {each}; loaded in {kept.load[1]:.1f} cpu s"
        )


def _ratios(seconds: float, totals: dict[str, float]) -> str:
    return " ".join(f"{seconds / total:8.2f}x" for total in totals.values())


def _tag(name: str) -> str:
    return {ON_SPARK: "Spark", LOCAL: "local"}[name]


def _fixed(results: Results) -> Iterator[str]:
    if results.one_row:
        yield ""
        yield "the fixed cost of a push: one changed row, both views, cpu ms of all processes"
    for name, found in results.one_row.items():
        least, largest = 1000 * min(found.cpus), 1000 * max(found.cpus)
        yield f"{name:34} {1000 * found.cpu:7.0f} {f'{least:.0f}..{largest:.0f}':>15}"


def _small(results: Results) -> Iterator[str]:
    small = results.small
    if small is None:
        return
    yield ""
    yield (
        f"25 joins of small relations, {small.batch_rows} changed rows every {small.batch_s:g} s: cpu s for all views,"
        " and cores"
    )
    yield f"{'':34} {'push':>7} {'least..largest':>15} {'upkeep':>7} {'total':>7} {'cores':>7} {'of REFRESH':>10}"
    for name, (push, upkeep_s) in small.pushes.items():
        total = push.mean_cpu + upkeep_s
        yield (
            f"{name:34} {push.mean_cpu:7.3f} {push.spread:>15} {upkeep_s:7.3f} {total:7.3f}"
            f" {total / small.batch_s:7.3f} {total / small.refresh.mean_cpu:9.2f}x"
        )
    refresh = small.refresh
    yield (
        f"{'PostgreSQL, REFRESH':34} {'':7} {refresh.spread:>15} {'':7} {refresh.mean_cpu:7.3f}"
        f" {refresh.mean_cpu / small.batch_s:7.3f} {1:9.2f}x"
    )


def _jobs(results: Results) -> Iterator[str]:
    if results.jobs is not None:
        one, many = results.jobs
        yield ""
        yield f"thirty joins due together: one job {one.cpu:.2f} cpu s ({one.spread}), a job each {many.cpu:.2f}"


def _tops(results: Results) -> Iterator[str]:
    if results.tops.pushes:
        yield ""
        yield f"first 10 rows of 100k groups, a push of {short(CHANGED)} ({LOCAL}) and DuckDB anew in memory: cpu s"
    for rows, push in results.tops.pushes.items():
        anew, ratio = results.tops.anew[rows], push.cpu / results.tops.anew[rows].cpu
        ours, theirs = f"{push.cpu:.2f} ({push.spread})", f"{anew.cpu:.2f} ({anew.spread})"
        yield f"{short(rows):>6} push {ours}, DuckDB {theirs}, ratio {ratio:.2f}"
    for size, push in results.tops.new_rows.items():
        yield f"push of {NEW} new rows into 20 groups of {size:6}: {push.mean_cpu:.3f}"


def _aggregates(results: Results) -> Iterator[str]:
    if results.aggregates:
        yield ""
        yield f"aggregates, a push of {AGGREGATED} changed rows ({LOCAL}) and DuckDB anew in memory: cpu s"
        yield f"{'':12} {'rows':>6} {'per group':>9} {'push':>7} {'DuckDB':>7} {'ratio':>6}"
    for one in results.aggregates:
        push, anew = one.push.mean_cpu, one.anew.mean_cpu
        sizes = f"{short(one.rows):>6} {one.rows // one.groups:9}"
        yield f"{one.name:12} {sizes} {push:7.3f} {anew:7.3f} {push / anew:6.2f}"


def _windows(results: Results) -> Iterator[str]:
    if results.windows:
        yield ""
        yield f"window functions, a push of {WINDOWED} rows ({LOCAL}) and DuckDB anew in memory: cpu s"
        yield f"{'':12} {'partition':>9} {'at its end':>10} {'anywhere':>9} {'DuckDB':>7}"
    for one in results.windows:
        last, anywhere, anew = one.last.mean_cpu, one.anywhere.mean_cpu, one.anew.mean_cpu
        yield f"{one.name:12} {one.size:9} {last:10.3f} {anywhere:9.3f} {anew:7.3f}"


def bars(results: Results) -> Iterator[tuple[str, float, float]]:
    """What is asked, what was measured, and the most that it may be."""
    if results.jobs is not None:
        yield "joins in one job / a job each", results.jobs[0].cpu / results.jobs[1].cpu, BAR_JOBS
    if results.tops.pushes:
        rows = max(results.tops.pushes)
        push, anew = results.tops.pushes[rows], results.tops.anew[rows]
        yield f"first rows, {short(rows)}: push of {short(CHANGED)} / DuckDB", push.cpu / anew.cpu, BAR_TOPS
        small, large = (results.tops.new_rows[size].mean_cpu for size in (SMALL, LARGE))
        yield f"first rows: new rows, groups of {LARGE} / of {SMALL}", large / small, BAR_LARGE_GROUPS


def _bars(results: Results) -> Iterator[str]:
    for name, found, bar in bars(results):
        yield f"{'ok  ' if found <= bar else 'MISS'} {name}: {found:.2f}, at most {bar:.2f}"


def plot(results: Results, file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5))
    lines: dict[str, list[tuple[int, float]]] = {}
    for (rows, name), kept in results.kept.items():
        lines.setdefault(name, []).append((rows, kept.total_s))
    for (rows, name), found in results.others.items():
        if found is not None:
            lines.setdefault(name, []).append((rows, found.mean_cpu))
    for name, points in lines.items():
        style = "-" if name in (ON_SPARK, LOCAL) else "--"
        axes.loglog(*zip(*points, strict=True), marker="o", linestyle=style, label=name)
    axes.set(xlabel="rows of tweets", ylabel=f"processor seconds, {short(results.changed)} changed rows, both views")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
