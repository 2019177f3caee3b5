"""Runs of `bench devices`: each starts the service with phones, measures, and judges what was said.

alice-bob      RACE's example: 361 messages an hour, or 2
clients        its deployment (section 5.3, bullet 4): traffic, processor, memory, latency
deploy         how soon all devices run their views (bullet 5)
change-rates   rates change, and the placement with them (bullet 3)
graph          friends and rates with skew (bullet 1), measured rather than computed
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.devices_judge import Judged, judge_template
from bench.devices_model import Predicted, place_phones, predict_messages
from bench.devices_report import WITHIN, Counted, DevicesReport, tabulate
from bench.devices_sessions import Sessions, Town
from bench.devices_world import ALL_CLOUD_DOWN, FRESHNESS_S, DevicesWorld
from bench.workloads.phones import HOUR_S, Phones, change_rates, make_alice_and_bob
from headrace.plan.place.pairs import Where

Say = Callable[[str], None]

PLACED_WITHIN_S = 300.0
QUIET_S = 8.0
"""A placement has settled when devices have been told nothing new for so long."""

TRAFFIC_KB_S, AIM_KB_S, SHARE_OF_CORE, MEMORY_MB = 140.0, 70.0, 0.42, 350.0
ON_DEVICE_S = 1.0
DEPLOYED_S = {100: 2.0, 500: 5.5}
DEPLOY_MB = 5.5
SAVED = 0.15
LOADS_DIFFER = (
    "what placing anew saves differs from load to load: by the model 17 % on average over seeds 1 to 60, and at least"
    " 15 % in 35 of them"
)
MERGED = "rows down are fewer than in the model, since rows that come within 200 ms go down to a phone in one message"
RATIO = 2.0
IN_CLOUD_ONLY = "all in the cloud"


@dataclass(frozen=True, slots=True)
class Window:
    """What was seen for a while. `cpu_s` are processor seconds and `memory` bytes of broker and router."""

    seconds: float
    counted: Counted
    cpu_s: float
    memory: int

    @property
    def messages_s(self) -> float:
        return self.counted.messages / self.seconds

    @property
    def up_s(self) -> float:
        """Messages of streams that phones send."""
        return self.counted.s_up / self.seconds

    @property
    def streams_s(self) -> float:
        """Without results, as the model has it."""
        return (self.counted.s_up + self.counted.s_down) / self.seconds

    @property
    def kilobytes_s(self) -> float:
        return (self.counted.bytes_up + self.counted.bytes_down) / self.seconds / 1000


def measure(world: DevicesWorld, seconds: float) -> Window:
    counts, kinds = world.counts, ("broker", "router")
    assert counts is not None
    before, processes, began = counts.look(), {kind: world.measure(kind) for kind in kinds}, time.monotonic()
    time.sleep(seconds)
    cpu_s = sum(world.cpu_since(kind, processes[kind]) for kind in kinds)
    counted, passed = counts.look().since(before), time.monotonic() - began
    return Window(passed, counted, cpu_s, sum(map(world.memory, kinds)))


def await_placed(world: DevicesWorld, wanted: Predicted, say: Say) -> float:
    """Returns when devices run about as many views as the model says, and nothing moves any more."""
    counts = world.counts
    assert counts is not None
    began = time.monotonic()
    told, quiet_since = counts.deployed.documents, time.monotonic()
    while time.monotonic() - began < PLACED_WITHIN_S:
        time.sleep(0.5)
        if counts.deployed.documents != told:
            told, quiet_since = counts.deployed.documents, time.monotonic()
        on_devices = world.template().get("on_devices") or 0
        if on_devices >= 0.8 * wanted.on_devices and time.monotonic() - quiet_since > QUIET_S:
            break
    took_s = time.monotonic() - began
    say(
        f"{on_devices} of {wanted.pairs} pairs run on phones after {took_s:.0f} s; the model places {wanted.on_devices}"
    )
    return took_s


def tell_window(name: str, window: Window) -> tuple[str, ...]:
    counted = window.counted
    numbers = (counted.s_up, counted.s_down, counted.r_up, counted.control_up + counted.control_down)
    return (name, *(f"{one / window.seconds:.1f}" for one in numbers), f"{window.kilobytes_s:.1f}")


WINDOW_HEAD = ("messages/s", "rows up", "rows down", "results", "control", "KB/s")


def tell_judged(report: DevicesReport, judged: Judged) -> None:
    settled = "never" if judged.settled_s is None else f"after {judged.settled_s:.1f} s"
    if judged.slow:
        settled += f", but for {judged.slow} pairs that need a row once in minutes"
    report.lines.append(
        f"the view has {judged.rows} rows and equals SQL {settled}; {judged.heard} changes on phones and"
        f" {judged.changes} in the view were each looked at"
    )
    report.claim(
        "results missing, doubled or untrue against SQL over all rows: 0", str(len(judged.wrong)), not judged.wrong
    )
    report.wrong += judged.wrong
    report.numbers["judged"] = {
        "rows": judged.rows,
        "settled_s": judged.settled_s,
        "heard": judged.heard,
        "changes": judged.changes,
    }


def note_window(report: DevicesReport, name: str, window: Window, predicted: Predicted | None = None) -> None:
    found: dict[str, Any] = {"seconds": window.seconds, "counted": dict(window.counted.document())}
    found |= {"messages_s": window.messages_s, "kilobytes_s": window.kilobytes_s}
    if predicted is not None:
        found["predicted_s"] = predicted.placed
    report.numbers[name] = found


# Alice and Bob


def run_alice_and_bob(world: DevicesWorld, hour_s: float, seed: int, say: Say) -> DevicesReport:
    """An hour takes `hour_s` seconds: Bob has 360 rows in it, Alice one."""
    report = DevicesReport("alice-bob", [f"an hour of the paper takes {hour_s:g} s here; each row is a real message"])
    faster = HOUR_S / hour_s
    phones = make_alice_and_bob(360)
    phones = replace(phones, rate=phones.rate * faster)
    world.load(phones)
    found: dict[str, Counted] = {}
    sessions = Sessions(world, phones, Town(side_m=50_000.0), seed)
    for name, down in ((IN_CLOUD_ONLY, ALL_CLOUD_DOWN), ("placed", 1.0)):
        world.declare(down=down)
        world.begin()
        if name == IN_CLOUD_ONLY:
            sessions.start()
        else:
            sessions.publish()
            await_placed(world, predict_messages(phones, np.array([2], dtype=np.uint8)), say)
        found[name] = _count_hour(world, sessions, hour_s)
        say(f"{name}: {found[name].messages} messages in an hour")
        if name == IN_CLOUD_ONLY:
            world.stop()
    report.lines += _tell_hours(found)
    cloud, placed = found[IN_CLOUD_ONLY], found["placed"]
    report.claim("361 messages an hour if all runs in the cloud", str(cloud.messages), cloud.messages == 361, "361")
    report.claim("2 messages an hour if the view runs at Bob", str(placed.messages), placed.messages == 2, "2")
    report.numbers |= {name: dict(one.document()) for name, one in found.items()}
    report.numbers["hour_s"] = hour_s
    tell_judged(report, judge_template(world, sessions))
    sessions.stop()
    return report


def _count_hour(world: DevicesWorld, sessions: Sessions, hour_s: float) -> Counted:
    """The messages of an hour: from just after a row of Alice's until just after the next one."""
    counts = world.counts
    assert counts is not None
    sessions.pause()
    time.sleep(2.0)
    before = counts.look()
    sessions.publish_evenly(hour_s, {0: 1, 1: 360})
    time.sleep(2.0)
    return counts.look().since(before)


