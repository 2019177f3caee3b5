"""Every SQL text of the ledger, in words that SQLite and PostgreSQL both understand. Parameters are written `?`.

format    which of MIGRATIONS were applied       leases    who may commit under a name
logs      one row a log                          pieces    the files of logs; a log names a file once
notes     small values by name                   moments   commit marks of source databases
events    what happened, numbered by commit      event_counts   the last number, and how much is kept
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
    (
        """CREATE TABLE events (
            n BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL, kind TEXT NOT NULL, routine BIGINT NOT NULL,
            body TEXT NOT NULL)""",
        # The few among the many: people ask for these, and must not wait until all others are read.
        "CREATE INDEX events_not_routine ON events (n) WHERE routine = 0",
        "CREATE TABLE event_counts (routine BIGINT NOT NULL PRIMARY KEY, last BIGINT NOT NULL, bytes BIGINT NOT NULL)",
        "INSERT INTO event_counts (routine, last, bytes) VALUES (0, 0, 0), (1, 0, 0)",
    ),
    # NULL of files that were written before: they are summed up when the service comes to them.
    ("ALTER TABLE pieces ADD COLUMN root BIGINT",),
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
READ_PIECES = 'SELECT log, kind, file, "after", upto, "rows", bytes, "key", shard, shards, root FROM pieces'
READ_TIMES = "SELECT name, t FROM logs"
READ_FILES = "SELECT DISTINCT site, file FROM pieces JOIN logs ON logs.name = pieces.log"
CREATE_LOG = 'INSERT INTO logs (name, site, t, "start") VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING'
MOVE_LOG = 'UPDATE logs SET t = ?, "start" = coalesce(?, "start") WHERE name = ? AND t = ?'
FORGET_LOG = "DELETE FROM logs WHERE name = ?"
FORGET_PIECES = "DELETE FROM pieces WHERE log = ?"
DROP_PIECE = "DELETE FROM pieces WHERE log = ? AND file = ?"
ADD_PIECE = """INSERT INTO pieces (log, kind, file, "after", upto, "rows", bytes, "key", shard, shards, root)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (log, file) DO NOTHING"""

READ_NOTES = "SELECT name, value FROM notes WHERE substr(name, 1, length(?)) = ?"
WRITE_NOTE = "INSERT INTO notes (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
REMOVE_NOTE = "DELETE FROM notes WHERE name = ?"

# The table of commit marks is called "moments": ledgers that exist have it under that name.
READ_COMMIT_MARKS = "SELECT database, t, commit_time FROM moments WHERE database = ? AND t > ? ORDER BY t LIMIT ?"
WRITE_COMMIT_MARK = """INSERT INTO moments (database, t, commit_time) VALUES (?, ?, ?)
    ON CONFLICT (database, t) DO UPDATE SET commit_time = excluded.commit_time"""
FORGET_COMMIT_MARKS = "DELETE FROM moments WHERE t < ?"

# The row of events that are not routine has the last number of all. Its lock is the last that a commit takes: numbers
# follow the order of commits, and a reader that has read up to a number misses nothing that comes later.
COUNT_EVENTS = "UPDATE event_counts SET last = last + ?, bytes = bytes + ? WHERE routine = 0"
COUNT_ROUTINE = "UPDATE event_counts SET bytes = bytes + ? WHERE routine = 1"
READ_LAST_EVENT = "SELECT last FROM event_counts WHERE routine = 0"
READ_EVENT_BYTES = "SELECT routine, bytes FROM event_counts"
ADD_EVENT = "INSERT INTO events (n, at, kind, routine, body) VALUES (?, ?, ?, ?, ?)"
READ_OLDEST_EVENTS = {
    routine: f"SELECT n, at, length(body) FROM events WHERE routine = {routine} ORDER BY n LIMIT ?"
    for routine in (0, 1)
}
FORGET_EVENTS = "DELETE FROM events WHERE routine = ? AND n <= ?"


def read_events(latest: bool, routine: bool, contract: bool) -> str:
    """Up to a number from above or below, limited. `routine = 0` is spelt out: else its index would not be used."""
    conditions = [f"n {'<' if latest else '>'} ?"]
    conditions += [] if routine else ["routine = 0"]
    conditions += ["body LIKE ? ESCAPE '!'"] if contract else []
    order = "DESC" if latest else "ASC"
    return f"SELECT n, at, kind, body FROM events WHERE {' AND '.join(conditions)} ORDER BY n {order} LIMIT ?"


def among(column: str, count: int) -> str:
    """A condition with one parameter for each of `count` values."""
    return f" WHERE {column} IN ({', '.join('?' * count)})"
