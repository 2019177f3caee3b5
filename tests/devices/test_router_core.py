"""What the router does with messages, without a broker: whatever one device sends, the others are served."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connect.mqtt.client import Arrived
from headrace.connect.mqtt.router_store import RouterStore
from headrace.connect.written.inbox import DELETE, OPERATION, list_files, read_file
from headrace.coordinate.devices.table_messages import write_table
from headrace.model.cloud_messages import PARTS, TOOK
from headrace.model.device_messages import (
    CLOUD,
    NO_MORE,
    Document,
    Hello,
    Reported,
    Sent,
    TakeStream,
    Took,
    cloud_topic,
    down_topic,
    read_acks,
    read_taken,
    up_topic,
    write_document,
    write_gone,
    write_hello,
    write_reported,
    write_sent,
    write_took,
)
from headrace.model.errors import ConnectError
from headrace.run.device.fitting import read_time
from headrace.run.device.table_parts import TableParts
from headrace.run.devices.intake import WrittenChange
from headrace.run.rows.arrow import rows_of_arrow
from headrace.site.devices import router_core
from headrace.site.devices.router_core import RouterCore, RouterMessage
from headrace.site.devices.router_inboxes import RouterInboxes
from headrace.site.devices.router_settings import RouterFile
from tests.examples import examples

PROJECT = "city"
HEAD = [["device", "string"], ["seq", "bigint"], ["at", "timestamp"]]
SPOT = [["device", "string"], ["position", "bigint"], ["note", "string"]]
REPORTED = [["reporter", "string"], ["a", "string"], ["b", "string"], ["row_id", "string"], ["near", "double"]]


class CoreWorld:
    """Phones with a latest-row stream `location`, a `keep` stream `visits` and a derived stream `spot`, and a template
    `near`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now_s = 1000.0
        self.groups: dict[str, list[str]] = {"phones": ["1", "2", "3"]}
        self.templates: tuple[str, ...] = ("near",)
        self.open()

    def open(self) -> None:
        self.store = RouterStore(self.directory / "router.db")
        self.core = RouterCore(self.settings(), self.store)
        self.core.use_members(self.groups)

    def open_again(self) -> None:
        self.store.close()
        self.open()

    def source(self, name: str, columns: list[list[str]], *key: str) -> dict[str, Any]:
        return {"inbox": str(self.directory / "inboxes" / name), "columns": columns, "key": list(key)}

    def streams(self) -> list[dict[str, Any]]:
        note = [*HEAD, ["note", "string"]]
        location = self.source("location", note, "device")
        visits = self.source("visits", note, "device", "seq")
        spot = self.source("spot", SPOT, "device", "position")
        return [
            {"devices": "phones", "stream": "spot", "derived": True, "source": spot},
            {"devices": "phones", "stream": "location", "source": location},
            {"devices": "phones", "stream": "visits", "keep_s": 3600.0, "source": visits},
        ]

    def settings(self) -> RouterFile:
        near = self.source("near", REPORTED, "reporter", "a", "b", "row_id")
        return RouterFile.model_validate(
            {
                "project": PROJECT,
                "directory": str(self.directory),
                "broker": {"url": "mqtt://127.0.0.1:1", "user": "router", "password": ""},
                "streams": self.streams(),
                "templates": [{"template": name, "sides": 2, "source": near} for name in self.templates],
            }
        )

    def send(self, device: str, *rest: str, body: bytes, wait_s: float = 0.1) -> None:
        self.now_s += wait_s
        self.core.handle(Arrived(up_topic(PROJECT, device, *rest), body), self.now_s)

    def visit(self, device: str, *numbers: int, wait_s: float = 0.1) -> None:
        body = write_sent([Sent(number, 1000 + number, ((f"v{number}",),)) for number in numbers])
        self.send(device, "s", "visits", body=body, wait_s=wait_s)

    def settle(self) -> list[RouterMessage]:
        """Commits, puts and sends; what goes out."""
        self.now_s += 10.0
        self.core.commit(self.now_s)
        self.core.put()
        self.core.send_due(self.now_s)
        return self.core.take_out()

    def acks(self, device: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for message in self.settle():
            if message.topic == down_topic(PROJECT, device, "ack"):
                found |= read_acks(message.body)
        return found

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        inbox = self.directory / "inboxes" / name
        tables = [read_file(inbox, file).drop_columns([OPERATION]) for file in list_files(inbox, 1000)]
        return [row for table in tables for row in rows_of_arrow(table)]

    def net_numbers(self, name: str) -> set[tuple[Any, Any]]:
        """Devices and numbers of the rows that the files in an inbox come to."""
        inbox, found = self.directory / "inboxes" / name, set[tuple[Any, Any]]()
        for file in list_files(inbox, 1000):
            table = read_file(inbox, file)
            operations = table.column(OPERATION).to_pylist()
            for row, operation in zip(rows_of_arrow(table.drop_columns([OPERATION])), operations, strict=True):
                (found.discard if operation == DELETE else found.add)((row[0], row[1]))
        return found

    def forget(self, now_ms: int) -> bool:
        return self.core.forget_old({"location": 0.0, "visits": 3600.0}, now_ms)

    def net_rows(self, name: str, key: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """The rows that are there in the end, by so many columns of a key."""
        inbox, found = self.directory / "inboxes" / name, dict[tuple[Any, ...], tuple[Any, ...]]()
        for file in list_files(inbox, 1000):
            table = read_file(inbox, file)
            for row, done in zip(
                rows_of_arrow(table.drop_columns([OPERATION])), table.column(OPERATION).to_pylist(), strict=True
            ):
                if done == DELETE:
                    found.pop(row[:key], None)
                else:
                    found[row[:key]] = row
        return found

    def spots(self, device: str, number: int, *notes: str) -> None:
        body = write_sent([Sent(number, 1000 + number, tuple((note,) for note in notes))])
        self.send(device, "s", "spot", body=body)

    def taken_by(self, device: str, out: list[RouterMessage]) -> list[bytes]:
        return [one.body for one in out if one.topic == down_topic(PROJECT, device, "s")]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CoreWorld]:
    made = CoreWorld(tmp_path)
    with closing(made.store):
        yield made


def test_half_a_character_is_refused_and_its_row_alone(world: CoreWorld):
    world.send("1", "s", "visits", body=json.dumps([[1, 1, [["\ud83d"]]], [2, 2, [["good"]]]]).encode())
    assert world.acks("1") == {"visits": 2}
    assert [row[3] for row in world.rows("visits")] == ["good"]
    assert world.core.counts.refused == 1


def test_half_a_character_in_an_id_is_refused(world: CoreWorld):
    body = json.dumps([[1, 1, ["1", "\ud83d"], 1, 0, [1.0]]]).encode()
    world.send("1", "r", "near", body=body)
    world.settle()
    assert world.rows("near") == [] and world.core.counts.refused == 1


def test_a_row_that_no_file_can_hold_is_set_aside_and_the_others_are_written(world: CoreWorld):
    inboxes, source = RouterInboxes(), world.core.intake.find_stream(["phones"], "visits")
    assert source is not None and source.source is not None
    for number in range(5):
        note = "\ud83d" if number == 3 else "good"
        inboxes.add(source.source, "1", router_change("1", number, note))
    inboxes.reach(7)
    assert inboxes.put() == 7 and inboxes.rows == 0 and inboxes.set_aside == 1
    assert sorted(row[1] for row in world.rows("visits")) == [0, 1, 2, 4]


def router_change(device: str, seq: int, note: str):
    return WrittenChange((device, seq, read_time(seq), note))


def test_a_message_that_an_earlier_router_took_and_this_one_cannot_read_is_told(world: CoreWorld):
    world.visit("1", 1)
    world.core.commit(world.now_s)
    world.store._database.execute("UPDATE waiting SET body = 'rubbish'")
    world.open_again()
    assert world.core.intake.set_aside == 1


def test_arrays_inside_each_other_are_refused(world: CoreWorld):
    deep = '{"array":[' * 400 + "]}" * 400
    world.send("1", "s", "location", body=f"[[1,1,[[{deep}]]]]".encode())
    assert world.core.counts.refused == 1


def test_what_was_refused_for_lack_of_room_is_not_acknowledged_by_what_follows(world: CoreWorld, monkeypatch):
    monkeypatch.setattr(router_core, "MOST_WAITING", 0)
    world.visit("1", 1, 2)
    monkeypatch.setattr(router_core, "MOST_WAITING", 1000)
    world.visit("1", 3)
    assert world.acks("1") == {}
    world.visit("1", 1, 2, wait_s=15.0)
    world.visit("1", 3)
    assert world.acks("1") == {"visits": 3}
    assert sorted(row[1] for row in world.rows("visits")) == [1, 2, 3]


def test_what_is_refused_again_and_again_is_not_acknowledged_either(world: CoreWorld, monkeypatch):
    for _ in range(3):
        monkeypatch.setattr(router_core, "MOST_WAITING", 0)
        world.visit("1", 1, 2, wait_s=15.0)
        monkeypatch.setattr(router_core, "MOST_WAITING", 1000)
        world.visit("1", 3)
        assert world.acks("1") == {}


def test_a_device_that_floods_is_refused_alone_and_the_others_are_taken(world: CoreWorld, monkeypatch):
    monkeypatch.setattr(router_core, "MOST_WAITING", 20)
    for number in range(1, 40):
        world.visit("1", number)
    report(world, 1)
    refused = world.core.counts.refused
    assert refused > 20 and world.core.intake.rows_waiting <= 11
    world.visit("2", 1, 2)
    world.core.commit(world.now_s)  # what is committed waits, too
    world.visit("3", 1, 2)
    world.visit("1", 40)
    assert world.core.counts.refused == refused + 1
    assert world.acks("2") == {"visits": 2}
    assert {row[1] for row in world.rows("visits") if row[0] == "3"} == {1, 2}
    mine = sorted(row[1] for row in world.rows("visits") if row[0] == "1")
    assert mine == list(range(1, mine[-1] + 1)) and len(mine) <= 10


def test_a_device_that_was_refused_for_its_share_is_taken_when_its_rows_are_written(world: CoreWorld, monkeypatch):
    monkeypatch.setattr(router_core, "MOST_WAITING", 8)
    for number in range(1, 10):
        world.visit("1", number)
    assert world.acks("1") == {"visits": 4}
    world.visit("1", 5, 6, 7, 8, 9, wait_s=10.0)
    assert world.acks("1") == {"visits": 9}


def test_rows_that_waited_at_a_crash_count_as_those_of_their_device(world: CoreWorld, monkeypatch):
    monkeypatch.setattr(router_core, "MOST_WAITING", 8)
    world.visit("1", 1, 2, 3, 4)
    world.core.commit(world.now_s)
    world.open_again()
    world.visit("1", 5)
    world.visit("2", 1)
    assert world.acks("1") == {} and {row[0] for row in world.rows("visits")} == {"1", "2"}


def test_rows_of_a_device_that_was_not_known_yet_are_not_acknowledged_unread(world: CoreWorld):
    world.visit("9", 1)
    world.core.use_members({"phones": ["9"]})
    world.visit("9", 2)
    assert world.acks("9") == {}
    world.visit("9", 1, 2, wait_s=15.0)
    assert world.acks("9") == {"visits": 2}


def take(world: CoreWorld, taker: str, *takes: TakeStream, plan: int = 1) -> None:
    body = write_document(Document(plan, take=takes))
    world.core.handle(Arrived(down_topic(PROJECT, taker, "plan"), body, True), world.now_s)


def test_a_taker_is_told_that_there_is_nothing_yet_and_where_a_history_ends(world: CoreWorld, monkeypatch):
    monkeypatch.setattr(router_core, "HISTORY_ROWS", 2)
    world.visit("1", 1, 2, 3)
    take(world, "2", TakeStream("location", "1", 0.0), TakeStream("visits", "1", 0.0))
    out = [one for _ in range(3) for body in world.taken_by("2", world.settle()) for one in read_taken(body)]
    assert [one.sent for one in out if one.stream == "location"] == [NO_MORE]
    assert [one.sent.seq for one in out if one.stream == "visits"] == [1, 2, 3, 0]


def test_a_history_counts_as_sent_only_when_all_of_it_was(world: CoreWorld, monkeypatch):
    monkeypatch.setattr(router_core, "HISTORY_ROWS", 2)
    monkeypatch.setattr(router_core, "HISTORIES_AT_ONCE", 1)
    world.visit("1", 1, 2, 3)
    take(world, "2", TakeStream("visits", "1", 0.0))
    world.settle()
    world.core.commit(world.now_s)
    assert world.store.sent() == {}
    world.settle()
    world.core.commit(world.now_s)
    assert world.store.sent() == {("2", "1", "visits"): 3}


def report(world: CoreWorld, *numbers: int) -> None:
    body = write_reported([Reported(number, number, ("1", "2"), 1, 0, (1.0 * number,)) for number in numbers])
    world.send("1", "r", "near", body=body)


def tooks(world: CoreWorld) -> int:
    return sum(one.topic == cloud_topic(PROJECT, TOOK) for one in world.settle())


def test_what_a_device_took_is_passed_on_once_its_results_are_here(world: CoreWorld):
    world.send("1", "took", body=write_took(Took(1, {}, {"near": 2, "gone": 7})))
    assert tooks(world) == 0
    report(world, 1, 2)
    assert tooks(world) == 1
    world.send("1", "took", body=b'{"v":1,"plan":2,"refused":{}}')
    assert tooks(world) == 1


def test_results_of_a_template_that_is_gone_are_acknowledged_without_effect(world: CoreWorld):
    report(world, 1)
    world.settle()
    world.templates = ()
    world.core.use(world.settings())
    report(world, 2)
    assert world.acks("1") == {"r/near": 2} and len(world.rows("near")) == 1
    world.send("1", "r", "never", body=b"[]")
    assert world.core.counts.refused == 1


def test_rows_that_waited_at_a_crash_go_to_the_group_that_they_are_of(world: CoreWorld):
    def both() -> list[dict[str, Any]]:
        source = world.source("cars", [*HEAD, ["note", "string"]], "device")
        return [{"devices": "boats", "stream": "location", "source": source}, *plain()]

    plain, world.groups = world.streams, {"phones": ["1"], "boats": ["9"]}
    world.streams = both  # type: ignore[method-assign]
    world.open_again()
    world.send("1", "s", "location", body=write_sent([Sent(1, 1, (("here",),))]))
    world.core.commit(world.now_s)
    world.open_again()
    world.settle()
    assert [row[3] for row in world.rows("location")] == ["here"] and world.rows("cars") == []


def test_saying_again_and_again_that_it_knows_nothing_brings_a_history_once(world: CoreWorld):
    world.visit("1", 1, 2, 3)
    take(world, "2", TakeStream("visits", "1", 0.0))
    world.settle()
    seen = 0
    for _ in range(10):
        world.send("2", "hello", body=write_hello(Hello(0, ())), wait_s=0.5)
        world.core.send_due(world.now_s)
        seen += len(world.taken_by("2", world.core.take_out()))
    assert seen <= 2


def test_a_late_end_of_an_earlier_connection_does_not_cut_a_device_off(world: CoreWorld):
    """The broker delivers a last will again when it was killed before that was acknowledged."""
    take(world, "2", TakeStream("location", "1", 0.0))
    for connection in (10, 20):
        world.send("2", "hello", body=write_hello(Hello(1, (), connection=connection)))
    world.send("2", "gone", body=write_gone(10))
    world.send("1", "s", "location", body=write_sent([Sent(5, 1005, (("here",),))]))
    assert b'"here"' in b"".join(world.taken_by("2", world.settle()))
    world.send("2", "gone", body=write_gone(20))
    world.send("1", "s", "location", body=write_sent([Sent(6, 1006, (("there",),))]))
    assert world.taken_by("2", world.settle()) == []


def test_a_device_that_connects_anew_gets_the_newest_rows_even_if_an_earlier_hello_came_late(world: CoreWorld):
    """A broker that was killed delivers again what devices said before; what is sent down meanwhile reaches nobody."""
    take(world, "2", TakeStream("location", "1", 0.0))
    world.send("1", "s", "location", body=write_sent([Sent(5, 1005, (("here",),))]))
    world.core.begin_connection(world.now_s)
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=10)))
    assert world.taken_by("2", world.settle())
    for connection, is_told in ((20, True), (20, False)):
        world.send("2", "hello", body=write_hello(Hello(1, (), connection=connection)))
        assert bool(world.taken_by("2", world.settle())) == is_told