def _tell_hours(found: dict[str, Counted]) -> list[str]:
    rows = [
        (
            name,
            str(one.messages),
            str(one.s_up),
            str(one.s_down),
            str(one.r_up),
            str(one.control_up + one.control_down),
            f"{(one.bytes_up + one.bytes_down) / 1000:.1f}",
        )
        for name, one in found.items()
    ]
    return list(tabulate(rows, ("an hour", "messages", "rows up", "rows down", "results", "control", "KB")))


# A deployment


def run_clients(world: DevicesWorld, phones: Phones, seconds: float, town: Town, seed: int, say: Say) -> DevicesReport:
    where = place_phones(phones)
    predicted = predict_messages(phones, where)
    report = DevicesReport("clients", [_introduce(phones, predicted)])
    sessions = _start(world, phones, town, seed, say)
    await_placed(world, predicted, say)
    with world.following() as followed:
        window = measure(world, seconds)
    report.lines += tabulate(
        [
            ("all in the cloud (model)", f"{predicted.all_cloud:.1f}", "0.0", "0.0", "", ""),
            ("filtered on devices (model)", f"{predicted.filtered:.1f}", "0.0", "0.0", "", ""),
            ("placed (model)", f"{predicted.up:.1f}", f"{predicted.down:.1f}", "0.0", "", ""),
            tell_window("placed (counted)", window),
        ],
        WINDOW_HEAD,
    )
    _check_counts(world, report)
    judged = judge_template(world, sessions, followed)
    _claim_deployment(report, window, predicted, judged)
    note_window(report, "placed", window, predicted)
    tell_judged(report, judged)
    sessions.stop()
    return report


