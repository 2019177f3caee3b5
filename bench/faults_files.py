"""Faults of files: pieces that change or disappear, a disk that is full or cannot be written, Delta tables."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench.faults_model import CannotTry, Expected, Fault, Part, fault
from bench.faults_world import World

READ_ANEW, STOPPED, UNTOUCHED = Expected.READ_ANEW, Expected.STOPPED, Expected.UNTOUCHED
SMALL_DISK = Part(small_disk=True)
DELTA = Part(
    contracts="  listed: {view: people, at: eu, freshness: 8 s, deliver: {delta: out/people}}",
)


def _pieces(world: World) -> list[Path]:
    """The largest files of rows, which views are read from."""
    files = [file for file in (world.folder.root / "data").rglob("*.arrow") if not file.name.startswith(".")]
    return sorted(files, key=lambda file: file.stat().st_size, reverse=True)


@fault("a bit of a file flips on disk", READ_ANEW)
def flip_bit(world: World) -> Iterator[None]:
    for piece in _pieces(world)[:3]:
        with piece.open("r+b") as file:
            file.seek(piece.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 4]))
    yield


@fault("files of rows are deleted", READ_ANEW)
def delete_pieces(world: World) -> Iterator[None]:
    for piece in _pieces(world)[:3]:
        piece.unlink()
    yield


@fault("files of rows are cut short", READ_ANEW)
def cut_pieces(world: World) -> Iterator[None]:
    for piece in _pieces(world)[:3]:
        with piece.open("r+b") as file:
            file.truncate(piece.stat().st_size // 2)
    yield


@fault("the disk of the project is full", STOPPED, SMALL_DISK)
def fill_disk(world: World) -> Iterator[None]:
    ballast = world.folder.root / "ballast"
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            file.write(b"x" * 65536)
            file.flush()
    yield
    ballast.unlink()


@fault("the service is killed, and `up` finds a disk that is read-only", STOPPED, SMALL_DISK)
def read_only_disk(world: World) -> Iterator[None]:
    world.kill_service()  # a disk that is written to cannot be made read-only
    _remount(world, "ro")
    world.up()
    yield
    _remount(world, "rw")
    world.up()


def _remount(world: World, how: str) -> None:
    command = ["mount", "-o", f"remount,{how}", str(world.folder.root)]
    for _ in range(20):  # processes that wrote there may still be ending
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode == 0:
            return
        time.sleep(1.0)
    raise CannotTry(f"the disk cannot be mounted anew: {made.stderr.strip().splitlines()[0]}")


def _delta_is_equal(world: World) -> bool:
    """Whether the Delta table holds what its view's query gives, within some seconds."""
    from deltalake import DeltaTable

    wanted = sorted(world.eu("SELECT id, name, country FROM customers"))
    for _ in range(20):
        with suppress(Exception):  # it may not be there, or not whole
            rows = DeltaTable(str(world.project / "out" / "people")).to_pyarrow_table().to_pylist()
            if sorted((row["id"], row["name"], row["country"]) for row in rows) == wanted:
                return True
        time.sleep(1.0)
    return False


def _touch_people(world: World) -> None:
    """Something to deliver."""
    world.eu("UPDATE customers SET country = 'c9' WHERE id < 50")


@fault("the folder of a Delta table is deleted", READ_ANEW, DELTA, _delta_is_equal)
def delete_delta(world: World) -> Iterator[None]:
    shutil.rmtree(world.project / "out" / "people")
    _touch_people(world)
    yield


@fault("a file of a Delta table is deleted", READ_ANEW, DELTA, _delta_is_equal)
def delete_delta_file(world: World) -> Iterator[None]:
    for file in (world.project / "out" / "people").glob("*.parquet"):
        file.unlink()
    _touch_people(world)
    yield


@fault("somebody else writes to a Delta table", READ_ANEW, DELTA, _delta_is_equal)
def edit_delta(world: World) -> Iterator[None]:
    from deltalake import DeltaTable

    DeltaTable(str(world.project / "out" / "people")).delete("id < 20")
    _touch_people(world)
    yield


@fault("the folder of a Delta table cannot be written", STOPPED, DELTA, _delta_is_equal)
def read_only_delta(world: World) -> Iterator[None]:
    folder = str(world.project / "out" / "people")
    for how in ("bind", "remount,ro,bind"):
        made = subprocess.run(["mount", "-o", how, folder, folder], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise CannotTry(f"no folder can be made read-only here: {made.stderr.strip()}")
    _touch_people(world)
    yield
    subprocess.run(["umount", "-l", folder], check=True)


@fault("the service is killed while it delivers to a Delta table", STOPPED, DELTA, _delta_is_equal)
def kill_during_delta(world: World) -> Iterator[None]:
    for number in range(20):
        world.eu(f"UPDATE customers SET country = 'd{number}'")
        time.sleep(0.1)
    world.kill_service()
    _touch_people(world)
    yield
    world.up()


FAULTS: tuple[Fault, ...] = (
    *(flip_bit, delete_pieces, cut_pieces, fill_disk, read_only_disk, delete_delta, delete_delta_file, edit_delta),
    *(read_only_delta, kill_during_delta),
)
