"""Damages files as disks, people and other programs do."""

from __future__ import annotations

import os
from pathlib import Path


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    """Flips a bit of a byte, in place. The time of the last write becomes another one, however coarse the clock is."""
    before = path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(position)
        (value,) = file.read(1)
        file.seek(position)
        file.write(bytes([value ^ 1 << bit]))
    if path.stat().st_mtime_ns == before:
        os.utime(path, ns=(before + 1, before + 1))


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty_file(path: Path) -> None:
    os.truncate(path, 0)


def swap_files(one: Path, other: Path) -> None:
    if one == other:
        return
    aside = one.with_name(f"{one.name}.aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
