"""What a benchmark of running feeds found: lines to print, figures beside the paper's numbers, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.feeds_plots import figure_beside_paper

Points = Sequence[tuple[float | str, float]]


@dataclass(frozen=True, slots=True)
class Figure:
    """`paper` has the numbers of the paper's text, or says in words what it shows. `is_log` is for the x axis."""

    name: str
    x: str
    y: str
    ours: Mapping[str, Points]
    paper: Mapping[str, Points] | str
    is_log: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """`claims` are told as met or not; only what is `wrong` makes a benchmark fail: a busy machine is no mistake."""

    lines: tuple[str, ...]
    claims: tuple[tuple[str, bool], ...] = ()
    figures: tuple[Figure, ...] = ()
    wrong: tuple[str, ...] = ()

    def tell(self) -> Iterator[str]:
        yield from self.lines
        for claim, is_met in self.claims:
            yield f"{'met' if is_met else 'NOT met'}: {claim}"
        for line in self.wrong:
            yield f"wrong: {line}"


def draw_figures(figures: Sequence[Figure], folder: Path) -> Iterator[Path]:
    for figure in figures:
        with figure_beside_paper(folder / f"feeds_live_{figure.name}.png", "running service") as (paper, ours):
            for axis, shown in ((paper, figure.paper), (ours, figure.ours)):
                if isinstance(shown, str):
                    axis.text(0.5, 0.5, shown, ha="center", va="center", wrap=True)
                    axis.set(xticks=[], yticks=[])
                    continue
                for label, points in shown.items():
                    axis.plot([x for x, _ in points], [y for _, y in points], marker="o", label=label)
                axis.set(xlabel=figure.x, ylabel=figure.y, ylim=(0, None))
                if figure.is_log and axis is ours:
                    axis.set_xscale("log")
                axis.legend()
        yield folder / f"feeds_live_{figure.name}.png"
