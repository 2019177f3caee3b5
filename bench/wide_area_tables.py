"""What runs on real links have shown, as tables within 80 columns, beside what Sana's paper reports."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Ends = tuple[str, str]
SMALL = 0.02
"""Links that carry less than this share of all bytes are told together."""

PAPER = (
    "paper (14 sites, 6000-8000 tweets/s), Sana against others:",
    "  Fig. 7   throughput +44 % of Default, +16 % of NET, +26 % of MQO;",
    "           bandwidth -33 % of Default and of NET, more than MQO",
    "  Fig. 8   of Default, per query: NET up to +48 % throughput, -40 % latency;",
    "           MQO up to -60 % bandwidth (not Q1, Q7); Sana up to +87 %, -68 %;",
    "           Sana of NET +21 % throughput in the mean over queries",
    "  Fig. 9   throughput +78 % of No-Share, +37 % of Strict-Share; bandwidth of",
    "           No-Share +41 % of Strict-Share, +65 % of Sana",
    "  Fig. 10  most throughput and least bandwidth at every rate (no numbers)",
    "  Fig. 11  of Max-Share: +35 % throughput, -23 % latency, +20 % bandwidth",
    "  Fig. 12  bandwidth up to -60 % of sharing nothing, where links are wide",
)
BARS = (("net", "sana", 1.16, 1.21, 0.67), ("max-share", "sana", 1.35, None, None), ("sana", "ours", 1.0, None, 1.0))
"""(base, mode, least total throughput, least mean over queries, most bytes)."""


@dataclass(frozen=True, slots=True)
class RealRun:
    """Of one mode on one network: bytes/s by link, records/s, mean latency and longest lag of queries."""

    sent: Mapping[Ends, float]
    modelled: Mapping[Ends, float]
    throughput: Mapping[str, float]
    predicted: Mapping[str, float]
    latency_s: Mapping[str, float]
    interrupted: tuple[str, ...]
    refused: tuple[str, ...]
    moves: int
    answered: int
    """Contracts of which `status` knew how they were."""

    @property
    def total(self) -> float:
        return sum(self.throughput.values())

    @property
    def bytes_s(self) -> float:
        return sum(self.sent.values())

    @property
    def latency(self) -> float:
        """The middle of all queries, in seconds."""
        return statistics.median(self.latency_s.values()) if self.latency_s else float("nan")


def run_lines(network: str, mode: str, run: RealRun) -> Iterator[str]:
    predicted, planned = sum(run.predicted.values()), sum(run.modelled.values())
    yield f"\n{network}, {mode}: latency {run.latency:.1f} s in the middle of {len(run.latency_s)}, {run.moves} moves"
    yield f"  records/s {run.total:8.0f}   model {predicted:8.0f}   {_error(predicted, run.total)}"
    yield f"  kB/s      {run.bytes_s / 1e3:8.1f}   model {planned / 1e3:8.1f}   {_error(planned, run.bytes_s)}"
    yield from _link_lines(run)
    for what, names in (("interrupted", run.interrupted), ("refused", run.refused)):
        if names:
            yield f"  {what}: {', '.join(names)}"[:80]


def _link_lines(run: RealRun) -> Iterator[str]:
    """Bytes of each link by the kernel and by the model; small links together."""
    modelled = run.modelled
    links = sorted({*run.sent, *modelled}, key=lambda ends: (-run.sent.get(ends, 0.0), ends))
    least = SMALL * max(run.bytes_s, sum(modelled.values()))
    large = [ends for ends in links if max(run.sent.get(ends, 0.0), modelled.get(ends, 0.0)) >= least]
    yield "  link                      kernel kB/s   model kB/s   error of the model"
    for ends in large:
        kernel, model = run.sent.get(ends, 0.0), modelled.get(ends, 0.0)
        yield f"  {' to '.join(ends):25} {kernel / 1e3:11.1f} {model / 1e3:12.1f}   {_error(model, kernel)}"
    kernel, model = (sum(of.get(ends, 0.0) for ends in links if ends not in large) for of in (run.sent, modelled))
    yield f"  {f'{len(links) - len(large)} others':25} {kernel / 1e3:11.1f} {model / 1e3:12.1f}"


def _error(model: float, measured: float) -> str:
    return f"{100 * (model / measured - 1):+.0f} %" if measured else "-"


def network_lines(network: str, runs: Mapping[str, RealRun]) -> Iterator[str]:
    for base in (name for name in ("default", "net", "sana", "max-share") if name in runs):
        yield f"\n{network}, ratios to {base} (total, middle and mean over queries, bytes)"
        for mode, run in runs.items():
            each = ratios(run, runs[base])
            total, sent = divide(run.total, runs[base].total), divide(run.bytes_s, runs[base].bytes_s)
            middle, mean = statistics.median(each.values()), statistics.mean(each.values())
            yield f"  {mode:13} {total:6.2f} {middle:6.2f} {mean:6.2f} {sent:6.2f}"
    for base in (name for name in ("default", "net") if name in runs):
        yield from _query_lines(network, base, runs)
    yield from _bar_lines(network, runs)


def _query_lines(network: str, base: str, runs: Mapping[str, RealRun]) -> Iterator[str]:
    """As in Fig. 8; the paper's is relative to Default."""
    modes = [mode for mode in runs if mode != base]
    if modes:
        yield f"\n{network}, throughput of each query to {base}"
        yield "  query " + "".join(f"{mode[:9]:>10}" for mode in modes)
        for name in runs[base].throughput:
            cells = (divide(runs[mode].throughput[name], runs[base].throughput[name]) for mode in modes)
            yield f"  {name:5} " + "".join(f"{cell:10.2f}" for cell in cells)


def _bar_lines(network: str, runs: Mapping[str, RealRun]) -> Iterator[str]:
    """What is asked for, and whether it was reached."""
    for base, mode, total, mean, sent in BARS:
        if base in runs and mode in runs:
            one, other = runs[mode], runs[base]
            found = divide(one.total, other.total), statistics.mean(ratios(one, other).values())
            checks = [
                ("throughput", found[0], total, found[0] >= total),
                ("mean over queries", found[1], mean, mean is None or found[1] >= mean),
            ]
            size = divide(one.bytes_s, other.bytes_s)
            checks.append(("bytes", size, sent, sent is None or size <= sent))
            for what, value, bar, is_met in checks:
                if bar is not None:
                    said = "reached" if is_met else "NOT REACHED"
                    yield f"{network}: {mode} to {base}, {what} {value:.2f} (asked for: {bar}): {said}"


def ratios(run: RealRun, base: RealRun) -> dict[str, float]:
    return {name: divide(run.throughput[name], of) for name, of in base.throughput.items()}


def divide(amount: float, of: float) -> float:
    return amount / of if of else 1.0
