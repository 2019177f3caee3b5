"""The contracts benchmark as figures, each beside the paper's numbers where it gives any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contracts_run import Seen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[tuple[str, Seen]]

PAPER_RATES = {"100": 0.0, "1000": 0.0, "6000": 3.0}
PAPER_FRESHNESS = {"10": 4.0, "20": 1.0, "30": 2.0, "40": 1.0, "50": 0.0, "60": 0.0, "mix": 0.0}
"""Episodes per sharing and hour."""


def plot(seen: Mapping[str, Rows], folder: Path) -> Iterator[Path]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    drawings: dict[str, Callable[[Axes, Axes, Rows], None]] = {
        "rate": _episodes(PAPER_RATES, "tweets/s"),
        "freshness": _episodes(PAPER_FRESHNESS, "freshness, s"),
        "sharing": _gains,
        "step": _lags,
        "count": _rates,
    }
    for name, draw in drawings.items():
        if seen.get(name):
            figure, (paper, ours) = pyplot.subplots(1, 2, figsize=(11, 4))
            draw(paper, ours, seen[name])
            paper.set_title("paper, 6 machines (numbers of its text)")
            ours.set_title("this machine")
            figure.tight_layout()
            file = folder / f"contracts_{name}.png"
            figure.savefig(file, dpi=110)
            pyplot.close(figure)
            yield file


def per_hour(seen: Seen) -> float:
    """Episodes per contract and hour."""
    hours = (seen.run.seconds - seen.run.settle_s) / 3600
    return seen.episodes / max(seen.admitted, 1) / hours


def _episodes(numbers: Mapping[str, float], unit: str) -> Callable[[Axes, Axes, Rows], None]:
    def draw(paper: Axes, ours: Axes, rows: Rows) -> None:
        paper.bar(list(numbers), list(numbers.values()))
        ours.bar([name for name, _ in rows], [per_hour(seen) for _, seen in rows])
        for axis in (paper, ours):
            axis.set(xlabel=unit, ylabel="episodes per contract and hour")

    return draw


def _gains(paper: Axes, ours: Axes, rows: Rows) -> None:
    paper.text(0.5, 0.5, "S7-S10 and S23 gain most\n(no numbers)", ha="center")
    paper.set(xticks=[], yticks=[])
    runs = dict(rows)
    together, alone = runs["together"], runs["alone"]
    names = [name for name in together.promised if alone.moved_for(name)]
    ours.bar(names, [together.moved_for(name) / alone.moved_for(name) for name in names])
    ours.tick_params(axis="x", labelrotation=90, labelsize=7)
    ours.set_ylabel("rows moved, together of alone")


def _lags(paper: Axes, ours: Axes, rows: Rows) -> None:
    paper.axhline(50, color="grey", label="promise")
    paper.axhline(40, color="C0", label="never above")
    paper.set(ylabel="lag, s", ylim=(0, 60), xticks=[])
    paper.legend()
    _, seen = rows[-1]
    for name in sorted(seen.promised)[:4]:
        ours.plot([at for at, _ in seen.lags], [lags.get(name, 0.0) for _, lags in seen.lags], label=name)
    ours.set(xlabel="seconds", ylabel="lag, s")
    ours.legend()


def _rates(paper: Axes, ours: Axes, rows: Rows) -> None:
    paper.plot([20, 50], [8000, 2000], marker="o")
    best: dict[int, float] = {}
    for _, seen in rows:
        kept = seen.run.live.tweets_per_s if seen.kept_up and not seen.refused else 0.0
        best[seen.run.live.contracts] = max(best.get(seen.run.live.contracts, 0.0), kept)
    ours.plot(list(best), list(best.values()), marker="o")
    for axis in (paper, ours):
        axis.set(xlabel="contracts", ylabel="largest rate, tweets/s", ylim=(0, None))
