"""The contracts benchmark as figures, each with the paper's numbers where it gives any.

The paper's are of 6 machines, ours of one: shapes compare, sizes do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contracts_peers import Peer
from bench.contracts_run import Seen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[tuple[str, Seen]]
Drawing = Callable[[Sequence["Axes"], Rows], None]

PAPER_RATES = {100.0: 0.0, 1000.0: 0.0, 6000.0: 3.0}
PAPER_FRESHNESS = {"10": 4.0, "20": 1.0, "30": 2.0, "40": 1.0, "50": 0.0, "60": 0.0, "mixed": 0.0}
"""Episodes per sharing and hour."""
PAPER_COSTS = {1000.0: 6.0, 6000.0: 25.0}
"""Dollars per sharing and hour."""
PAPER_COUNTS = {20.0: 8000.0, 50.0: 2000.0}
"""Tweets per second: the ends of an axis; the curve between them cannot be read."""
PAPER_GAINS = ("S7", "S8", "S9", "S10", "S23")
PAPER_STEP = 0.8
"""Of its promise; the lag of S4 was never larger."""


def plot(seen: Mapping[str, Rows], peers: Sequence[Peer], folder: Path) -> Iterator[Path]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    drawings: dict[str, tuple[int, Drawing]] = {
        "rate": (3, _by_rate),
        "freshness": (2, _by_freshness),
        "sharing": (1, _gains),
        "step": (1, _step),
        "count": (1, _counts),
        "peers": (1, lambda axes, rows: _peers(axes, rows, peers)),
    }
    for name, (panels, draw) in drawings.items():
        if seen.get(name):
            figure, axes = pyplot.subplots(
                1, panels, figsize=(5 * panels + 2, 4.2), squeeze=False, layout="constrained"
            )
            draw(list(axes[0]), seen[name])
            file = folder / f"contracts_{name}.png"
            figure.savefig(file, dpi=110)
            pyplot.close(figure)
            yield file


def per_hour(seen: Seen) -> float:
    """Episodes per contract and hour."""
    hours = (seen.run.seconds - seen.run.settle_s) / 3600
    return seen.episodes / max(seen.admitted, 1) / hours


def cost_each(seen: Seen) -> float:
    """Dollars per contract and hour."""
    return seen.cost_h / max(seen.admitted, 1)


def _by_rate(axes: Sequence[Axes], rows: Rows) -> None:
    episodes, costs, lags = axes
    rates = [seen.run.live.tweets_per_s for _, seen in rows]
    episodes.plot(rates, [per_hour(seen) for _, seen in rows], "o-", label="this machine")
    episodes.plot(*_points(PAPER_RATES), "k*", markersize=11, label="paper, 6 machines")
    episodes.set(xscale="log", ylabel="episodes per contract and hour", title="broken promises (figure 6)")
    costs.plot(rates, [cost_each(seen) for _, seen in rows], "o-", label="this machine")
    costs.plot(*_points(PAPER_COSTS), "k*", markersize=11, label="paper, 6 machines")
    costs.set(xscale="log", yscale="log", ylabel="$ per contract and hour", title="cost (figure 8)")
    for axis in (episodes, costs):
        axis.set_xlabel("tweets/s")
        _finish(axis)
    _around_pushes(lags, rows[-1])


def _around_pushes(axis: Axes, row: tuple[str, Seen]) -> None:
    """The lag of S1, which pushes bring down."""
    name, seen = row
    axis.plot([at for at, _ in seen.lags], [lags.get("S1", 0.0) for _, lags in seen.lags], label=f"S1 at {name}")
    axis.axhline(seen.promised["S1"], color="grey", linestyle="--", label="promise; paper: just below before a push")
    axis.axhline(10, color="black", linestyle=":", label="paper: below after a push")
    axis.set(xlabel="seconds", ylabel="lag, s", title="lag before and after pushes")
    _finish(axis)


def _by_freshness(axes: Sequence[Axes], rows: Rows) -> None:
    episodes, costs = axes
    ours = {name: per_hour(seen) for name, seen in rows}
    names = [*sorted({*ours, *PAPER_FRESHNESS} - {"mixed"}, key=float), "mixed"]
    for shift, label, numbers in ((-0.2, "this machine", ours), (0.2, "paper, 6 machines", PAPER_FRESHNESS)):
        known = [(number + shift, numbers[name]) for number, name in enumerate(names) if name in numbers]
        episodes.bar([x for x, _ in known], [height for _, height in known], width=0.4, label=label)
        for x, height in known:
            episodes.annotate(f"{height:.3g}", (x, height), ha="center", va="bottom", fontsize=8)
    episodes.set(xticks=range(len(names)), xticklabels=names, xlabel="freshness, s")
    episodes.set(ylabel="episodes per contract and hour", title="broken promises (figure 10)")
    costs.bar([name for name, _ in rows], [cost_each(seen) for _, seen in rows])
    costs.set(xlabel="freshness, s", ylabel="$ per contract and hour", title="cost on this machine")
    _finish(episodes)
    _finish(costs, legend=False)


def _gains(axes: Sequence[Axes], rows: Rows) -> None:
    runs = dict(rows)
    together, alone = runs["together"], runs["alone"]
    tweets = max(together.tweets, 1) / max(alone.tweets, 1)
    names = [name for name in together.promised if alone.moved_for(name)]
    gains = [together.moved_for(name) / alone.moved_for(name) / tweets for name in names]
    for label, chosen, color in (("", False, "C0"), ("those that gain most in the paper", True, "C1")):
        found = [(name, gain) for name, gain in zip(names, gains, strict=True) if (name in PAPER_GAINS) == chosen]
        if found:
            axes[0].bar([names.index(name) for name, _ in found], [gain for _, gain in found], color=color, label=label)
    axes[0].axhline(1, color="grey", linestyle="--")
    axes[0].set(xticks=range(len(names)), xticklabels=names, ylabel="rows moved for a tweet, together of alone")
    axes[0].tick_params(axis="x", labelrotation=90, labelsize=8)
    _finish(axes[0], legend=any(name in PAPER_GAINS for name in names))


def _step(axes: Sequence[Axes], rows: Rows) -> None:
    """Lags as shares of their promises, S4's being the paper's figure, and the load behind them."""
    _, seen = rows[-1]
    times = [at for at, _ in seen.lags]
    shares = [{name: 100 * lag / seen.promised[name] for name, lag in lags.items()} for _, lags in seen.lags]
    axes[0].plot(times, [max(one.values(), default=0.0) for one in shares], color="C2", label="the latest contract")
    axes[0].plot(times, [one.get("S4", 0.0) for one in shares], color="C0", label="S4")
    axes[0].axhline(100, color="grey", linestyle="--", label="promise")
    axes[0].axhline(100 * PAPER_STEP, color="black", linestyle=":", label="paper, S4: never above")
    load = axes[0].twinx()
    rate = seen.run.rate or (lambda _: seen.run.live.tweets_per_s)
    load.step(times, [rate(at) for at in times], color="C1", where="post")
    load.set(ylabel="tweets/s (orange)", ylim=(0, None))
    axes[0].set(xlabel="seconds", ylabel="lag, % of the promise", title="a load that jumps (figure 14)")
    _finish(axes[0])
    axes[0].set_ylim(0, 1.25 * max(100.0, axes[0].get_ylim()[1]))
    axes[0].legend(loc="upper left", fontsize=8, ncols=2)


def _counts(axes: Sequence[Axes], rows: Rows) -> None:
    best: dict[float, float] = {}
    for _, seen in rows:
        kept = seen.run.live.tweets_per_s if seen.kept_up and not seen.refused else 0.0
        best[seen.run.live.contracts] = max(best.get(seen.run.live.contracts, 0.0), kept)
    axes[0].plot(*_points(best), "o-", label="this machine")
    axes[0].plot(*_points(PAPER_COUNTS), "k*", markersize=11, label="paper, 6 machines (ends of its axis)")
    axes[0].set(xlabel="contracts", ylabel="largest rate that is kept, tweets/s", title="figure 11")
    axes[0].set_yscale("symlog", linthresh=10)
    _finish(axes[0])


def _peers(axes: Sequence[Axes], rows: Rows, peers: Sequence[Peer]) -> None:
    _, ours = rows[-1]
    period_s = min(ours.promised.values())
    used = {"pushes": ours.pushing_cpu_s / ours.run.seconds * period_s} | {peer.name: peer.cpu_s for peer in peers}
    bars = axes[0].barh(list(used), list(used.values()))
    axes[0].bar_label(bars, fmt="%.1f", padding=3)
    axes[0].invert_yaxis()
    axes[0].margins(x=0.12)
    axes[0].set(xlabel=f"processor s to keep all views for {period_s:g} s")
    axes[0].grid(alpha=0.3, axis="x")


def _points(numbers: Mapping[float, float]) -> tuple[list[float], list[float]]:
    return list(numbers), list(numbers.values())


def _finish(axis: Axes, legend: bool = True) -> None:
    axis.grid(alpha=0.3)
    if axis.get_yscale() == "linear":
        axis.set_ylim(bottom=0)
    if legend:
        axis.legend(fontsize=8)