def test_a_device_that_lacks_rows_and_leaves_gets_them_when_it_is_back(world: CoreWorld):
    take(world, "2", TakeStream("visits", "1", 0.0))
    world.visit("1", 1)
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=10)))
    world.settle()
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=10, lacks=True)))
    world.send("2", "gone", body=write_gone(10))
    assert world.taken_by("2", world.settle()) == [], "the broker would keep it"
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=11)))
    assert b'"v1"' in b"".join(world.taken_by("2", world.settle() + world.settle()))


def test_a_device_that_lacks_rows_gets_its_histories_again(world: CoreWorld):
    take(world, "2", TakeStream("visits", "1", 0.0))
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=10)))
    world.visit("1", 1, 2)
    assert b'"v2"' in b"".join(world.taken_by("2", world.settle()))
    for _ in range(2):  # the second is not forgotten, only later
        world.send("2", "hello", body=write_hello(Hello(1, (), connection=10, lacks=True)))
        world.core.send_due(world.now_s)
        again = b"".join(world.taken_by("2", world.settle() + world.settle()))
        assert b'"v1"' in again and b'"v2"' in again
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=10)))
    assert world.taken_by("2", world.settle()) == []


def test_documents_and_tables_that_did_not_come_are_asked_for_again(world: CoreWorld):
    """A broker that was killed may send the first who comes none of what it retains."""
    world.core.begin_connection(world.now_s)
    asked = world.core.retained
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=10)))
    assert not asked.take_due(world.now_s), "it may be on its way"
    assert asked.take_due(world.now_s + 5) and not asked.take_due(world.now_s + 5)
    take(world, "2", TakeStream("location", "1", 0.0), TakeStream("places", CLOUD, 0.0))
    assert asked.take_due(world.now_s + 50), "the table"
    table = write_table(PROJECT, "places", Sent(1, 1, (("here",),)))
    for topic, body in table.bodies.items():
        world.core.handle(Arrived(topic, body, True), world.now_s)
    assert not asked.take_due(world.now_s + 10_000)
    world.send("2", "took", body=write_took(Took(1, {})))
    assert not asked.take_due(world.now_s + 10_000)
    world.send("2", "took", body=write_took(Took(2, {})))
    assert asked.take_due(world.now_s + 10_000), "the device runs a later one than is known here"
    world.core.begin_connection(world.now_s)
    assert not asked.take_due(world.now_s + 20_000), "everything is asked for with each connection"


