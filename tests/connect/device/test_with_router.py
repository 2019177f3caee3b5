"""Devices and the real router: rows, results and documents go through everything that is killed on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.connect.device.many import ManyDevices
from headrace.connect.mqtt.users import PLACER
from headrace.model.device_messages import Document, StreamShape, read_document, sign
from headrace.model.expr import Literal
from headrace.model.relation import Output
from headrace.model.types import DOUBLE, STRING
from headrace.run.device.agent import Result
from headrace.site.devices.registry import find_tokens
from tests.connect.device.cloud import make_document
from tests.devices.clients import signed_in, wait_for
from tests.devices.routers import PASSWORD, PROJECT, router_world
from tests.run.device.lifted import both, double, equal, outputs, side

pytestmark = pytest.mark.live

COLUMNS = (("x", DOUBLE), ("note", STRING))
SHAPES = {"location": StreamShape(COLUMNS), "visits": StreamShape(COLUMNS, keep_s=3600.0)}
COUNT = 6


def same_place():
    left, right = (side(letter, alias, COLUMNS) for letter, alias in (("a", "x"), ("b", "y")))
    joined = both(equal(double("x.x"), double("y.x")), left, right)
    return outputs(joined, "px", Output("near", Literal(0.5, DOUBLE)))


def document_of(device: str, plan: int) -> Document:
    """Devices with odd numbers run the view of themselves and the next one."""
    partner = str(int(device) + 1)
    programs = {"near": same_place()} if int(device) % 2 else {}
    told = read_document(
        make_document(plan, programs, {"location": 0.0, "visits": 0.0}, (partner,) if programs else ())
    )
    take = tuple(one for one in told.take if one.stream == "location" and programs)
    return replace(told, streams=SHAPES, take=take)


def test_rows_and_results_survive_the_end_of_router_broker_and_devices(tmp_path: Path):
    with router_world(tmp_path, COUNT) as world, signed_in(world.broker.url, PLACER, PASSWORD) as cloud:
        tokens = {one.device: one.token for one in find_tokens(world.folder, PROJECT, world.devices)}
        for device in world.devices:
            world.publish_document(cloud, device, sign(document_of(device, 1), tokens[device]))
        heard: list[Result] = []
        told: list[str] = []

        def start() -> ManyDevices:
            made = ManyDevices(
                world.broker.url,
                PROJECT,
                tmp_path / "state",
                lambda device, result: heard.append(result),
                lambda device, text: told.append(text),
            )
            for device, token in tokens.items():
                made.add(device, token)
            made.start()
            assert made.wait_connected(20), told
            return made

        many = start()
        try:
            wait_for(lambda: set(many.plans().values()) == {1}, "documents")
            for number in range(20):
                for device in world.devices:
                    many.publish(device, "visits", {"x": float(number), "note": device})
                    many.publish(device, "location", {"x": float(number), "note": device})
                if number == 5:
                    world.kill_router()
                if number == 8:
                    many.stop()
                    many = start()
                if number == 10:
                    world.start_router()
                if number == 15:
                    world.broker.kill()
                    world.start_broker()
            assert many.wait_connected(60) and many.wait_idle(120), told
            rows = wait_for(lambda: all_visits(world.net_rows("visits", (0, 1))), "all rows")
            for device in world.devices:
                mine = [row[3] for key, row in sorted(rows.items()) if key[0] == int(device)]
                assert mine == [float(number) for number in range(20)]
            latest = world.net_rows("location", (0,))
            assert {row[3] for row in latest.values()} == {19.0} and len(latest) == COUNT
            # A result that was lost with the broker is sent again after 15 s, and what is acknowledged is on its way.
            wait_for(lambda: all_reported(world.net_rows("near", (0, 1, 2, 3))), "all results", 60)
        finally:
            many.stop()


def all_reported(rows):
    """One row of each pair, of its own host."""
    expected = {(n, n, n + 1) for n in range(1, COUNT, 2)}
    return rows if {key[:3] for key in rows} == expected and len(rows) == len(expected) else None


def all_visits(rows):
    return rows if len(rows) == COUNT * 20 else None
