"""Damaged files: nobody gets a wrong row, all damage is found, and what a file held is made again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.connect.files import FileStore
from headrace.meaning.zset import ZSet
from headrace.model.damage import DamagedFile, DamageKind, FileDamage
from headrace.model.log import NEVER, Commit, Edit, Log, Piece, PieceKind
from headrace.run.logs.rebuild import CHECKED_WHOLE, find_concerned, plan_rebuild
from headrace.run.logs.rebuilding import forget_damaged, rebuild_indexes
from headrace.run.logs.upkeep import Upkeep
from headrace.site.scrub import FILE_COSTS, Scrub
from headrace.testing import changes, tables
from headrace.testing.damage import cut_short, empty_file, flip_bit, swap_files
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.examples import examples
from tests.run.test_engine import check, world_of

VIEWS = [
    "SELECT r.name, s.label FROM r JOIN s ON r.k = s.k",
    "SELECT r.k, count(*) AS c, min(r.n) AS n FROM r GROUP BY r.k",
    "SELECT r.id, t.name FROM r LEFT JOIN t ON r.k = t.k",
    "SELECT * FROM s",
]
ROW = (1, 1, 1, 1.0, None, "a", None, None, True)


def damage_file(data: st.DataObject, path: Path, other: Path) -> None:
    """In any of the ways that files are damaged."""
    ways: list[Callable[[], None]] = [
        path.unlink,
        lambda: cut_short(path),
        lambda: empty_file(path),
        lambda: swap_files(path, other),
        lambda: flip_bit(path, data.draw(st.integers(0, path.stat().st_size - 1)), data.draw(st.integers(0, 7))),
    ]
    data.draw(st.sampled_from(ways))()


def files_of(world: RunningWorld) -> list[tuple[str, Path]]:
    """All files that logs name, each with the kind of log and piece, so that every kind is drawn."""
    found = {
        world.store.root / log.site / piece.file: f"{'spool' if log.name.startswith('spool:') else ''}{piece.kind}"
        for log in world.ledger.logs().values()
        for piece in log.pieces
    }
    return sorted((kind, path) for path, kind in found.items())


def scrub_of(world: RunningWorld) -> Scrub:
    return Scrub(world.ledger, world.lease, world.store, threading.Event(), lambda: None)


def check_all_files(world: RunningWorld) -> None:
    """Once round."""
    scrub = scrub_of(world)
    scrub.look()
    scrub.check(scrub.progress.bytes + FILE_COSTS * scrub.progress.files + 1)


def mend(world: RunningWorld) -> None:
    """What the service does, until nothing is damaged."""
    for _ in range(20):
        damaged = world.store.damaged()
        if not damaged and not world.engine.missing():
            return
        rebuild = plan_rebuild(damaged, world.program, world.ledger.logs(), ())
        for one in rebuild.unneeded:
            world.store.forget_damage(one.site, one.file)
        world.read_again(rebuild.sources)
        forget_damaged(world.engine, rebuild)
        try:
            rebuild_indexes(Upkeep(world.engine), rebuild.indexes)
            world.engine.load()
        except RuntimeError as error:
            if "DamagedFile" not in str(error):  # else it met more of the damage
                raise
    raise AssertionError(f"not mended: {world.store.damaged()}")


@settings(deadline=None, max_examples=examples(12), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_is_damaged_no_view_is_wrong_and_all_of_it_is_made_again(data):
    with quick_folder() as folder:
        world = world_of(VIEWS, "m1", Path(folder), keys={"r": ("id",)} if data.draw(st.booleans()) else {})
        upkeep = Upkeep(world.engine, keep=0 if data.draw(st.booleans()) else 10**12, gather_files=3)
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
        for _ in range(data.draw(st.integers(0, 6))):
            push_some(data, world)
            while data.draw(st.booleans()) and upkeep.step():
                pass
            upkeep.trim(world.now)
            upkeep.sweep(1e12, grace=0.0)
        for _ in range(data.draw(st.integers(1, 3))):
            kinds = sorted({kind for kind, _ in files_of(world)})
            kind = data.draw(st.sampled_from(kinds))
            of_kind = [
                path for other, path in files_of(world) if other == kind and path.is_file() and path.stat().st_size
            ]
            if of_kind:
                damage_file(data, data.draw(st.sampled_from(of_kind)), data.draw(st.sampled_from(of_kind)))
        push_some(data, world)
        assert_nobody_reads_a_wrong_row(world)
        check_all_files(world)
        mend(world)
        for _ in range(2):
            push_some(data, world)
        check(world.engine.push(list(world.program.tasks), world.now))
        assert world.wrong() == []
        check_all_files(world)
        assert world.store.damaged() == []


def push_some(data: st.DataObject, world: RunningWorld) -> None:
    """A push fails where it meets damage, and only there."""
    world.capture(data.draw(changes(world.history[world.now])))
    chosen = data.draw(st.lists(st.sampled_from(sorted(world.program.tasks)), min_size=1, max_size=5))
    for one in world.engine.push(chosen, world.engine.watermark(chosen)):
        assert one.error is None or "DamagedFile" in one.error or "input" in one.error, one.error
        assert not one.halted, "a damaged file is no bad row"


def assert_nobody_reads_a_wrong_row(world: RunningWorld) -> None:
    try:
        assert world.wrong() == []
    except DamagedFile:
        assert world.store.damaged()


def test_indexes_that_are_lost_are_built_again(tmp_path: Path):
    world = world_of(VIEWS, "m1", tmp_path)
    world.capture({"r": ZSet([(ROW, 1)])})
    world.engine.load()
    lost = [(log.site, p.file) for log in world.ledger.logs().values() for p in log.of_kind(PieceKind.INDEX)]
    assert lost
    for site, file in lost:
        world.store.delete(site, file)
    scrub_of(world).look()
    assert {(one.site, one.file, one.kind) for one in world.store.damaged()} == {
        (site, file, DamageKind.MISSING) for site, file in lost
    }
    before = world.ledger.times()
    mend(world)
    assert world.ledger.times() == before, "nothing else is made again"
    world.capture({"s": ZSet([((1, 1, None, "x", None), 1)])})
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []


def test_what_a_wrong_row_of_a_large_index_led_to_is_made_again(tmp_path: Path):
    """A lookup checks the ends of a large index alone: the scrub finds the damage, and what was looked up is redone."""
    world = world_of([VIEWS[0]], "m1", tmp_path)
    rows = [(n, n, 1, 1.0, None, f"{n:04} {'x' * 500}", None, None, True) for n in range(6_000)]
    world.capture({"r": ZSet([(row, 1) for row in rows]), "s": ZSet([((-1, -1, None, "x", None), 1)])})
    world.engine.load()
    indexes = [
        (piece.bytes, world.store.root / log.site / piece.file)
        for log in world.ledger.logs().values()
        for piece in log.of_kind(PieceKind.INDEX)
    ]
    size, path = max(indexes)
    assert size > 3 * CHECKED_WHOLE
    number = damage_value(path)
    world.capture({"s": ZSet([((number, number, None, "x", None), 1)])})
    check(world.engine.push(list(world.program.tasks), world.now))
    assert "y" in str(world.wrong()), "a lookup found it"
    check_all_files(world)
    found = {one.file for one in world.store.damaged()}
    assert path.name in found and all(path.samefile(path.with_name(name)) for name in found), "under all its names"
    mend(world)
    assert world.wrong() == []


def damage_value(path: Path) -> int:
    """Changes a text in the middle as a disk does it, without anybody who writes; returns whose."""
    written, content = path.stat(), path.read_bytes()
    at = content.index(b" x", len(content) // 2)
    path.write_bytes(content[: at + 1] + b"y" + content[at + 2 :])
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    return int(content[at - 4 : at])


def test_files_of_an_earlier_version_get_checksums_while_their_logs_move_on(tmp_path: Path):
    world = world_of(VIEWS, "m1", tmp_path)
    world.capture({"r": ZSet([(ROW, 1)])})
    world.engine.load()
    forget_roots(world)
    scrub = scrub_of(world)
    scrub.look()
    assert scrub.progress.unsummed == scrub.progress.files > 0
    scrub.check(scrub.progress.bytes + FILE_COSTS * scrub.progress.files + 1)
    world.capture({"s": ZSet([((1, 1, None, "x", None), 1)])})
    check(world.engine.push(list(world.program.tasks), world.now))
    scrub.look()
    scrub.look()
    assert scrub.progress.unsummed == 0 and scrub.progress.round_s > 0
    assert world.wrong() == [] and world.store.damaged() == []


def forget_roots(world: RunningWorld) -> None:
    """As version 0.2 left them."""
    import sqlite3

    with sqlite3.connect(world.folder / "ledger.db") as connection:
        connection.execute("UPDATE pieces SET root = NULL")


# Decisions


def test_a_large_index_that_was_read_with_wrong_content_makes_its_readers_suspect(tmp_path: Path):
    """Whoever looked something up in it may have found a wrong row; in one that was gone nobody has."""
    world = world_of([VIEWS[0]], "m1", tmp_path)
    world.capture({"r": ZSet([(ROW, 1)])})
    world.engine.load()
    logs = dict(world.ledger.logs())
    name, log = next((name, log) for name, log in logs.items() if log.of_kind(PieceKind.INDEX))
    readers = {vertex for vertex, task in world.program.tasks.items() if name in task.reads}
    large = Piece(PieceKind.INDEX, "large", NEVER, log.t, 1, CHECKED_WHOLE + 1, log.of_kind(PieceKind.INDEX)[0].key)
    logs[name] = Log(log.name, log.site, log.t, log.start, (*log.pieces, large))

    def rebuild_of(kind: DamageKind):
        return plan_rebuild([FileDamage(log.site, "large", kind, "", 0.0)], world.program, logs, ())

    gone = rebuild_of(DamageKind.MISSING)
    assert gone.indexes == {name: {large.key}} and not gone.vertices and not gone.sources
    changed = rebuild_of(DamageKind.CONTENTS)
    made_again = changed.vertices | {vertex for one in changed.sources for vertex in find_readers(world, one)}
    assert readers <= made_again and made_again


def test_rows_that_nobody_else_has_are_never_read_again(tmp_path: Path):
    """Their indexes are made again from them; if they are damaged themselves, all that is there stays."""
    world = world_of([VIEWS[0]], "m1", tmp_path)
    world.capture({"r": ZSet([(ROW, 1)])})
    world.engine.load()
    logs = dict(world.ledger.logs())
    name, log = next((name, log) for name, log in logs.items() if log.of_kind(PieceKind.INDEX) and "r@" in name)
    (key,) = {piece.key for piece in log.of_kind(PieceKind.INDEX)}
    large = Piece(PieceKind.INDEX, "large", NEVER, log.t, 1, CHECKED_WHOLE + 1, key)
    logs[name] = Log(log.name, log.site, log.t, log.start, (*log.pieces, large))

    def rebuild_of(file: str, *only_copies: str):
        damage = FileDamage(log.site, file, DamageKind.CONTENTS, "", 0.0)
        return plan_rebuild([damage], world.program, logs, (), only_copies)

    assert rebuild_of("large").sources == rebuild_of(log.contents[0].file).sources == {"r"}
    index, rows = rebuild_of("large", "r"), rebuild_of(log.contents[0].file, "r")
    assert index.indexes == {name: {key}} and not index.sources and not index.lost
    assert rows.lost.keys() == {name} and not (rows.sources or rows.vertices or rows.indexes or rows.starts)


def find_readers(world: RunningWorld, source: str) -> set[str]:
    damage = FileDamage("x", "f", DamageKind.MISSING, "", 0.0)
    spool = Log(f"spool:{source}", "x", 1, 0, (Piece(PieceKind.CHANGE, "f", 0, 1, 1, 1),))
    return set(find_concerned([damage], world.program, {spool.name: spool}))


def test_a_file_that_nobody_names_any_more_is_nobodys_concern(tmp_path: Path):
    world = world_of(VIEWS, "m1", tmp_path)
    damage = FileDamage("m1", "gone", DamageKind.MISSING, "", 0.0)
    rebuild = plan_rebuild([damage], world.program, world.ledger.logs(), ())
    assert rebuild.unneeded == (damage,) and not rebuild.sources and not rebuild.vertices


def test_an_index_that_nobody_looks_anything_up_in_goes(tmp_path: Path):
    world = world_of(VIEWS, "m1", tmp_path)
    world.capture({"r": ZSet([(ROW, 1)])})
    world.engine.load()
    name, log = next((name, log) for name, log in world.ledger.logs().items() if log.of_kind(PieceKind.INDEX))
    piece = log.of_kind(PieceKind.INDEX)[0]
    stale = Piece(PieceKind.INDEX, "stale.arrow", NEVER, log.t, 1, 5, ("of another plan",))
    (world.store.root / log.site / "stale.arrow").write_bytes(b"stale")
    world.ledger.commit(world.lease, Commit((Edit(name, log.t, log.t, (stale,)),)))
    world.store.delete(log.site, "stale.arrow")
    scrub_of(world).look()
    mend(world)
    assert {one.file for one in world.ledger.logs([name])[name].of_kind(PieceKind.INDEX)} >= {piece.file}
    assert "stale.arrow" not in str(world.ledger.files()) and world.wrong() == []


def test_captured_changes_are_read_again_only_if_somebody_needs_them(tmp_path: Path):
    world = world_of(VIEWS, "m1", tmp_path)
    world.capture({"r": ZSet([(ROW, 1)])})
    spool = world.ledger.logs(["spool:r"])["spool:r"]
    damage = FileDamage(spool.site, spool.pieces[0].file, DamageKind.MISSING, "", 0.0)

    def rebuild(reading: tuple[str, ...] = ()):
        return plan_rebuild([damage], world.program, world.ledger.logs(), reading)

    assert rebuild().sources == {"r"}, "no log was made from them yet"
    world.engine.load()
    check(world.engine.push(list(world.program.tasks), world.now))
    assert rebuild().sources == set() and rebuild().starts == {"spool:r": spool.t}
    assert rebuild(("r",)).sources == {"r"}, "a reading that is under way needs all of its spool"
    assert isinstance(world.store, FileStore)