def _claim_deployment(report: DevicesReport, window: Window, predicted: Predicted, judged: Judged) -> None:
    cores, megabytes = window.cpu_s / window.seconds, window.memory / 1e6
    report.claim_near("messages of streams", window.streams_s, predicted.placed)
    kilobytes = f"{window.kilobytes_s:.0f} KB/s (aim {AIM_KB_S:.0f})"
    report.claim(f"less than {TRAFFIC_KB_S:.0f} KB/s", kilobytes, window.kilobytes_s < TRAFFIC_KB_S, "140 KB/s")
    report.claim(
        f"broker and router take less than {SHARE_OF_CORE:.0%} of a core", f"{cores:.0%}", cores < SHARE_OF_CORE, "42 %"
    )
    report.claim(
        f"broker and router hold less than {MEMORY_MB:.0f} MB", f"{megabytes:.0f} MB", megabytes < MEMORY_MB, "350 MB"
    )
    for where, seconds, limit_s in (
        ("on phones", judged.on_devices_s, ON_DEVICE_S),
        ("for an app that follows the view", judged.in_view_s, FRESHNESS_S),
    ):
        if seconds:
            p95_s = quantile(seconds, 0.95)
            report.claim(f"p95 from row to result {where} less than {limit_s:g} s", f"{p95_s:.2f} s", p95_s < limit_s)
    report.numbers |= {"cores": cores, "memory_mb": megabytes}


