"""The feeds benchmark as figures, each beside the paper's numbers.

The paper's figures are pictures; what stands here of them are the numbers that its text gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.feeds_results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@contextmanager
def figure_beside_paper(file: Path, title: str) -> Iterator[tuple[Axes, Axes]]:
    """Two axes to draw on, the paper's and ours; the file is written afterwards."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (paper, ours) = pyplot.subplots(1, 2, figsize=(11, 4))
    yield paper, ours
    paper.set_title("paper (numbers of its text)")
    ours.set_title(title)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def plot(results: Results, folder: Path) -> Iterator[Path]:
    drawings: dict[str, Callable[[Axes, Axes, Results], None]] = {
        "ratio": _ratio, "skew": _skew, "threshold": _threshold, "latency": _latency, "flash": _flash,
    }  # fmt: skip
    for name, draw in drawings.items():
        file = folder / f"feeds_{name}.png"
        with figure_beside_paper(file, "model, Table 2 rebuilt") as (paper, ours):
            draw(paper, ours, results)
        yield file


def _ratio(paper: Axes, ours: Axes, results: Results) -> None:
    paper.bar(["high event rate\npush / pull", "high query rate\npull / push"], [1.47, 1.23], color=["C1", "C2"])
    paper.axhline(1, color="grey", linewidth=0.8)
    paper.set_ylabel("system load, ratio")
    at = [float(row.at) for row in results.ratios]
    for number, (name, colour) in enumerate((("hybrid", "C0"), ("all ahead", "C1"), ("all on read", "C2"))):
        ours.plot(at, [row.costs[number] / 1e6 for row in results.ratios], marker="o", color=colour, label=name)
    ours.set(xscale="log", yscale="log", xlabel="queries per event", ylabel="cost, million pulls/h")
    ours.legend()


def _skew(paper: Axes, ours: Axes, results: Results) -> None:
    paper.bar(["moderate", "higher"], [14, 30])
    names = [row.at for row in results.skews]
    ours.bar(names, [100 * row.saving.mean for row in results.skews],
             yerr=[100 * row.saving.deviation for row in results.skews], capsize=4)  # fmt: skip
    for axis in (paper, ours):
        axis.set(xlabel="skew of rates", ylabel="hybrid saves, % of the better extreme", ylim=(0, 100))


def _threshold(paper: Axes, ours: Axes, results: Results) -> None:
    paper.axvline(3, color="C0", label="least cost")
    paper.annotate("latency falls", (0.4, 0.5), (2.6, 0.5), arrowprops={"arrowstyle": "->"})
    paper.set(xlabel="push threshold", xlim=(0, 10), yticks=[])
    paper.legend()
    at = [row.threshold for row in results.thresholds]
    ours.plot(at, [row.cost.mean for row in results.thresholds], marker="o", label="cost / least cost")
    ours.plot(at, [row.mean_pulls.mean for row in results.thresholds], marker="s", label="pulls per query")
    ours.plot(at, [row.all_stored.mean for row in results.thresholds], marker="^", label="queries that pull nothing")
    ours.set(xlabel="push threshold", ylim=(0, None))
    ours.legend()


def _latency(paper: Axes, ours: Axes, results: Results) -> None:
    paper.text(0.5, 0.5, "per pair is quicker than per consumer\nat the same cost (figure 8, no numbers)", ha="center")
    paper.set(xticks=[], yticks=[])
    names = [row.target.replace(" of queries ", " of queries\n") for row in results.latencies]
    for shift, (label, values) in enumerate(
        {
            "pair by pair": [row.per_pair for row in results.latencies],
            "whole consumers": [row.per_consumer for row in results.latencies],
            "least": [row.least for row in results.latencies],
        }.items()
    ):
        places = [number + 0.27 * shift for number in range(len(names))]
        ours.bar(places, [100 * value.mean for value in values], width=0.25, label=label)
    ours.set_xticks([number + 0.27 for number in range(len(names))], names, fontsize=6)
    ours.set_ylabel("extra cost, %")
    ours.legend()


def _flash(paper: Axes, ours: Axes, results: Results) -> None:
    phases = ["before", "flash", "adapted"]
    paper.text(0.5, 0.5, "a jump, then nearly back to before\n(figure 10, no numbers)", ha="center")
    paper.set(xticks=[], yticks=[])
    for row in results.flashes:
        values = [100, 100 * (1 + row.before_adapting.mean), 100 * (1 + row.after_adapting.mean)]
        ours.plot(phases, values, marker="o", label=f"rate x{row.faster:g}")
    ours.set_ylabel("cost, % of before")
    ours.legend()
