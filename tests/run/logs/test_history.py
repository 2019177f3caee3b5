"""Which old changes are gathered: those next to each other that are of a size, and enough of them."""

from __future__ import annotations

from headrace.model.log import Log, Piece, PieceKind
from headrace.run.logs.history import FILES, LARGE, MOST, SMALL, SPAN, gathers_due

SECOND = 1_000_000
KEEP = 600 * SECOND


def change(number: int, size: int = 1000, file: str = "", step: int = SECOND) -> Piece:
    """The changes of one second, or of another time."""
    return Piece(PieceKind.CHANGE, file or f"file{number:05}", number * step, (number + 1) * step, 1, size)


def log(name: str, *pieces: Piece) -> Log:
    return Log(name, "m1", max(piece.upto for piece in pieces), 0, pieces)


def gathered(*logs: Log, upto: int | None = None, files: int = 4) -> list[tuple[tuple[str, ...], list[str]]]:
    found = gathers_due([(one, one.t if upto is None else upto) for one in logs], KEEP, files)
    return [(one.logs, [piece.file for piece in one.pieces]) for one in found]


def test_many_small_files_become_one():
    pieces = [change(number) for number in range(6)]
    assert gathered(log("a", *reversed(pieces))) == [(("a",), [piece.file for piece in pieces])]


def test_few_are_left_alone():
    assert gathered(log("a", *map(change, range(3)))) == []


def test_what_is_still_read_is_left_alone():
    assert gathered(log("a", *map(change, range(6))), upto=4 * SECOND) == [(("a",), [f"file{n:05}" for n in range(4)])]
    assert gathered(log("a", *map(change, range(6))), upto=4 * SECOND - 1) == []


def test_small_files_are_gathered_first_then_all_that_are_not_large():
    sizes = [LARGE] * 9 + [SMALL, 1000] * 2 + [1000] * 5
    pieces = [change(number, size) for number, size in enumerate(sizes)]
    (small,) = [files for _, files in gathered(log("a", *pieces))]
    assert small == [piece.file for piece in pieces[12:]]
    mixed = [change(number, size) for number, size in enumerate([LARGE] * 9 + [SMALL, 1000] * 4)]
    (rest,) = [files for _, files in gathered(log("a", *mixed))]
    assert rest == [piece.file for piece in mixed[9:]]


def test_no_file_becomes_too_large_or_spans_too_much():
    big = [change(number, LARGE - 1) for number in range(12)]
    assert [len(files) for _, files in gathered(log("a", *big), files=2)] == [MOST // (LARGE - 1)] * 3
    long = [change(number, step=round(SPAN * KEEP) // 4) for number in range(12)]
    assert [len(files) for _, files in gathered(log("a", *long))] == [4, 4, 4]


def test_logs_that_share_files_share_what_becomes_of_them_and_wait_for_each_other():
    pieces = [change(number) for number in range(6)]
    found = gathers_due([(log("a", *pieces), 6 * SECOND), (log("b", *pieces), 4 * SECOND)], KEEP, 4)
    assert [(one.logs, len(one.pieces)) for one in found] == [(("a", "b"), 4)]


def test_bases_and_runs_are_not_history():
    base = Piece(PieceKind.BASE, "base", -1, 10 * SECOND, 5, 100)
    index = Piece(PieceKind.INDEX, "index", 0, 10 * SECOND, 5, 100, ("k",))
    assert gathered(log("a", base, index, *map(change, range(3)))) == []


def test_a_day_of_pushes_is_few_files_and_no_row_is_written_more_than_twice_again():
    every, day = 15 * SECOND, 24 * 3600 * SECOND
    held, written = list[Piece](), 0
    for number in range(day // every):
        held.append(change(number, 20_000, step=every))
        for gather in gathers_due([(log("a", *held), (number + 1) * every)], day):
            first, last, size = gather.pieces[0], gather.pieces[-1], gather.bytes
            held = [piece for piece in held if piece not in gather.pieces]
            held.append(Piece(PieceKind.CHANGE, f"from {first.file}", first.after, last.upto, 1, size))
            written += size
        assert len(held) < 3 * FILES + 8
    assert written <= 2 * 20_000 * (day // every)