def quantile(values: tuple[float, ...], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _introduce(phones: Phones, predicted: Predicted) -> str:
    return (
        f"{phones.origin}; {predicted.pairs} pairs, {phones.rate.sum():.0f} rows/s; the model places"
        f" {predicted.on_devices} pairs on phones"
    )


def _start(world: DevicesWorld, phones: Phones, town: Town, seed: int, say: Say) -> Sessions:
    world.load(phones)
    world.declare(sampled=bool((phones.every_a > 0).any()))
    say(f"the service runs after {world.begin():.1f} s, engine {world.engine}")
    sessions = Sessions(world, phones, town, seed)
    say(f"{len(phones)} sessions in {sessions.processes} processes are connected after {sessions.start():.1f} s")
    return sessions


def _check_counts(world: DevicesWorld, report: DevicesReport) -> None:
    """What the router has counted against what was counted beside it."""
    counts = world.counts
    assert counts is not None
    report.numbers["router"] = counts.rates


# Deploying


def run_deploy(world: DevicesWorld, phones: Phones, town: Town, seed: int, say: Say) -> DevicesReport:
    predicted = predict_messages(phones, place_phones(phones))
    report = DevicesReport("deploy", [_introduce(phones, predicted)])
    sessions = _start(world, phones, town, seed, say)
    counts = world.counts
    assert counts is not None
    await_placed(world, predicted, say)
    told, took = counts.deployed.told_s, counts.deployed.took_s
    times = tuple(took[device] - told[device] for device in told if device in took)
    p95_s = quantile(times, 0.95) if times else float("inf")
    aim_s = next((seconds for size, seconds in sorted(DEPLOYED_S.items()) if len(phones) <= size), DEPLOYED_S[500])
    report.lines.append(
        f"{counts.deployed.documents} documents for {len(told)} of {len(phones)} devices, {counts.deployed.bytes:,} B;"
        f" {len(times)} devices have said that they run theirs"
    )
    report.claim(
        f"95 % of devices run their document within {aim_s:g} s of its being sent",
        f"{p95_s:.2f} s",
        p95_s < aim_s,
        f"{aim_s:g} s",
    )
    megabytes = counts.deployed.bytes / 1e6
    report.claim(f"at most {DEPLOY_MB} MB in all", f"{megabytes:.2f} MB", megabytes <= DEPLOY_MB, "5.5 MB for 500")
    report.numbers |= {"p95_s": p95_s, "bytes": counts.deployed.bytes, "documents": counts.deployed.documents}
    tell_judged(report, judge_template(world, sessions))
    sessions.stop()
    return report


# Rates that change


def run_change_rates(
    world: DevicesWorld, phones: Phones, before_s: float, seconds: float, town: Town, seed: int, say: Say
) -> DevicesReport:
    changed = change_rates(phones, seed)
    where: Where = place_phones(phones)
    first = predict_messages(phones, where)
    stale, anew = (predict_messages(changed, one) for one in (where, place_phones(changed)))
    report = DevicesReport("change-rates", [_introduce(phones, first)])
    sessions = _start(world, phones, town, seed, say)
    await_placed(world, first, say)
    before = measure(world, before_s)
    counts = world.counts
    assert counts is not None
    counts.reset_deployed()
    sessions.publish(changed.rate.tolist())
    say("half of the phones have five times as many rows now, the others 2.33 times fewer")
    old = _measure_until_moved(world, seconds)
    await_placed(world, anew, say)
    new = measure(world, seconds)
    report.lines += tabulate(
        [
            tell_window("before", before),
            tell_window("after, as placed before", old),
            tell_window("after, placed anew", new),
        ],
        WINDOW_HEAD,
    )
    saved = 1 - new.streams_s / old.streams_s
    # A busy machine merges rows that wait, which saves messages too: then nothing is known about the placement. Rows
    # that go down within 200 ms are merged in any case, and phones have up to 50 a second here.
    is_like_model = all(
        abs(window.up_s / wanted.up - 1) <= WITHIN and window.streams_s <= (1 + WITHIN) * wanted.placed
        for window, wanted in ((old, stale), (new, anew))
    )
    report.lines += [LOADS_DIFFER, MERGED]
    report.claim("redeployed by itself", f"{counts.deployed.documents} documents", counts.deployed.documents > 0)
    report.claim(
        f"at least {SAVED:.0%} fewer messages than with the old placement (model {1 - anew.placed / stale.placed:.0%})",
        f"{saved:.0%}" + ("" if is_like_model else ", but messages are not those of the model: not by placing alone"),
        saved >= SAVED and is_like_model,
        "51 to 40 KB/s, 22 %",
    )
    for name, window, predicted in (("before", before, first), ("stale", old, stale), ("anew", new, anew)):
        report.claim_near(f"{name}: rows up", window.up_s, predicted.up)
        note_window(report, name, window, predicted)
    tell_judged(report, judge_template(world, sessions))
    sessions.stop()
    return report


def _measure_until_moved(world: DevicesWorld, most_s: float) -> Window:
    """From now until the first device is told something new."""
    counts = world.counts
    assert counts is not None
    time.sleep(1.0)  # rows that were on their way
    before, began = counts.look(), time.monotonic()
    while not counts.deployed.documents and time.monotonic() - began < most_s:
        time.sleep(0.2)
    return Window(time.monotonic() - began, counts.look().since(before), 0.0, 0)


# Friends and rates with skew


def run_graph(world: DevicesWorld, phones: Phones, seconds: float, town: Town, seed: int, say: Say) -> DevicesReport:
    predicted = predict_messages(phones, place_phones(phones))
    report = DevicesReport("graph", [_introduce(phones, predicted)])
    world.load(phones)
    windows: dict[str, Window] = {}
    sessions = Sessions(world, phones, town, seed)
    for name, down in ((IN_CLOUD_ONLY, ALL_CLOUD_DOWN), ("placed", 1.0)):
        world.declare(down=down, sampled=True)
        say(f"{name}: the service runs after {world.begin():.1f} s")
        if name == IN_CLOUD_ONLY:
            connected_s = sessions.start()
            say(f"{len(phones)} sessions in {sessions.processes} processes are connected after {connected_s:.1f} s")
            time.sleep(seconds / 4)  # what each of them is told first
        else:
            await_placed(world, predicted, say)
        windows[name] = measure(world, seconds)
        if name == IN_CLOUD_ONLY:
            world.stop()
    report.lines += tabulate([tell_window(name, window) for name, window in windows.items()], WINDOW_HEAD)
    cloud, placed = windows[IN_CLOUD_ONLY], windows["placed"]
    ratio = cloud.messages_s / placed.messages_s if placed.messages_s else float("inf")
    everything = cloud.counted.everything / cloud.seconds / (placed.counted.everything / placed.seconds)
    report.lines.append(
        f"with control messages the ratio is {everything:.2f}, in bytes {cloud.kilobytes_s / placed.kilobytes_s:.2f}"
    )
    report.claim(
        f"all in the cloud / placed at least {RATIO:.1f} at equal prices (model {predicted.ratio:.2f})",
        f"{ratio:.2f}",
        ratio >= RATIO,
        "3.5 to 7.3 on its own rates",
    )
    report.claim_near("all in the cloud: messages", cloud.streams_s, predicted.all_cloud)
    report.claim_near("placed: messages", placed.streams_s, predicted.placed)
    for name, window in windows.items():
        note_window(report, name, window)
    report.numbers |= {"ratio": ratio, "model_ratio": predicted.ratio, "ratio_with_control": everything}
    tell_judged(report, judge_template(world, sessions))
    sessions.stop()
    return report