def test_what_is_never_there_is_asked_for_ever_less_often(world: CoreWorld):
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=10)))
    began_s = world.now_s
    asked = [second for second in range(86_400) if world.core.retained.take_due(began_s + second)]
    assert asked[:5] == [1, 3, 7, 15, 31] and len(asked) < 160


def test_a_device_that_makes_up_documents_has_the_broker_asked_no_more_often(world: CoreWorld):
    take(world, "2")
    asked = 0
    for second in range(3600):
        world.send("2", "hello", body=write_hello(Hello(1000 + second, (), connection=10)), wait_s=1.0)
        if world.core.retained.take_due(world.now_s):
            asked += 1
            take(world, "2")  # it comes, and is not what the device says
    assert asked < 20
    world.send("3", "hello", body=write_hello(Hello(1, (), connection=10)))
    assert world.core.retained.take_due(world.now_s + 2), "another one is still asked for at once"


HOUR_MS, MARGIN_MS = 3_600_000, 600_000


def test_rows_that_are_too_old_are_deleted_from_the_source_and_the_others_stay(world: CoreWorld):
    world.visit("1", 1, 2, 3)
    world.send("2", "s", "location", body=write_sent([Sent(1, 1, (("here",),))]))
    world.settle()
    assert world.forget(1002 + HOUR_MS) and len(world.net_numbers("visits")) == 3, "a clock may be wrong a little"
    assert world.forget(1003 + HOUR_MS + MARGIN_MS)
    assert world.net_numbers("visits") == {("1", 3)}
    assert world.net_numbers("location") == {("2", 1)}, "the latest row stays, however old it is"
    assert [seq for seq, _ in world.store.history("1", "visits", 0, 10)] == [3]
    files = len(list_files(world.directory / "inboxes" / "visits", 100))
    assert world.forget(1003 + HOUR_MS + MARGIN_MS)
    assert len(list_files(world.directory / "inboxes" / "visits", 100)) == files, "nothing is deleted twice"


