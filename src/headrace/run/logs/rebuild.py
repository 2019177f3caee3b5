"""Decides what damaged files take to be right again, from the logs that name them. Pure.

    an index                       is built again from the rows of its log
    changes that are history       go, with all that came before them: readers that lack them are loaded again
    other rows of a vertex         the vertex is loaded again from what it is made of
    rows of a source               the source is read again
    rows that nobody else has      are lost, unless somebody puts the file back: all else stays as it is

A large index is not checked as a whole by those who look rows up in it. If its content has changed, rows that were
found in it may have been wrong: what was made of them is loaded again as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.model.damage import DamageKind, FileDamage
from headrace.model.log import Log, Piece, PieceKind
from headrace.run.capture.spool import SPOOL
from headrace.run.load.transition import find_made_from
from headrace.run.program import Ingest, Program

CHECKED_WHOLE = 1 << 20
"""Bytes up to which every reader checks all of a file."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """`indexes` are keys by log, `starts` the times from which on logs keep their changes. `vertices` are loaded again
    and `sources` read again, with all that is made from them.

    `dropped` are files of indexes, by log, that nobody looks anything up in; `unneeded` are files that no log names;
    `lost` are those with rows that nobody else has, by log, and indexes that cannot be built without these rows.
    """

    indexes: Mapping[str, frozenset[tuple[str, ...]]] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)
    vertices: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unneeded: tuple[FileDamage, ...] = ()
    lost: Mapping[str, tuple[Piece, ...]] = field(default_factory=dict)


def plan_rebuild(
    damaged: Iterable[FileDamage],
    program: Program,
    logs: Mapping[str, Log],
    reading: Collection[str],
    only_copies: Collection[str] = (),
) -> Rebuild:
    """`logs` are all there are, spools included. `reading` are sources that are being read just now, `only_copies`
    those whose rows nobody else has.
    """
    found = {one.name: one for one in damaged}
    decided = _Rebuilding(program, logs, frozenset(reading), frozenset(only_copies))
    named = set[str]()
    for log in logs.values():
        for piece in log.pieces:
            if (damage := found.get(f"{log.site}/{piece.file}")) is not None:
                named.add(damage.name)
                decided.add(log, piece, damage)
    return decided.result(tuple(one for name, one in found.items() if name not in named))


def find_concerned(damaged: Iterable[FileDamage], program: Program, logs: Mapping[str, Log]) -> dict[str, FileDamage]:
    """Logs that name a damaged file and all that is made from them, each with the damage."""
    found: dict[str, FileDamage] = {}
    names = {one.name: one for one in damaged}
    for log in logs.values():
        for piece in log.pieces:
            if (damage := names.get(f"{log.site}/{piece.file}")) is not None:
                found.setdefault(log.name, damage)
    owners = {task.state.name: name for name, task in program.tasks.items() if task.state is not None}
    found |= {owners[name]: damage for name, damage in found.items() if name in owners}
    for name, task in program.tasks.items():
        if name not in found and (first := next((found[read] for read in task.reads if read in found), None)):
            found[name] = first
    return found


@dataclass
class _Rebuilding:
    program: Program
    logs: Mapping[str, Log]
    reading: frozenset[str]
    only_copies: frozenset[str]

    def __post_init__(self) -> None:
        self.indexes: dict[str, set[tuple[str, ...]]] = {}
        self.starts: dict[str, int] = {}
        self.dropped: dict[str, list[str]] = {}
        self.vertices, self.sources = set[str](), set[str]()
        self.lost: dict[str, list[Piece]] = {}
        self.damaged_indexes: dict[str, list[Piece]] = {}
        tasks = self.program.tasks.items()
        self.owners = {task.state.name: name for name, task in tasks if task.state is not None}

    def add(self, log: Log, piece: Piece, damage: FileDamage) -> None:
        if log.name.startswith(SPOOL):
            self._add_to_spool(log, piece)
        elif log.name in self.program.logs:
            if piece.kind is PieceKind.INDEX:
                self._add_index(log, piece, damage)
            elif self._is_contents(log, piece):
                if self._find_source(log.name) in self.only_copies:
                    self.lost.setdefault(log.name, []).append(piece)
                self._load_again(log.name)
            else:
                self._cut_off(log, piece)

    def _add_to_spool(self, log: Log, piece: Piece) -> None:
        """What a source's own log has is not needed any more; unless the source is being read."""
        readers = [name for name, task in self.program.tasks.items() if log.name in task.reads]
        is_read = all(name in self.logs and self.logs[name].t >= piece.upto for name in readers)
        if readers and is_read and log.name.removeprefix(SPOOL) not in self.reading:
            self._cut_off(log, piece)
        elif (source := log.name.removeprefix(SPOOL)) in self.only_copies:
            self.lost.setdefault(log.name, []).append(piece)
        else:
            self.sources.add(source)

    def _add_index(self, log: Log, piece: Piece, damage: FileDamage) -> None:
        if piece.key not in {key.columns for key in self.program.logs[log.name].keys}:
            self.dropped.setdefault(log.name, []).append(piece.file)
            return
        self.indexes.setdefault(log.name, set()).add(piece.key)
        self.damaged_indexes.setdefault(log.name, []).append(piece)
        if damage.kind is DamageKind.CONTENTS and piece.bytes > CHECKED_WHOLE:
            for name, task in self.program.tasks.items():
                if log.name in task.reads:
                    self._load_again(name)
            # An index of its own is looked up by a source, for the row that goes, and by an operator with a state.
            self._load_again(log.name)

    def _is_contents(self, log: Log, piece: Piece) -> bool:
        """Logs that are looked up or have a base hold contents, whether a view reads these or not."""
        spec = self.program.logs[log.name]
        return (spec.has_contents or bool(spec.keys) or log.base_t is not None) and piece in log.contents

    def _cut_off(self, log: Log, piece: Piece) -> None:
        """Readers of changes that have not read these are loaded again."""
        self.starts[log.name] = max(self.starts.get(log.name, log.start), piece.upto)
        for name, task in self.program.tasks.items():
            if log.name in task.reads and name in self.logs and self.logs[name].t < piece.upto:
                self._load_again(name)

    def _load_again(self, name: str) -> None:
        source = self._find_source(name)
        if source is None:
            self.vertices.add(self.owners.get(name, name))
        elif source not in self.only_copies:
            self.sources.add(source)

    @property
    def lost_sources(self) -> set[str]:
        return {self._find_source(name) or name.removeprefix(SPOOL) for name in self.lost}

    def _find_source(self, name: str) -> str | None:
        """The source whose rows a log holds; None for what is made from others."""
        task = self.program.tasks.get(self.owners.get(name, name))
        return task.step.spool.removeprefix(SPOOL) if task is not None and isinstance(task.step, Ingest) else None

    def result(self, unneeded: tuple[FileDamage, ...]) -> Rebuild:
        """What is made anew needs nothing else. What would be made of rows that are lost stays as it is."""
        spools = [SPOOL + source for source in self.sources]
        read_again = find_made_from(self.program, spools).union(spools)
        stays = find_made_from(self.program, [SPOOL + source for source in self.lost_sources])
        self.vertices -= stays
        # What is brought from other sites has no task: it starts anew from there.
        tasks = (self.program.tasks.get(name) for name in self.vertices)
        states = {task.state.name for task in tasks if task is not None and task.state is not None}
        anew = read_again | self.vertices | states | find_made_from(self.program, self.vertices)
        return Rebuild(
            indexes={
                name: frozenset(keys) for name, keys in self.indexes.items() if name not in anew | self.lost.keys()
            },
            starts={name: start for name, start in sorted(self.starts.items()) if name not in anew | stays},
            vertices=frozenset(name for name in self.vertices if name not in read_again),
            sources=frozenset(self.sources),
            dropped={name: tuple(files) for name, files in self.dropped.items() if name not in anew},
            unneeded=unneeded,
            lost={name: (*pieces, *self.damaged_indexes.get(name, ())) for name, pieces in self.lost.items()},
        )
