"""Takes what another site has sent of a log into the copy of it here: exactly once, whatever is sent again."""

from __future__ import annotations

from collections.abc import Collection

from headrace.model.log import Commit, Edit, Piece, PieceKind
from headrace.run.logs.merge import shards_wanted
from headrace.run.logs.write import RowsToWrite, write_log_rows
from headrace.run.push.engine import Engine
from headrace.run.push.exports import Segment
from headrace.run.push.push import Pushed


def commit_segment(engine: Engine, name: str, segment: Segment, seconds: float = 0.0, size: int = 0) -> Pushed:
    """Brings a copy to the end of a segment; `size` bytes were sent for it within some seconds.

    Raises Conflict if the copy is not where the segment begins: then it has come before, or the copy has started anew.
    """
    copy, spec = engine.program.imports[name], engine.program.logs[name]
    pieces: tuple[Piece, ...] = ()
    rows = segment.rows.num_rows
    if rows:
        log = engine.ledger.logs([name]).get(name)
        there = () if log is None else log.pieces
        shards = {(name, key.columns): shards_wanted(there, key.columns, rows) for key in spec.keys}
        # It need not outlive a loss of power: what is lost starts anew from the other site.
        written = RowsToWrite(PieceKind.CHANGE, f"{name}-{segment.upto}", (segment.after, segment.upto), durable=False)
        pieces = tuple(write_log_rows(engine.store, spec, segment.rows, written, shards, engine.around))
    pushed = Pushed(name, segment.upto, seconds, rows, rows, size, origin=copy.origin, sent=size)
    edit = Edit(name, segment.after, segment.upto, pieces)
    engine.ledger.commit(engine.lease, Commit((edit,), events=engine.tell([pushed])))
    return pushed


def count_unread(engine: Engine) -> dict[str, int]:
    """Bytes of changes that have come from other sites and that some vertex here has not read yet, by copy. Vertices
    that are halted are made anew from contents, and read none of them.
    """
    program, waiting = engine.program, engine.waiting()
    readers: dict[str, list[str]] = {}
    for task in program.tasks.values():
        for name in task.reads if task.vertex not in waiting else ():
            if name in program.imports:
                readers.setdefault(name, []).append(task.vertex)
    logs = engine.ledger.logs([*readers, *(vertex for names in readers.values() for vertex in names)])
    found: dict[str, int] = {}
    for name, vertices in readers.items():
        read = [logs[vertex].t for vertex in vertices if vertex in logs]
        if name in logs and read:
            after = max(min(read), logs[name].start)  # one that is further behind is about to start anew
            found[name] = sum(piece.bytes for piece in logs[name].changes(after, logs[name].t))
    return found


def find_ahead(engine: Engine, views: Collection[str]) -> frozenset[str]:
    """Copies of which nobody can use more now: all views, and all that other sites have of us, which are made of one
    are made of another as well that is further behind. They wait for all of them to get to one time, so the one that is
    furthest behind is never among these.
    """
    program, times, needed = engine.program, engine.ledger.times(), set[str]()
    sent = (name for copy in program.exports.values() for name in copy.task.reads)
    for end in {*views, *sent}:
        read = {name: times[name] for name in program.imports_of([end]) if name in times}
        needed |= {name for name, t in read.items() if t == min(read.values())}
    return frozenset(program.imports.keys() & times.keys()) - needed
