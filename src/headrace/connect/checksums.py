"""Checksums of files: one for each block of 1 MB, and a root over these, which the ledger keeps with the file's name.

CRC-32 finds every change of up to 32 bits in a row, and others but for one in four thousand million. It comes with
Python and sums up 1 GB in a second. It is no protection against somebody who changes files on purpose.

A file of one block needs nothing beside it. Beside a larger one lies a file with the checksums of its blocks (`.sums`),
so that a reader who looks up a few rows can check the first and the last block, which say where everything is, without
reading the rest. It also has the time at which the file was last written: nobody writes to a file again, so that one
with another time is checked as a whole before anything of it is used. If the file of checksums is lost or damaged, the
root still tells whether the whole is right.
"""

from __future__ import annotations

import math
import os
import struct
import time
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

BLOCK = 1 << 20
REMEMBERED = 50_000
"""Files that this process knows to be right. When there are more, it forgets all and checks again."""

_HEADER = struct.Struct("<8sq")
_MAGIC = b"HRSUMS1\n"
_SUM = struct.Struct("<I")

_Identity = tuple[int, int, int, int, int]
_known: dict[_Identity, bool] = {}
"""By device, inode, time of the last write, size and root: whether all of it was checked, or its first and last block.
Of this process, whatever the number of stores: workers get a new store with every item."""


FRESH_S = 60.0
_written: dict[_Identity, float] = {}
"""When this process wrote a file. Whoever reads it within so many seconds, mostly the next push of the same chain, gets
what is still in memory: that has been summed up already."""


def sum_blocks(content: memoryview | bytes) -> bytes:
    view = memoryview(content)
    return b"".join(_SUM.pack(zlib.crc32(view[at : at + BLOCK])) for at in range(0, max(1, len(view)), BLOCK))


def root_of(sums: bytes) -> int:
    return zlib.crc32(sums)


class SummingFile:
    """A file to write to, of which the blocks are summed up on the way."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sums: list[int] = []
        self._sum, self._in_block = 0, 0
        self.bytes = 0
        self.closed = False

    def write(self, data: memoryview | bytes) -> int:
        view = memoryview(data).cast("B")
        self._file.write(view)
        at = 0
        while at < len(view):
            part = view[at : at + BLOCK - self._in_block]
            self._sum = zlib.crc32(part, self._sum)
            at, self._in_block = at + len(part), self._in_block + len(part)
            if self._in_block == BLOCK:
                self._end_block()
        self.bytes += len(view)
        return len(view)

    def _end_block(self) -> None:
        self._sums.append(self._sum)
        self._sum, self._in_block = 0, 0

    def finish(self, durable: bool) -> tuple[bytes, os.stat_result]:
        """The checksums of the blocks, and the file as it is now that all is written.

        Its time is set to the nanosecond: that of the kernel stands still for milliseconds, in which somebody might
        write to the file again.
        """
        if self._in_block or not self._sums:
            self._end_block()
        self._file.flush()
        number, now = self._file.fileno(), time.time_ns()
        os.utime(number, ns=(now, now))
        if durable:
            os.fsync(number)
        return b"".join(map(_SUM.pack, self._sums)), os.fstat(number)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """`finish` does."""

    def close(self) -> None:
        self._file.close()
        self.closed = True


# Beside a file


def sums_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sums")


def pack_sums(sums: bytes, written_ns: int) -> bytes:
    """What to write there. It need not be durable: without it the file is checked as a whole."""
    return _HEADER.pack(_MAGIC, written_ns) + sums


def read_sums(path: Path, root: int) -> tuple[bytes, int] | None:
    """The checksums beside a file, and when it was written; None if they are not there, or not those of the root."""
    try:
        found = sums_beside(path).read_bytes()
    except OSError:
        return None
    if len(found) < _HEADER.size or found[: len(_MAGIC)] != _MAGIC or root_of(found[_HEADER.size :]) != root:
        return None
    return found[_HEADER.size :], _HEADER.unpack_from(found)[1]


# Checking


def is_right(found: os.stat_result, root: int, content: bytes) -> bool:
    """Whether this is the content of a file of one block."""
    who = identify(found, root)
    if not _is_right_as_a_whole(who):
        if root_of(sum_blocks(content)) != root:
            return False
        _remember(who, True)
    return True


def find_wrong_block(path: Path, found: os.stat_result, root: int, whole: bool) -> int | None:
    """The first block of a larger file that is not what was written, from 0 on; None if all that were checked are.

    Unless the `whole` is asked for, or somebody wrote to the file, only its first and last block are.
    """
    who = identify(found, root)
    if _is_right_as_a_whole(who) or (who in _known and not whole):
        return None
    beside = read_sums(path, root)
    whole = whole or beside is None or beside[1] != found.st_mtime_ns
    if beside is None or whole:
        wrong = _find_wrong(path, root, b"" if beside is None else beside[0])
    else:
        wrong = _find_wrong_end(path, beside[0])
    if wrong is None:
        _remember(who, whole)
    return wrong


def sum_file(path: Path) -> bytes:
    with path.open("rb", buffering=0) as file:
        return b"".join(_SUM.pack(zlib.crc32(block)) for block in iter(lambda: file.read(BLOCK), b""))


def sum_slowly(path: Path) -> Generator[int, None, int]:
    """Reads a file block by block, and yields the bytes of each; in the end returns its root.

    Whoever asks decides when to go on. Blocks are read, not mapped: of a mapped file that somebody cuts short, the
    process would be killed.
    """
    sums = []
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            sums.append(_SUM.pack(zlib.crc32(block)))
            yield len(block)
    return root_of(b"".join(sums) or sum_blocks(b""))


def _find_wrong_end(path: Path, sums: bytes) -> int | None:
    with path.open("rb", buffering=0) as file:
        for block in (0, len(sums) // _SUM.size - 1):
            content = os.pread(file.fileno(), BLOCK, block * BLOCK)
            if zlib.crc32(content) != _SUM.unpack_from(sums, block * _SUM.size)[0]:
                return block
    return None


def _find_wrong(path: Path, root: int, expected: bytes) -> int | None:
    """Checks a whole file. Which block is wrong only the checksums beside it tell; without them it is the first."""
    sums = sum_file(path)
    if root_of(sums) == root:
        return None
    pairs = zip(_SUM.iter_unpack(sums), _SUM.iter_unpack(expected), strict=False)
    return next((block for block, (mine, other) in enumerate(pairs) if mine != other), 0)


def identify_known(found: os.stat_result, root: int, whole: bool) -> _Identity | None:
    """A file that this process has checked, as a whole if that is asked for; None if it has not."""
    who = identify(found, root)
    return who if _is_right_as_a_whole(who) or (who in _known and not whole) else None


def identify(found: os.stat_result, root: int) -> _Identity:
    """What makes a file the same file: nobody writes to one again."""
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, root


def remember_written(found: os.stat_result, root: int) -> None:
    """A file that this process has just written: its checksums are those of what it wrote."""
    if len(_written) >= REMEMBERED:
        _written.clear()
    _written[identify(found, root)] = time.monotonic()


def _is_right_as_a_whole(who: _Identity) -> bool:
    return _known.get(who, False) or _written.get(who, -math.inf) > time.monotonic() - FRESH_S


def _remember(who: _Identity, is_whole: bool) -> None:
    if len(_known) >= REMEMBERED:
        _known.clear()
    _known[who] = is_whole


def forget_known() -> None:
    """Forgets what this process has checked and written, as if it had just started."""
    _known.clear()
    _written.clear()
