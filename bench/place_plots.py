"""The placement benchmark as figures, the paper's numbers beside ours.

The paper gives its figures' values in the text only for the ends of figure 10 and one point of figure 11.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from bench.place_results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_TIME = (2 * 186_000, 3.2)
PAPER_CUTS = (2 * 186_000, 4.75 * 3600)


def plot(results: Results, folder: Path) -> Iterator[Path]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in (("place_factor", _factors), ("place_scale", _scale), ("place_memory", _memory)):
        figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
        draw(axes, results)
        file = folder / f"{name}.png"
        figure.savefig(file, dpi=120)
        pyplot.close(figure)
        yield file


def _factors(axes: Axes, results: Results) -> None:
    for workload, found in groupby(results.factors, key=lambda factor: factor.workload):
        points = sorted((factor.down_per_up, factor.factor) for factor in found)
        axes.plot(*zip(*points, strict=True), marker="o", label=workload)
    paper = sorted({(one.down_per_up, one.paper) for one in results.factors if one.paper is not None})
    axes.plot(*zip(*paper, strict=True), "k*", markersize=11, linestyle="none", label="RACE, figure 10 (ends)")
    axes.set(xlabel="download price / upload price", ylabel="all in the cloud / best placement")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()


def _scale(axes: Axes, results: Results) -> None:
    points = sorted((scale.ends, scale.seconds) for scale in results.scales)
    axes.loglog(*zip(*points, strict=True), marker="o", label="thresholds")
    for baseline in results.baselines[1:]:
        ends = 2 * results.commands[0].pairs if results.commands else PAPER_TIME[0]
        how = " (extrapolated)" if baseline.extrapolated else ""
        axes.loglog([ends], [baseline.seconds], marker="s", linestyle="none", label=baseline.name + how)
    axes.loglog(*PAPER_TIME, "k*", markersize=11, linestyle="none", label="RACE, figure 11")
    axes.loglog(*PAPER_CUTS, "kx", markersize=9, linestyle="none", label="RACE's minimum cuts")
    axes.set(xlabel="view ends (directed edges)", ylabel="seconds to decide")
    axes.grid(alpha=0.3, which="both")
    axes.legend()


def _memory(axes: Axes, results: Results) -> None:
    points = sorted((scale.ends, scale.ends * scale.bytes_per_end / 1e9) for scale in results.scales)
    axes.loglog(*zip(*points, strict=True), marker="o", label="peak of the process, its input included")
    axes.loglog(
        *zip(*((ends, ends * 80 / 1e9) for ends, _ in points), strict=True), "k:", label="80 bytes per view end"
    )
    axes.set(xlabel="view ends (directed edges)", ylabel="GB")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