def test_a_row_that_comes_too_late_to_count_is_deleted_after_it_was_written(world: CoreWorld):
    world.visit("1", 1)
    world.core.commit(world.now_s)
    world.visit("1", 2)  # neither of them is in the inbox yet
    assert world.forget(9000 + HOUR_MS + MARGIN_MS)
    assert world.net_numbers("visits") == {("1", 2)}, "it is not on disk yet, and goes the next time"
    assert world.forget(9000 + HOUR_MS + MARGIN_MS)
    assert world.net_numbers("visits") == set()
    assert world.acks("1") == {"visits": 2}, "it was taken, and the device need not send it again"


def test_a_crash_after_deletion_does_not_bring_rows_back(world: CoreWorld):
    world.visit("1", 1, 2)
    world.core.commit(world.now_s)
    assert world.forget(9000 + HOUR_MS + MARGIN_MS)
    world.open_again()
    world.settle()
    assert world.net_numbers("visits") == set()


def test_what_is_too_old_is_forgotten_in_parts(world: CoreWorld, monkeypatch):
    monkeypatch.setattr(router_core, "FORGOTTEN_AT_ONCE", 2)
    world.visit("1", 1, 2, 3)
    world.settle()
    assert not world.forget(9000 + HOUR_MS + MARGIN_MS) and world.net_numbers("visits") == {("1", 3)}
    assert world.forget(9000 + HOUR_MS + MARGIN_MS) and world.net_numbers("visits") == set()


