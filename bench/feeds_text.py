"""The feeds benchmark as small tables, beside what the paper reports."""

from __future__ import annotations

from collections.abc import Iterator

from bench.feeds_results import Results, Spread


def text(results: Results) -> str:
    parts = (_ratios(results), _skews(results), _thresholds(results), _latencies(results), _rest(results))
    return "\n".join(line for part in parts for line in part)


def percent(spread: Spread, digits: int = 1) -> str:
    return f"{100 * spread.mean:.{digits}f} +- {100 * spread.deviation:.{digits}f} %"


def plain(spread: Spread) -> str:
    return f"{spread.mean:.2f} +- {spread.deviation:.2f}"


def _ratios(results: Results) -> Iterator[str]:
    yield "\nquery:event ratio      push/pull     hybrid saves    pairs pushed      (figure 4)"
    for row in results.ratios:
        cells = plain(row.push_over_pull), percent(row.saving), percent(row.stored_ahead)
        yield f"{row.at:>17} " + " ".join(f"{cell:>15}" for cell in cells)
    yield "paper: push-all 1.47 of pull-all at its lowest ratio, pull-all 1.23 of push-all at its highest, even at 16;"
    yield "  hybrid below both everywhere. Model: even at about 8.8 (no base load, rates independent of fan-out)"


def _skews(results: Results) -> Iterator[str]:
    yield "\nskew at 16:1           push/pull     hybrid saves    pairs pushed      (figure 5)"
    for row in results.skews:
        cells = plain(row.push_over_pull), percent(row.saving), percent(row.stored_ahead)
        yield f"{row.at:>17} " + " ".join(f"{cell:>15}" for cell in cells)
    yield "paper: hybrid saves 14 % at moderate and 30 % at higher skew"


def _thresholds(results: Results) -> Iterator[str]:
    yield "\nthreshold at 16:1           cost      pulls/query   95th percentile   pull nothing   (figures 6, 7)"
    for row in results.thresholds:
        cells = plain(row.cost), plain(row.mean_pulls), plain(row.p95_pulls), percent(row.all_stored)
        yield f"{row.threshold:>17g} " + " ".join(f"{cell:>15}" for cell in cells)
    yield "paper: cost least at 3, latency falls with the threshold. Cost here is relative to the least"


def _latencies(results: Results) -> Iterator[str]:
    yield "\nextra cost at 8:1                 pair by pair  whole consumers           least   (figure 8)"
    for row in results.latencies:
        cells = percent(row.per_pair), percent(row.per_consumer), percent(row.least)
        yield f"{row.target:>29} " + " ".join(f"{cell:>15}" for cell in cells)
    yield "paper: pair by pair is better for mean and 95th percentile of real latency. Here consumers are better"
    yield "  where queries must pull nothing: a pair moved for a consumer that still pulls serves nobody"


def _rest(results: Results) -> Iterator[str]:
    yield "\nfan-out at 4:1, uniform graph: cost (figure 9; paper: grows with fan-out)"
    yield "  " + ", ".join(f"{row.fan_out:g}: {row.cost.mean:,.0f}" for row in results.fan_outs)
    yield "\nflash of 0.1 % of producers, 85 followers more each (figure 10; paper: nearly back to before)"
    for row in results.flashes:
        cells = f"{percent(row.before_adapting)} with old decisions, {percent(row.after_adapting)} after adapting"
        yield f"  rate x{row.faster:g}: {cells}; {row.flipped.mean:,.0f} pairs flip"
