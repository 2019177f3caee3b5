"""The Spark that a project gets: as it says, or as the machine has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connect.machine import core_count, memory_bytes
from headrace.model.options import DeclaredEngine, RunEngine
from headrace.site.engine.settings import cores_of, engine_to_start, heap_bytes, share_heap, spark_settings


@pytest.mark.parametrize(
    ("machine", "heap"), [(24e9, 6e9), (8e9, 2e9), (2e9, 1e9), (0, 1e9), (1e12, 30e9)], ids=lambda size: f"{size:g}"
)
def test_the_heap_is_a_quarter_of_the_machine_within_limits(machine: float, heap: float):
    assert heap_bytes(DeclaredEngine(), round(machine)) == heap


def test_a_declared_heap_is_taken_whatever_the_machine_has():
    assert heap_bytes(DeclaredEngine(memory=512e6), 24_000_000_000) == 512_000_000
    assert spark_settings(DeclaredEngine(memory=512e6), Path("x")).memory == "500000k"


def test_cores_are_those_of_the_master_or_the_declared_or_the_machine():
    found = [
        DeclaredEngine(),
        DeclaredEngine(cores=3),
        DeclaredEngine(master="local[4]"),
        DeclaredEngine(master="local"),
    ]
    assert [cores_of(one) for one in found] == [core_count(), 3, 4, 1]
    assert [spark_settings(one, Path("x")).master for one in found[1:]] == ["local[3]", "local[4]", "local[1]"]


def test_a_kind_that_was_asked_for_replaces_the_declared_one():
    declared = DeclaredEngine(RunEngine.LOCAL, cores=1)
    assert engine_to_start(declared, None) == declared
    assert engine_to_start(declared, RunEngine.SPARK) == DeclaredEngine(RunEngine.SPARK, cores=1)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:       8000000 kB\nMemFree: 1 kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8_192_000_000),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 8_192_000_000),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "2000000000\n"}, 2_000_000_000),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1000000000\n"}, 1_000_000_000),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "3000000000\n"}, 3_000_000_000),
        (
            {
                "proc/self/cgroup": "4:memory:/docker/x\n1:name=systemd:/docker/x\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "4000000000\n",
            },
            4_000_000_000,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n",
            },
            8_192_000_000,
        ),
    ],
)
def test_memory_is_what_the_machine_has_or_its_container_may_use(tmp_path: Path, files: dict[str, str], expected: int):
    assert memory_bytes(write(tmp_path, {**MEMINFO, **files})) == expected


def test_memory_of_a_machine_that_does_not_tell_is_unknown(tmp_path: Path):
    assert memory_bytes(tmp_path) == 0
    assert memory_bytes() > 0


@pytest.mark.parametrize(
    ("engines", "memory"),
    [
        ({"us": DeclaredEngine()}, None),
        ({"us": DeclaredEngine(), "eu": DeclaredEngine()}, 2e9),
        ({"us": DeclaredEngine(), "eu": DeclaredEngine(RunEngine.LOCAL)}, None),
        ({"us": DeclaredEngine(), "eu": DeclaredEngine(memory=1e9), "asia": DeclaredEngine()}, 2e9),
        ({"us": DeclaredEngine(memory=3e9), "eu": DeclaredEngine()}, 3e9),
        ({"us": DeclaredEngine(RunEngine.LOCAL), "eu": DeclaredEngine()}, None),
        ({"us": DeclaredEngine()} | {f"m{number}": DeclaredEngine() for number in range(15)}, 512e6),
    ],
)
def test_sites_on_one_machine_share_the_heap_of_one(engines: dict[str, DeclaredEngine], memory: float | None) -> None:
    assert share_heap(engines, "us", 16_000_000_000).memory == memory
