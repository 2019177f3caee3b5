"""Phones lose their connection and processes get kill -9, one after the other, while rows go on; then all is judged.

A phone that is not who it says publishes for another one: that must have no effect, and be counted.
"""

from __future__ import annotations

import time

from bench.devices_judge import judge_template
from bench.devices_model import place_phones, predict_messages
from bench.devices_oracle import find_difference
from bench.devices_report import DevicesReport
from bench.devices_runs import Say, await_placed, tell_judged
from bench.devices_sessions import Sessions, Town
from bench.devices_world import KEPT, PROJECT_NAME, DevicesWorld
from bench.workloads.phones import Phones
from headrace.model.device_messages import Sent, read_token, up_topic, write_sent

AWAY_SHARE, AWAY_S = 0.1, 60.0
KILLED = ("router", "broker", "service")
BETWEEN_S = 5.0
BACK_WITHIN_S = 60.0
KEPT_WITHIN_S = 120.0


def run_faults(world: DevicesWorld, phones: Phones, town: Town, seed: int, say: Say) -> DevicesReport:
    predicted = predict_messages(phones, place_phones(phones))
    report = DevicesReport("faults", [f"{phones.origin}; {predicted.pairs} pairs, {phones.rate.sum():.0f} rows/s"])
    world.load(phones)
    world.declare(kept=True)
    say(f"the service runs after {world.begin():.1f} s, engine {world.engine}")
    sessions = Sessions(world, phones, town, seed, checkins=True)
    say(f"{len(phones)} sessions in {sessions.processes} processes are connected after {sessions.start():.1f} s")
    await_placed(world, predicted, say)
    refused = _publish_for_another(world)
    _break_things(world, sessions, len(phones), say)
    judged = judge_template(world, sessions)
    missing = _find_lost_checkins(world, sessions)
    report.lines.append(
        f"killed: {', '.join((*KILLED, 'phones'))}; {int(AWAY_SHARE * len(phones))} phones away {AWAY_S:g} s"
    )
    tell_judged(report, judged)
    report.claim("rows of kept streams that are lost or twice: 0", missing or "0", not missing)
    report.wrong += [missing] if missing else []
    report.claim(
        "what one device publishes for another has no effect, and is counted", f"{refused} counted", refused > 0
    )
    report.numbers |= {"foreign_counted": refused, "away": int(AWAY_SHARE * len(phones)), "away_s": AWAY_S}
    sessions.stop()
    return report


def _break_things(world: DevicesWorld, sessions: Sessions, count: int, say: Say) -> None:
    away = range(int(AWAY_SHARE * count))
    sessions.unplug(away)
    began = time.monotonic()
    say(f"{len(away)} phones have no connection")
    for kind in KILLED:
        time.sleep(BETWEEN_S)
        pid = world.wait_for_process(kind, BACK_WITHIN_S)
        world.kill(kind, pid)
        say(f"kill -9 of the {kind}")
    sessions.kill(0)
    say("kill -9 of a process with phones")
    time.sleep(max(0.0, began + AWAY_S - time.monotonic()))
    sessions.unplug(away, is_away=False)
    say("all phones have a connection again")
    world.wait_for_process("router", BACK_WITHIN_S)
    time.sleep(BETWEEN_S)


def _publish_for_another(world: DevicesWorld) -> int:
    """How many attempts the service has counted."""
    counts = world.counts
    assert counts is not None
    before = world.count_foreign()
    topic = up_topic(PROJECT_NAME, "1", "s", "location")
    counts.publish_as_other(
        topic, write_sent([Sent(10**9, 10**12, ((0.0, 0.0, 0),))]), "0", read_token(world.tokens()["0"])[0]
    )
    try:
        world.wait_for(lambda: world.count_foreign() > before, BACK_WITHIN_S, "what was refused")
    except TimeoutError:
        return 0
    return world.count_foreign() - before


def _find_lost_checkins(world: DevicesWorld, sessions: Sessions) -> str:
    """What is wrong with the view of kept rows; nothing if it is right."""
    record = sessions.look()
    expected = [(device, n) for device, _, _, n in record.checkins.rows]
    until = time.monotonic() + KEPT_WITHIN_S
    while True:
        found = find_difference(expected, world.show(KEPT))
        lost = [row for row in found.missing if row not in record.unsure_checkins]
        if not lost and not found.extra:
            return ""
        if time.monotonic() > until:
            return f"kept rows: {found.say()}"
        time.sleep(1.0)