def test_rows_are_forgotten_only_if_their_deletion_could_be_written(world: CoreWorld):
    world.visit("1", 1)
    world.settle()
    inbox = world.directory / "inboxes" / "visits"
    inbox.rename(inbox.with_name("elsewhere"))
    inbox.write_text("not a folder")
    with pytest.raises(ConnectError):
        world.forget(9000 + HOUR_MS + MARGIN_MS)
    inbox.unlink()
    inbox.with_name("elsewhere").rename(inbox)
    assert world.forget(9000 + HOUR_MS + MARGIN_MS) and world.net_numbers("visits") == set()


def publish_table(world: CoreWorld, seq: int, rows: int, only: slice = slice(None)) -> int:
    """The cloud publishes a table, or some of its parts; how many there are."""
    made = write_table(PROJECT, "offers", Sent(seq, 0, tuple((number, "x" * 1000) for number in range(rows))))
    for topic, body in list(made.bodies.items())[only]:
        world.core.handle(Arrived(topic, body, True), world.now_s)
    return len(made.bodies) - 1


def tables_of(world: CoreWorld, taker: str, rounds: int = 30) -> list[Sent]:
    """What a device that puts parts together gets."""
    return tables_of_each(world, (taker,), rounds)[taker]


def tables_of_each(world: CoreWorld, takers: tuple[str, ...], rounds: int = 30) -> dict[str, list[Sent]]:
    parts, found = {one: TableParts() for one in takers}, {one: list[Sent]() for one in takers}
    for _ in range(rounds):
        out = world.settle()
        for taker in takers:
            for one in (one for body in world.taken_by(taker, out) for one in read_taken(body)):
                whole = one.sent if one.parts == 1 else parts[taker].add(one)
                found[taker] += [] if whole is None else [whole]
    return found


