"""Publishes a view as a plain Delta table that any tool reads, and its changes as a second one, `NAME_changes`.

A step of several commits, any of which may be the last before a crash:

    changes    what came and went, with its time and operation
    table      files that hold rows that went are written again without them, what came is added
    upkeep     small files are put together, what is old is deleted

The commit of the table is what counts. If it is missing it is made from the changes, before anything else is done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connect.delta_table import File, Mark, OwnTable, TableVersion, small_files, step_prefix
from headrace.model.amounts import format_seconds
from headrace.model.errors import Conflict, ConnectError, CopyChanged
from headrace.model.relation import Field
from headrace.model.types import NULL, STRING
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import WEIGHT, columns_of, totals, with_weights
from headrace.run.rows.hashes import Hashes, hash_of

FORBIDDEN = frozenset(" ,;{}()\n\t=")
"""Characters that names of columns in Delta tables cannot have."""

VACUUM_EVERY = 20
"""Steps. It lists the whole folder."""


@dataclass(frozen=True, slots=True)
class DeliveredFolder:
    """What a Delta table holds, and for whom.

    `meaning` identifies the query of the view (its text, for example): a table that was filled by another is filled
    anew. Old versions can be read for `versions_kept_s`, changes for at least `changes_kept_s` seconds.
    """

    path: Path
    columns: tuple[Field, ...]
    project: str
    contract: str
    view: str
    meaning: str
    freshness_s: float
    versions_kept_s: float = 24 * 3600.0
    changes_kept_s: float = 7 * 24 * 3600.0

    @property
    def schema(self) -> pa.Schema:
        types = {field.name: STRING if field.type == NULL else field.type for field in self.columns}
        return pa.schema([(name, arrow_type(type_)) for name, type_ in types.items()])

    @property
    def fingerprint(self) -> str:
        """Identifies columns and meaning: rows of one cannot be told by another."""
        columns = [(field.name, str(field.type)) for field in self.columns]
        return hashlib.sha256(json.dumps([columns, self.meaning]).encode()).hexdigest()[:16]

    @property
    def changes_columns(self) -> tuple[str, str]:
        """`t` and `op`, unless the view has columns of these names."""
        taken = {field.name.casefold() for field in self.columns}
        prefix = ""
        while {f"{prefix}t", f"{prefix}op"} & taken:
            prefix += "_"
        return f"{prefix}t", f"{prefix}op"

    def problem(self) -> ConnectError | None:
        names = [field.name for field in self.columns]
        folded = [name.casefold() for name in names]
        for name in names:
            if FORBIDDEN & set(name) or folded.count(name.casefold()) > 1:
                message = f'column "{name}" of view "{self.view}" cannot be delivered to a Delta table'
                return ConnectError(
                    message, 'rename it in the view: no two that differ in case only, none of " ,;{}()="'
                )
        if "://" in str(self.path):
            return ConnectError(f'"{self.path}" is not a folder', "Delta tables are delivered to local folders")
        return None


class DeltaDelivery:
    """Two Delta tables beside each other."""

    def __init__(self, folder: DeliveredFolder, epoch: int) -> None:
        problem = folder.problem()
        if problem is not None:
            raise problem
        self._folder = folder
        self._schema = folder.schema
        self._hashes: dict[str, Hashes] = {}
        self._time, self._operation = folder.changes_columns
        stamps = [pa.field(self._time, pa.int64()), pa.field(self._operation, pa.string())]
        self._changes_schema = pa.schema([*stamps, *self._schema])
        owner = f"headrace:{folder.project}/{folder.contract}"
        about = f'Kept by Headrace: view "{folder.view}" for contract "{folder.contract}" of project "{folder.project}"'
        fresh = f"{about}, at most {format_seconds(folder.freshness_s)} behind its sources"
        path, beside = folder.path, folder.path.with_name(f"{folder.path.name}_changes")
        self._table = OwnTable(path, owner, epoch, fresh)
        self._changes = OwnTable(beside, owner, epoch, f"{about}: its changes", self._time)

    def delivered(self) -> int | None:
        with self._table.report_errors():
            try:
                version = self._recover_table()
            except CopyChanged:
                return None
            return None if version is None or version.mark.meaning is None else version.mark.t

    def start(self, rows: pa.Table, t: int) -> None:
        """A table that is there is changed to hold these rows, and the difference is among the changes.

        Without one, with other columns, or if somebody else has changed it, both tables begin anew.
        """
        with self._table.report_errors():
            rows, version = self._cast_rows(rows), self._table.read(self._folder.fingerprint)
            self._changes.read(self._folder.fingerprint)  # raises an error if it is somebody else's
            try:
                self._make_equal(rows, t)
            except CopyChanged:
                mark = Mark(0 if version is None else version.mark.step + 1, t, self._folder.fingerprint)
                self._hashes.clear()
                self._changes.create(self._changes_schema, self._changes_schema.empty_table(), mark)
                self._table.create(self._schema, rows, mark)

    def _make_equal(self, rows: pa.Table, t: int) -> None:
        """Raises CopyChanged if there is no table that only we have written."""
        found = self._find_change()
        if found is not None:
            raise self._table.say_changed(found)
        version = self._recover_table()
        assert version is not None, "it was just looked at"
        weighted = [_add_weight(self._table.rows_of(file, self._schema), -1) for file in version.files]
        self._step(version, _net(pa.concat_tables([*weighted, _add_weight(rows, 1)])), t)

    def apply(self, changes: pa.Table, after: int, upto: int) -> None:
        with self._table.report_errors():
            version = self._recover_table()
            if version is None or version.mark.meaning is None or version.mark.t != after:
                at = "nowhere" if version is None else f"at {version.mark.t}"
                raise Conflict(f'the Delta table "{self._table.path}" is {at}, not at {after}')
            weights = changes.column(WEIGHT)
            if changes.num_rows:
                self._step(version, self._cast_rows(changes).append_column(WEIGHT, weights), upto)
            else:
                mark = Mark(version.mark.step, upto, self._folder.fingerprint)
                self._table.commit(version, self._schema.empty_table(), (), mark)

    def check(self, t: int) -> None:
        """Looks at the log and at the sizes and times of files; no rows are read."""
        with self._table.report_errors():
            found = self._find_change()
            if found is not None:
                raise self._table.say_changed(found)
            version = self._table.read(self._folder.fingerprint)
            if version is None or version.mark.t != t:
                raise self._table.say_changed("it was put back to an earlier version")

    def _find_change(self) -> str | None:
        """What somebody else has done to one of the two tables; None if nothing."""
        for table, schema in ((self._table, self._schema), (self._changes, self._changes_schema)):
            version = table.read(self._folder.fingerprint)
            if version is None:
                return f'folder "{table.path.name}" was deleted, or its log damaged'
            if not _has(version, schema):
                return "its columns are others"
            if (change := table.find_change(version)) is not None:
                return change
        return None

    def drop(self) -> None:
        with self._table.report_errors():
            tables = (self._table, self._changes)
            for table in tables:
                table.read(self._folder.fingerprint)
            for table in tables:
                table.delete()

    def close(self) -> None:
        self._hashes.clear()

    # Steps

    def _step(self, version: TableVersion, net: pa.Table, t: int) -> None:
        mark = Mark(version.mark.step + 1, t, self._folder.fingerprint)
        changes = self._changes.read(self._folder.fingerprint)
        assert changes is not None, "recovery makes it"
        self._changes.commit(changes, self._stamp_changes(net, t), (), mark)
        self._replace_files(version, net, mark)
        self._keep_up(mark)

    def _recover_table(self) -> TableVersion | None:
        """The table, after what a crash left undone is done."""
        meaning = self._folder.fingerprint
        version, changes = self._table.read(meaning), self._changes.read(meaning)
        if version is None or not _has(version, self._schema):
            return version
        if changes is None or not _has(changes, self._changes_schema):
            empty = self._changes_schema.empty_table()
            self._changes.create(self._changes_schema, empty, version.mark)
        elif changes.mark.step == version.mark.step + 1:
            files = [file for file in changes.files if file.name.startswith(step_prefix(changes.mark.step))]
            self._replace_files(version, self._net_of(files), changes.mark)
            return self._table.read(meaning)
        return version

    def _replace_files(self, version: TableVersion, net: pa.Table, mark: Mark) -> None:
        """Files that hold rows that went are replaced. Of equal rows any may go, so they are counted."""
        signs = net.column(WEIGHT)
        went, came = net.filter(pc.less(signs, 0)), net.filter(pc.greater(signs, 0))
        touched, rows = self._without(version.files, went) if went.num_rows else ([], [])
        rows.append(_copies(came))
        size = sum(part.num_rows for part in rows)
        small = small_files([file for file in version.files if file not in touched], size)
        rows += [self._table.rows_of(file, self._schema) for file in small]
        dropped = [*touched, *small]
        self._table.commit(version, pa.concat_tables(rows), dropped, mark)
        self._hashes = {
            file.name: self._hashes[file.name]
            for file in version.files
            if file.name in self._hashes and file not in dropped
        }

    def _without(self, files: Sequence[File], went: pa.Table) -> tuple[list[File], list[pa.Table]]:
        """The files that hold such rows, and all that is left of them."""
        names = self._schema.names
        hashes = np.unique(hash_of(went, names))
        touched, left, counted = [], [], [went]
        for file in files:
            similar = np.isin(self._hashes_of(file), hashes)
            if similar.any():
                rows = self._table.rows_of(file, self._schema)
                touched.append(file)
                left.append(rows.filter(pa.array(~similar)))
                counted.append(_add_weight(rows.filter(pa.array(similar)), 1))
        remaining = _net(pa.concat_tables(counted))
        if pc.any(pc.less(remaining.column(WEIGHT), 0)).as_py():
            raise self._table.say_changed("rows are not as they were delivered")
        return touched, [*left, _copies(remaining)]

    def _hashes_of(self, file: File) -> Hashes:
        """The hashes of a file's rows.

        They are kept, so that only files to write anew are read: 8 bytes for each row of the view.
        """
        if file.name not in self._hashes:
            self._hashes[file.name] = hash_of(self._table.rows_of(file, self._schema), self._schema.names)
        return self._hashes[file.name]

    def _keep_up(self, mark: Mark) -> None:
        changes = self._changes.read(self._folder.fingerprint)
        assert changes is not None, "it was just written"
        oldest = mark.t - int(self._folder.changes_kept_s * 1e6)
        old = [file for file in changes.files if file.last is not None and file.last < oldest]
        new = [file for file in changes.files if file.name.startswith(step_prefix(mark.step))]
        recent = [file for file in changes.files if file not in old and file not in new]
        small = small_files(recent, sum(file.rows for file in new))
        if old:
            self._changes.commit(changes, self._changes_schema.empty_table(), old, changes.mark)
        elif small:
            small += new
            rows = pa.concat_tables([self._changes.rows_of(file, self._changes_schema) for file in small])
            self._changes.commit(changes, rows.sort_by(self._time), small, changes.mark, same_rows=True)
        if mark.step % VACUUM_EVERY == 0:
            self._table.vacuum(self._folder.versions_kept_s)
            self._changes.vacuum(self._folder.versions_kept_s)

    # Rows

    def _cast_rows(self, rows: pa.Table) -> pa.Table:
        return rows.select(self._schema.names).cast(self._schema)

    def _stamp_changes(self, net: pa.Table, t: int) -> pa.Table:
        """Changes as others read them: without weights, rows that went first."""
        parts = []
        for operation, sign in (("delete", -1), ("insert", 1)):
            rows = _copies(net, sign)
            stamps = [pa.array([t] * rows.num_rows, pa.int64()), pa.array([operation] * rows.num_rows, pa.string())]
            parts.append(pa.table([*stamps, *rows.columns], schema=self._changes_schema))
        return pa.concat_tables(parts)

    def _net_of(self, files: Sequence[File]) -> pa.Table:
        tables = [self._changes.rows_of(file, self._changes_schema) for file in files]
        rows = pa.concat_tables([self._changes_schema.empty_table(), *tables])
        came = pc.equal(rows.column(self._operation), "insert")
        weights = pc.if_else(came, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
        return _net(rows.select(self._schema.names).append_column(WEIGHT, weights))


def _has(version: TableVersion, schema: pa.Schema) -> bool:
    return bool(pa.schema(version.schema.to_arrow()).equals(schema))


def _add_weight(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, np.int64)))


def _net(rows: pa.Table) -> pa.Table:
    first, weights = totals(rows, columns_of(rows))
    return with_weights(rows.take(pa.array(first)), weights)


def _copies(rows: pa.Table, sign: int = 1) -> pa.Table:
    """Every row as often as its weight says, without it; none of the other sign."""
    weights = rows.column(WEIGHT).to_numpy() * sign
    chosen = np.repeat(np.arange(rows.num_rows), np.maximum(weights, 0))
    return rows.take(pa.array(chosen)).drop_columns([WEIGHT])
