"""SMILE's Table 1 as tables of a PostgreSQL that changes: 9 relations in their proportions, and people who tweet.

Sizes are those of `table1`, scaled to a number of tweets. A tweet brings with it what the ratios of Table 1 say: of the
relations about tweets a new row, of those about users new rows and new values half and half, where a new value counts
as two changed rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psycopg

from bench.beside import Beside
from bench.workloads.table1 import MACHINES, RELATIONS, SHARINGS, Relation, query_of
from headrace import Project
from headrace.model.catalogue import Catalogue

DATABASE = "SMILE_DSN"
"""The variable that holds the address."""
TWEETS = next(relation.rows for relation in RELATIONS if relation.name == "tweets")
TICK_S = 0.1
MIXED_S = (10.0,) * 7 + (40.0,) * 8 + (60.0,) * 10
"""SMILE's mixed contracts: S1-7, S8-15, S16-25."""
NEW_USERS = 0.1
"""Per tweet."""


@dataclass(frozen=True, slots=True)
class Live:
    """What is promised, and under which load it was planned. `freshness_s` goes round if there are more contracts."""

    contracts: int = len(SHARINGS)
    tweets: int = 100_000
    tweets_per_s: float = 50.0
    freshness_s: tuple[float, ...] = (45.0,)
    cores: int = 2

    def rows(self, relation: Relation) -> int:
        return max(100, round(relation.rows * self.tweets / TWEETS))

    @property
    def sources(self) -> tuple[Relation, ...]:
        used = {name for number in range(self.contracts) for name in SHARINGS[number % len(SHARINGS)].split()}
        return tuple(relation for relation in RELATIONS if relation.name in used)


def live_catalogue(live: Live) -> Catalogue:
    return live_project(live).catalogue