def test_a_large_table_goes_down_in_parts_once_all_of_it_is_here(world: CoreWorld):
    for taker in ("2", "3"):
        take(world, taker, TakeStream("offers", CLOUD, 0.0))
    assert publish_table(world, 7, 3000, slice(0, 5)) > 10
    assert tables_of_each(world, ("2", "3"), 3) == {"2": [], "3": []}
    for _ in range(2):  # what is retained comes again with every connection
        publish_table(world, 7, 3000)
    for (table,) in tables_of_each(world, ("2", "3")).values():
        assert table.seq == 7 and [row[0] for row in table.rows] == list(range(3000))
    assert world.core.counts.refused == 0


def test_a_table_that_grows_and_shrinks_is_always_one_of_its_versions(world: CoreWorld):
    take(world, "2", TakeStream("offers", CLOUD, 0.0))
    seen = []
    for seq, rows in enumerate((5, 3000, 4000, 2000, 3, 3000), start=1):
        publish_table(world, seq, rows)
        seen += [(one.seq, len(one.rows)) for one in tables_of(world, "2")]
    assert seen == [(1, 5), (2, 3000), (3, 4000), (4, 2000), (5, 3), (6, 3000)]


def test_a_version_that_is_replaced_on_its_way_is_not_sent_to_the_end(world: CoreWorld):
    take(world, "2", TakeStream("offers", CLOUD, 0.0))
    publish_table(world, 1, 9000)
    assert tables_of(world, "2", 2) == []
    publish_table(world, 2, 2000)
    assert [(one.seq, len(one.rows)) for one in tables_of(world, "2")] == [(2, 2000)]


