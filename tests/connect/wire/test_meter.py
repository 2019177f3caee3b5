"""What arrives over a link is counted while it arrives, over a real connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, IncompleteRead

import pytest

from headrace.connect.wire.meter import LinkMeter
from headrace.connect.wire.tcp import read_tcp_info


class SlowServer:
    """Answers with as many bytes as are asked for; sends the second half when it is told to."""

    def __init__(self) -> None:
        self.go_on, self.give_up = threading.Event(), False
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.thread = threading.Thread(target=self._answer, daemon=True)
        self.thread.start()

    def _answer(self) -> None:
        one, _ = self.server.accept()
        with one:
            size = int(one.recv(65536).split()[1].strip(b"/"))
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * (size // 2))
            assert self.go_on.wait(20)
            if not self.give_up:
                one.sendall(b"x" * (size - size // 2))


@pytest.fixture
def server() -> Iterator[SlowServer]:
    made = SlowServer()
    yield made
    made.go_on.set()
    made.thread.join(20)
    made.server.close()


def receive(server: SlowServer, meter: LinkMeter, size: int) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []

    def run() -> None:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
        try:
            connection.request("GET", f"/{size}")
            found.append(meter.read_body(connection.getresponse()))
        except IncompleteRead as error:
            found.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_half_of_an_answer_is_counted_while_the_other_half_waits(server: SlowServer) -> None:
    now = 0.0
    meter = LinkMeter(lambda: now)
    thread, found = receive(server, meter, 1000)
    for _ in range(2000):
        if meter.look().waiting_bytes == 500:
            break
        threading.Event().wait(0.01)
    assert (meter.look().counts[-1].arrived, meter.look().waiting_bytes) == (500, 500)
    now = 7.0
    assert meter.look().counts[-1].busy_s == 7.0, "it was busy all the time"
    server.go_on.set()
    thread.join(20)
    assert found == [b"x" * 1000]
    now = 20.0
    last = meter.look()
    assert (last.counts[-1].arrived, last.waiting_bytes, last.counts[-1].busy_s) == (1000, 0, 7.0)


def test_an_answer_that_ends_too_early_is_not_taken_for_whole(server: SlowServer) -> None:
    meter = LinkMeter()
    thread, found = receive(server, meter, 1000)
    server.give_up = True
    server.go_on.set()
    thread.join(20)
    assert isinstance(found[0], IncompleteRead)
    assert meter.look().waiting_bytes == 0


def test_the_kernel_tells_what_a_connection_has_carried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as one:
            other, _ = server.accept()
            with other:
                one.sendall(b"x" * 5000)
                got = 0
                while got < 5000:
                    got += len(other.recv(65536))
                sent, received = read_tcp_info(one), read_tcp_info(other)
                assert sent is not None and received is not None
                assert received.bytes_received == 5000
                assert sent.unsent_bytes == 0
                assert 0.0 < sent.rtt_s < 10.0
        assert read_tcp_info(one) is None
