"""Every SQL text of the ledger, in words that SQLite and PostgreSQL both understand. Parameters are written `?`.

format    which of MIGRATIONS were applied       leases    who may commit under a name
logs      one row a log                          pieces    the files of logs; a log names a file once
notes     small values by name                   moments   commit marks of source databases
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE logs (
            name TEXT NOT NULL PRIMARY KEY, site TEXT NOT NULL, t BIGINT NOT NULL, "start" BIGINT NOT NULL)""",
        """CREATE TABLE pieces (
            log TEXT NOT NULL, kind TEXT NOT NULL, file TEXT NOT NULL, "after" BIGINT NOT NULL, upto BIGINT NOT NULL,
            "rows" BIGINT NOT NULL, bytes BIGINT NOT NULL, "key" TEXT NOT NULL, shard BIGINT NOT NULL,
            shards BIGINT NOT NULL, PRIMARY KEY (log, file))""",
        "CREATE TABLE notes (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
        """CREATE TABLE moments (
            database TEXT NOT NULL, t BIGINT NOT NULL, commit_time BIGINT NOT NULL, PRIMARY KEY (database, t))""",
        """CREATE TABLE leases (
            name TEXT NOT NULL PRIMARY KEY, holder TEXT, epoch BIGINT NOT NULL, until DOUBLE PRECISION NOT NULL)""",
    ),
)
"""The statements that lead from each format to the next, from nothing on. Only ever appended to."""

FORMAT = len(MIGRATIONS)

MAKE_FORMAT = "CREATE TABLE IF NOT EXISTS format (number BIGINT NOT NULL PRIMARY KEY)"
READ_FORMAT = "SELECT max(number) FROM format"
WRITE_FORMAT = "INSERT INTO format (number) VALUES (?)"

TAKE_LEASE = """INSERT INTO leases (name, holder, epoch, until) VALUES (?, ?, 1, ?)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = leases.epoch + 1, until = excluded.until
    WHERE leases.holder IS NULL OR leases.until <= ?"""
READ_LEASE = "SELECT holder, epoch, until FROM leases WHERE name = ?"
RENEW_LEASE = "UPDATE leases SET until = ? WHERE name = ? AND holder = ? AND epoch = ?"
RELEASE_LEASE = "UPDATE leases SET holder = NULL WHERE name = ? AND holder = ? AND epoch = ?"
# An update that changes nothing, for its row lock: nobody can take the lease between this check and the commit.
CHECK_LEASE = "UPDATE leases SET epoch = epoch WHERE name = ? AND holder = ? AND epoch = ?"

READ_LOGS = 'SELECT name, site, t, "start" FROM logs'
READ_PIECES = 'SELECT log, kind, file, "after", upto, "rows", bytes, "key", shard, shards FROM pieces'
READ_TIMES = "SELECT name, t FROM logs"
READ_FILES = "SELECT DISTINCT site, file FROM pieces JOIN logs ON logs.name = pieces.log"
CREATE_LOG = 'INSERT INTO logs (name, site, t, "start") VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING'
MOVE_LOG = 'UPDATE logs SET t = ?, "start" = coalesce(?, "start") WHERE name = ? AND t = ?'
FORGET_LOG = "DELETE FROM logs WHERE name = ?"
FORGET_PIECES = "DELETE FROM pieces WHERE log = ?"
DROP_PIECE = "DELETE FROM pieces WHERE log = ? AND file = ?"
ADD_PIECE = """INSERT INTO pieces (log, kind, file, "after", upto, "rows", bytes, "key", shard, shards)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (log, file) DO NOTHING"""

READ_NOTES = "SELECT name, value FROM notes WHERE substr(name, 1, length(?)) = ?"
WRITE_NOTE = "INSERT INTO notes (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
REMOVE_NOTE = "DELETE FROM notes WHERE name = ?"

# The table of commit marks is called "moments": ledgers that exist have it under that name.
READ_COMMIT_MARKS = "SELECT database, t, commit_time FROM moments WHERE database = ? AND t > ? ORDER BY t LIMIT ?"
WRITE_COMMIT_MARK = """INSERT INTO moments (database, t, commit_time) VALUES (?, ?, ?)
    ON CONFLICT (database, t) DO UPDATE SET commit_time = excluded.commit_time"""
FORGET_COMMIT_MARKS = "DELETE FROM moments WHERE t < ?"


def among(column: str, count: int) -> str:
    """A condition with one parameter for each of `count` values."""
    return f" WHERE {column} IN ({', '.join('?' * count)})"
