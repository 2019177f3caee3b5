"""The contracts benchmark as small tables, beside what the paper reports."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from bench.contracts_cpu import Worked
from bench.contracts_flink import Flink
from bench.contracts_peers import Peer
from bench.contracts_run import Push, Seen
from bench.workloads.table1 import SHARINGS

SHARING_BAR = 0.65
EQUAL = 0.1
"""Share by which the changes of pushes may differ that count as equal."""
HEAD = (
    f"{'':24} {'tweets/s':>8} {'contracts':>9} {'episodes':>8} {'broken s':>8} {'worst lag':>9} {'$/h each':>9}"
    f" {'rows/tweet':>10} {'cpu ms/tweet':>12}"
)


def row(name: str, seen: Seen) -> str:
    rate = seen.tweets / seen.run.seconds
    tweets = max(seen.tweets, 1)
    refused = f" ({seen.refused} refused)" if seen.refused else ""
    return (
        f"{name:24} {rate:8.0f} {seen.admitted:9} {seen.episodes:8} {seen.broken_s:8.0f} {100 * seen.worst:7.0f} %"
        f" {seen.cost_h / max(seen.admitted, 1):9.5f} {seen.moved / tweets:10.1f}"
        f" {1000 * seen.pushing_cpu_s / tweets:12.2f}{refused}"
    )


def details(seen: Seen) -> Iterable[str]:
    """Lines below the row."""
    if seen.failure:
        yield f"    failed: {seen.failure}"
    yield from _lags(seen)
    parts = ", ".join(f"{part} {s / seen.run.seconds:.2f}" for part, s in sorted(seen.cpu.items()))
    yield f"    cores: {parts}; the machine's load up to {seen.others_load:.0f}"
    parts = ", ".join(f"{part} {mb:.0f}" for part, mb in sorted(seen.memory_mb.items()))
    yield f"    memory, MB: {parts}; loaded in {seen.load_s:.0f} s"
    if seen.unequal is not None:
        yield f"    compared with their queries: {', '.join(seen.unequal) or 'none'} not equal"


def _lags(seen: Seen) -> Iterable[str]:
    """Before and after pushes, and how well the way was predicted."""
    settled = [push for push in seen.pushes if push.at_s >= seen.run.settle_s] or seen.pushes
    if not settled:
        return
    before = [push.before_s / seen.promised[push.contract] for push in settled]
    yield (
        f"    pushes {len(settled)}: lag before {100 * statistics.median(before):.0f} % of the promise (largest"
        f" {100 * max(before):.0f} %), after {statistics.median(push.after_s for push in settled):.1f} s,"
        f" of {statistics.median(push.batch_s for push in settled):.1f} s of changes"
    )
    yield from _predictions(seen, settled)


def _predictions(seen: Seen, pushes: Sequence[Push]) -> Iterable[str]:
    """How long pushes take and how well that was predicted: one by one, and on the whole for each contract."""
    known = [(p.contract, p.predicted_s, p.took_s) for p in pushes if p.predicted_s and p.took_s]
    if not known:
        return
    totals: dict[str, tuple[float, float]] = {}
    for contract, predicted, took in known:
        sums = totals.get(contract, (0.0, 0.0))
        totals[contract] = sums[0] + predicted, sums[1] + took
    single = [abs(predicted / took - 1) for _, predicted, took in known]
    whole = [abs(predicted / took - 1) for predicted, took in totals.values()]
    yield (
        f"    took {statistics.median(took for *_, took in known):.2f} s, critical path as planned"
        f" {statistics.median(seen.critical_s.values()):.2f} s; predicted within {_percent(single, 0.5)} (half of all"
        f" pushes), {_percent(single, 0.9)} (nine of ten);"
    )
    yield f"    all pushes of a contract together within {_percent(whole, 0.9)} (nine of ten contracts)"
    if spread := _deviations_of_equal(pushes):
        yield (
            f"    pushes of a contract with as many changes took within {_percent(spread, 0.5)} (half),"
            f" {_percent(spread, 0.9)} (nine of ten) of their median: what nobody foresees who knows only these"
        )


def _deviations_of_equal(pushes: Sequence[Push]) -> list[float]:
    """By how much pushes deviate from the median of those that are equal, as far as anybody knows before they start:
    of the same contract, with as many seconds of changes. Contracts with fewer than three such pushes say nothing.
    """
    found = list[float]()
    for contract in sorted({push.contract for push in pushes}):
        known = [push for push in pushes if push.contract == contract and push.took_s]
        usual_s = statistics.median(push.batch_s for push in known) if known else 0.0
        equal = [push.took_s for push in known if abs(push.batch_s - usual_s) <= EQUAL * usual_s if push.took_s]
        if len(equal) >= 3:
            found += [abs(statistics.median(equal) / took_s - 1) for took_s in equal]
    return found


def _percent(errors: Sequence[float], share: float) -> str:
    return f"{100 * sorted(errors)[int(share * (len(errors) - 1))]:.0f} %"


def sharing(together: Seen, alone: Seen) -> Iterable[str]:
    tweets = max(together.tweets, 1), max(alone.tweets, 1)
    moved = together.moved / tweets[0], alone.moved / tweets[1]
    used = 1000 * together.pushing_cpu_s / tweets[0], 1000 * alone.pushing_cpu_s / tweets[1]
    ratio = used[0] / max(used[1], 1e-9)
    yield f"\ntogether and alone (`--share none`)   {'together':>9} {'alone':>9} {'ratio':>7}"
    yield f"rows moved for a tweet               {moved[0]:9.1f} {moved[1]:9.1f} {moved[0] / max(moved[1], 1e-9):7.2f}"
    yield f"processor ms of pushing for a tweet  {used[0]:9.2f} {used[1]:9.2f} {ratio:7.2f}"
    if together.admitted >= len(SHARINGS):
        yield f"  the bar is {SHARING_BAR}: {'reached' if ratio <= SHARING_BAR else 'missed'}"
    if alone.admitted < together.admitted:
        yield f"  alone, {together.admitted - alone.admitted} contracts were refused: their work is not in its figures"
    gains = sorted(
        (together.moved_for(name) / tweets[0] / (alone.moved_for(name) / tweets[1]), name)
        for name in together.promised
        if alone.moved_for(name)
    )
    best = ", ".join(f"{name} x {gain:.2f}" for gain, name in gains[:6])
    yield f"  largest gains in rows moved: {best}; in the paper S7-S10, S23"


def peers(found: Sequence[Peer], ours: Seen) -> Iterable[str]:
    """All views anew for each period, next to pushes of the same period."""
    period_s = min(ours.promised.values())
    own = ours.pushing_cpu_s / ours.run.seconds * period_s
    yield f"\nall views anew, every {period_s:g} s {'wall s':>8} {'cpu s':>8} {'of ours':>8} {'shortest period s':>18}"
    yield f"{'pushes of this run':26}{'':9}{own:8.1f} {1:8.2f}"
    for peer in found:
        cells = f"{peer.wall_s:8.1f} {peer.cpu_s:8.1f} {peer.cpu_s / max(own, 1e-9):8.2f} {peer.wall_s:18.1f}"
        yield f"{peer.name:26} {cells}"


def flink(theirs: Flink, ours: Seen, alone: Worked) -> Iterable[str]:
    """Next to pushes of the run, and to pushes of the same changes in this process."""
    rate, own = ours.tweets / ours.run.seconds, 1000 * ours.pushing_cpu_s / max(ours.tweets, 1)
    in_process = 1000 * (alone.push_s + alone.upkeep_s) / alone.tweets
    at_rate = theirs.ms_per_tweet_at(rate)
    yield f"\nevery change at once, by Flink {theirs.version:13} {'cpu ms/tweet':>12} {'of ours':>8} {'memory MB':>9}"
    yield f"{f'pushes of this run, {rate:.0f} tweets/s':43} {own:12.2f} {1:8.2f} {ours.pushing_memory_mb:9.0f}"
    yield f"{f'Flink, {rate:.0f} tweets/s':43} {at_rate:12.2f} {at_rate / max(own, 1e-9):8.2f} {theirs.memory_mb:9.0f}"
    yield f"{f'pushes alone, {alone.tweets} tweets each':43} {in_process:12.2f} {1:8.2f}"
    ratio = theirs.ms_per_tweet / max(in_process, 1e-9)
    yield f"{f'Flink alone, {theirs.tweets} tweets as fast as it reads':43} {theirs.ms_per_tweet:12.2f} {ratio:8.2f}"
    yield (
        f"  Flink: stored rows read in {theirs.stored_s:.0f} cpu s, {theirs.live_wall_s:.0f} s for the tweets,"
        f" {theirs.idle:.2f} cores in use while nothing changes (in the first of its rows)"
    )
    wrong = f"{', '.join(theirs.unequal)} do not" if theirs.unequal else "all do"
    yield f"  whether its {theirs.views} views have as many rows as their queries: {wrong}"
    yield "  not comparable: Flink reads files, not a database's log, and throws its views away without checkpoints;"
    yield "  it computes each change at once, where pushes wait as long as the promise lets them"