def test_a_device_that_was_away_gets_a_large_table_from_its_first_part(world: CoreWorld):
    take(world, "2", TakeStream("offers", CLOUD, 0.0))
    publish_table(world, 1, 9000)
    tables_of(world, "2", 2)
    world.send("2", "gone", body=write_gone(0))
    assert tables_of(world, "2", 30) == []
    world.send("2", "hello", body=write_hello(Hello(1, (), connection=5)))
    assert [len(one.rows) for one in tables_of(world, "2", 70)] == [9000]


def test_a_part_of_another_table_is_refused(world: CoreWorld):
    made = write_table(PROJECT, "offers", Sent(1, 0, tuple((number, "x" * 1000) for number in range(3000))))
    for body in list(made.bodies.values())[:-1]:
        world.core.handle(Arrived(cloud_topic(PROJECT, PARTS, "prices", "0"), body, True), world.now_s)
    assert world.core.counts.refused == len(made.bodies) - 1


SPOT_STEPS = st.one_of(
    st.tuples(st.just("value"), st.sampled_from(("1", "2")), st.lists(st.sampled_from("xyz"), max_size=4)),
    st.tuples(st.just("settle")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("restart")),
)


@settings(max_examples=examples(80))
@given(steps=st.lists(SPOT_STEPS, max_size=15))
def test_the_source_of_a_derived_stream_has_the_rows_of_the_last_value(steps: list[tuple[Any, ...]]):
    """A value replaces all rows of the one before, also when the router ends between keeping it and passing it on."""
    with tempfile.TemporaryDirectory() as folder:
        world = CoreWorld(Path(folder))
        kept: dict[str, list[str]] = {}
        taken: dict[str, list[str]] = {}
        for number, step in enumerate(steps, 1):
            match step:
                case ("value", device, notes):
                    world.spots(device, number, *notes)
                    taken[device] = notes
                case ("settle",):
                    world.settle()
                    kept |= taken
                case ("commit",):
                    world.core.commit(world.now_s)
                    kept |= taken
                case ("restart",):
                    world.open_again()
                    taken = {}
        world.settle()
        kept |= taken
        expected = {(device, at): (device, at, one) for device, found in kept.items() for at, one in enumerate(found)}
        assert world.net_rows("spot", 2) == expected
        world.store.close()


def test_a_value_that_does_not_fit_leaves_the_one_before(world: CoreWorld):
    world.spots("1", 1, "inn", "bar")
    world.send("1", "s", "spot", body=write_sent([Sent(2, 2, ((5.0, 6.0),))]))
    world.send("1", "s", "spot", body=write_sent([Sent(3, 3, (("x",),) * 1001)]))
    world.core.commit(world.now_s)
    assert world.core.counts.refused == 2
    world.open_again()
    assert world.core.intake.set_aside == 0
    world.settle()
    assert sorted(row[2] for row in world.net_rows("spot", 2).values()) == ["bar", "inn"]
    world.spots("1", 4)
    world.settle()
    assert not world.net_rows("spot", 2)