def live_project(live: Live) -> Project:
    """All sites on this machine, with the operator times that are assumed of a warm engine."""
    project = Project("smile")
    project.host("here", cores=live.cores)
    machines = [f"m{number}" for number in range(1, MACHINES + 1)]
    for name in machines:
        project.site(name, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", host="here")
    for src in machines:
        for dst in machines:
            if src != dst:
                project.link(from_=src, to=dst, bandwidth="1.25e+08 B/s", latency="0.0005 s", price="0 $/GB")
    for number, relation in enumerate(RELATIONS):
        if relation in live.sources:
            _add_source(project, relation, machines[number % MACHINES], live)
    for number in range(min(live.contracts, len(SHARINGS))):
        project.view(f"V{number + 1}", query_of(SHARINGS[number].split()))
    for number in range(live.contracts):
        turn, view = divmod(number, len(SHARINGS))
        freshness_s = live.freshness_s[number % len(live.freshness_s)]
        site = machines[(view + 1 + turn) % MACHINES]
        project.contract(f"S{number + 1}", view=f"V{view + 1}", at=site, freshness=freshness_s, penalty=0.001)
    return project


def _add_source(project: Project, relation: Relation, site: str, live: Live) -> None:
    columns: dict[str, dict[str, str | float]] = {}
    for number, (name, width) in enumerate(relation.columns.items()):
        columns[name] = {"type": _type(width), "width": width}
        if number == 0:
            columns[name]["distinct"] = live.rows(relation)
        elif name == "uid":
            columns[name]["distinct"] = live.rows(RELATIONS[0])
    project.source(
        relation.name,
        at=site,
        key=[_key(relation)],
        rows=live.rows(relation),
        rate=relation.ratio * live.tweets_per_s,
        columns=columns,
        postgres={"dsn": f"${{{DATABASE}}}", "table": relation.name},
    )


def _type(width: int) -> str:
    return "string" if width > 8 else "bigint"


def _key(relation: Relation) -> str:
    return next(iter(relation.columns))


# The database


def fill_database(connection: psycopg.Connection[tuple[object, ...]], live: Live) -> None:
    """The tables with their first rows: tweets 1..n, users 1..m, each relation about the first of them."""
    connection.execute("SELECT setseed(0.5)")
    users = live.rows(RELATIONS[0])
    for relation in RELATIONS:
        columns = ", ".join(f"{name} {_sql_type(width)}" for name, width in relation.columns.items())
        connection.execute(f"CREATE TABLE {relation.name} ({columns}, PRIMARY KEY ({_key(relation)}))")
        values = ", ".join(_value(name, width, users) for name, width in list(relation.columns.items())[1:])
        connection.execute(
            f"INSERT INTO {relation.name} SELECT i, {values} FROM generate_series(1, {live.rows(relation)}) i"
        )
    connection.execute("ANALYZE")


def _sql_type(width: int) -> str:
    return "text" if width > 8 else "bigint"


def _value(name: str, width: int, users: int) -> str:
    if name in ("uid", "uid2"):
        return f"1 + floor(random() * {users})::bigint"
    if width == 8:
        return "floor(random() * 1000000)::bigint"
    return f"left(repeat(md5(random()::text), {width // 32 + 1}), {width})"


def tick_statement(users: int) -> str:
    """One transaction of `count` tweets from `first` on, `fresh` users from `next_user` on, and their changes."""
    parts = [
        "new AS MATERIALIZED (SELECT %(first)s + i AS tid FROM generate_series(0, %(count)s - 1) i)",
        "joined AS MATERIALIZED (SELECT %(next_user)s + i AS uid FROM generate_series(0, %(fresh)s - 1) i)",
    ]
    for relation in RELATIONS:
        values = ", ".join(_value(name, width, users) for name, width in list(relation.columns.items())[1:])
        about_tweets = _key(relation) == "tid"
        share = relation.ratio if about_tweets else min(1.0, relation.ratio / NEW_USERS / 3)
        source, key = ("new", "tid") if about_tweets else ("joined", "uid")
        parts.append(
            f"n_{relation.name} AS (INSERT INTO {relation.name} SELECT {key}, {values} FROM {source}"
            f" WHERE random() < {share} RETURNING 1)"
        )
        if not about_tweets:
            parts.append(_updates(relation, relation.ratio - share * NEW_USERS))
    return "WITH " + ", ".join(parts) + " SELECT 1"


def _updates(relation: Relation, changed: float) -> str:
    """New values for known users, `changed` rows for each tweet; an update is two."""
    name, width = list(relation.columns.items())[1]
    return (
        f"u_{relation.name} AS (UPDATE {relation.name} SET {name} = {_value(name, width, 1000)}"
        f" WHERE {_key(relation)} IN (SELECT 1 + floor(random() * %(known_{relation.name})s)::bigint"
        f" FROM generate_series(1, %(count)s) WHERE random() < {changed / 2}) RETURNING 1)"
    )


@dataclass
class Tweeting(Beside):
    """Writes at a rate, in a thread; `tweets` were written so far, and `behind_s` is how late the writer is."""

    dsn: str
    live: Live
    rate: Callable[[float], float]
    """Tweets per second, from the seconds since the start."""
    tweets: int = 0
    behind_s: float = 0.0
    error: str | None = None

    def __post_init__(self) -> None:
        super().__init__("tweeting")

    def run(self) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                self._write(connection)
        except psycopg.Error as error:
            self.error = str(error)

    def _write(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        connection.execute("SELECT setseed(0.25)")
        users = self.live.rows(RELATIONS[0])
        statement, state = tick_statement(users), _State(*_last_keys(connection))
        known = {f"known_{relation.name}": self.live.rows(relation) for relation in RELATIONS}
        started, owed = time.monotonic(), 0.0
        for tick in range(1, 1 << 40):
            owed += self.rate(tick * TICK_S) * TICK_S
            count, owed = int(owed), owed - int(owed)
            if count:
                connection.execute(statement, {**state.take(count), **known})
                self.tweets += count
            ahead = started + tick * TICK_S - time.monotonic()
            self.behind_s = max(0.0, -ahead)
            if self.stopping.wait(max(0.0, ahead)):
                return


@dataclass
class _State:
    """The next keys. New users come with every tenth tweet."""

    tweet: int
    user: int
    owed: float = 0.0

    def take(self, count: int) -> Mapping[str, int]:
        self.owed += count * NEW_USERS
        fresh, self.owed = int(self.owed), self.owed - int(self.owed)
        given = {"first": self.tweet, "count": count, "next_user": self.user, "fresh": fresh}
        self.tweet, self.user = self.tweet + count, self.user + fresh
        return given


def _last_keys(connection: psycopg.Connection[tuple[object, ...]]) -> tuple[int, int]:
    found = connection.execute(
        "SELECT (SELECT max(tid) FROM tweets) + 1, greatest((SELECT max(uid) FROM users),"
        " (SELECT max(uid) FROM socnet), (SELECT max(uid) FROM loc)) + 1"
    ).fetchone()
    assert found is not None
    return int(str(found[0])), int(str(found[1]))
