"""Many devices in one process, at a real broker: all that single devices do, and what packets look like."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.device.many import ManyDevices
from headrace.connect.device.packets import (
    PUBLISH,
    Packet,
    PacketReader,
    Publication,
    read_publish,
    write_plain,
    write_puback,
    write_publish,
)
from headrace.model.errors import ConnectError
from headrace.run.device.agent import Result
from tests.connect.device.broker import PROJECT, Broker, LiveCloud, token_of, wait_for
from tests.connect.device.cloud import make_document
from tests.run.device.lifted import nearby

BODIES = st.binary(max_size=20) | st.integers(120, 20_000).map(bytes)


@given(
    st.lists(st.tuples(st.text(max_size=5), BODIES, st.integers(1, 65_535)), max_size=5), st.lists(st.integers(1, 40))
)
def test_packets_are_found_in_whatever_pieces_they_come(sent: list[tuple[str, bytes, int]], pieces: list[int]):
    data = b"".join(write_publish(*one) + write_puback(7) + write_plain(13) for one in sent)
    reader, found, at = PacketReader(), list[Packet](), 0
    for piece in [*pieces, len(data)]:
        found += reader.read(data[at : at + piece])
        at += piece
    read = [read_publish(one) for one in found if one.kind == PUBLISH]
    assert read == [Publication(*one) for one in sent] and len(found) == 3 * len(sent)


@pytest.mark.parametrize("data", [b"\x30\xff\xff\xff\xff\x01", b"\x30\xff\xff\xff\x7f", b"\x30\x01\x00"])
def test_what_is_no_packet_is_refused(data: bytes):
    with pytest.raises(ConnectError):
        list(map(read_publish, PacketReader().read(data)))


@pytest.mark.live
@pytest.mark.parametrize("is_kept", [False, True], ids=["in memory", "on disk"])
def test_many_devices_find_each_other_are_unplugged_and_come_back(tmp_path: Path, is_kept: bool):
    devices = [str(number) for number in range(1, 41)]
    broker = Broker(tmp_path, devices)
    cloud = LiveCloud(broker)
    heard: list[tuple[str, Result]] = []
    told: list[tuple[str, str]] = []
    many = ManyDevices(
        broker.url,
        PROJECT,
        tmp_path / "state" if is_kept else None,
        lambda device, result: heard.append((device, result)),
        lambda device, text: told.append((device, text)),
    )
    for device in devices:
        partner = str(int(device) + 1)
        programs = {"near": nearby()} if int(device) % 2 else {}
        partners = (partner,) if programs else ()
        cloud.tell(device, make_document(1, programs, {"location": 0.0, "visits": 0.0}, partners))
        many.add(device, token_of(device))
    many.start()
    try:
        assert many.wait_connected(20), told
        wait_for(lambda: set(many.plans().values()) == {1})
        for device in devices:
            many.publish(device, "location", {"lat": 1.0, "lng": 1.0})
        wait_for(lambda: len(heard) == 20)
        assert {result.pair for _, result in heard} == {(str(n), str(n + 1)) for n in range(1, 41, 2)}
        for device in devices[:10]:
            many.unplug(device)
        wait_for(lambda: len(cloud.gone) == 10)
        for number in range(30):
            many.publish("1", "visits", {"lat": float(number), "lng": 1.0})
        many.publish("2", "location", {"lat": 50.0, "lng": 1.0})
        broker.kill()
        for device in devices[:10]:
            many.plug_in(device)
        broker.start()
        assert many.wait_connected(30) and many.wait_idle(60)
        assert [sent.rows[0][0] for sent in cloud.devices["1"].streams["visits"]] == [float(n) for n in range(30)]
        wait_for(lambda: cloud.devices["1"].there() == {})
        assert [one[1].weight for one in heard if one[0] == "1"] == [1, -1]
        assert all(len(cloud.devices[str(n)].there()) == 1 for n in range(3, 41, 2))
        counts = many.counts()
        assert counts.sent > 150 and counts.received > 100 and counts.sent_bytes > counts.sent * 40
    finally:
        many.stop()
        cloud.close()
        broker.stop()
