"""A real standalone cluster of Spark on this machine, and commands as people call them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


def answer_of(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "headrace", *map(str, arguments), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


@contextmanager
def cluster(folder: Path, memory: str = "1g") -> Iterator[tuple[str, list[Path]]]:
    """A master and two workers on this machine; their address, and the folders in which workers keep applications."""
    import pyspark

    from headrace.connect.spark.java import ensure_java

    ensure_java()
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    started: list[tuple[subprocess.Popen[str], threading.Thread]] = []

    def start(kind: str, says: str, *arguments: str) -> str:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert process.stderr is not None
        # Somebody has to read the rest of its log, or it stops when the pipe is full.
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        started.append((process, reader))
        said = _wait_for(process.stderr, says)
        reader.start()
        return said

    try:
        said = r"Starting Spark master at (spark://\S+)"
        address = start("master.Master", said, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        works = [folder / f"worker{number}" for number in (1, 2)]
        for work in works:
            options = ("-c", "1", "-m", memory, "-d", str(work), "--webui-port", "0")
            start("worker.Worker", "(Successfully registered with master)", address, *options)
        yield address, works
    finally:
        for process, _ in reversed(started):
            process.terminate()
        for process, reader in started:
            process.wait(timeout=60)
            if reader.is_alive():
                reader.join(timeout=60)
            assert process.stderr is not None
            process.stderr.close()


def _wait_for(log: IO[str], pattern: str) -> str:
    """Reads a log until it says something."""
    for line in log:
        found = re.search(pattern, line)
        if found:
            return found[1]
    raise AssertionError(f"ended before it said {pattern!r}")
