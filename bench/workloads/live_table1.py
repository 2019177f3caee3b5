"""SMILE's Table 1 as tables of a PostgreSQL that changes: 9 relations in their proportions, and people who tweet.

Sizes are those of `table1`, scaled to a number of tweets. A tweet brings with it what the ratios of Table 1 say: of the
relations about tweets a new row, of those about users new rows and new values half and half, where a new value counts
as two changed rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
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
    machines: int = MACHINES
    apart: bool = False
    """Whether each machine has a database of its own."""

    def rows(self, relation: Relation) -> int:
        return max(100, round(relation.rows * self.tweets / TWEETS))

    @property
    def names(self) -> tuple[str, ...]:
        """The machines."""
        return tuple(f"m{number}" for number in range(1, self.machines + 1))

    def relations_at(self, machine: str) -> tuple[Relation, ...]:
        number = self.names.index(machine)
        return tuple(one for at, one in enumerate(RELATIONS) if at % self.machines == number)

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
    machines = live.names
    for name in machines:
        project.site(name, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", host="here")
    for src in machines:
        for dst in machines:
            if src != dst:
                project.link(from_=src, to=dst, bandwidth="1.25e+08 B/s", latency="0.0005 s", price="0 $/GB")
    for number, relation in enumerate(RELATIONS):
        if relation in live.sources:
            _add_source(project, relation, machines[number % live.machines], live)
    for number in range(min(live.contracts, len(SHARINGS))):
        project.view(f"V{number + 1}", query_of(SHARINGS[number].split()))
    for number in range(live.contracts):
        turn, view = divmod(number, len(SHARINGS))
        freshness_s = live.freshness_s[number % len(live.freshness_s)]
        site = machines[(view + 1 + turn) % live.machines]
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
        postgres={"dsn": f"${{{address_of(site) if live.apart else DATABASE}}}", "table": relation.name},
    )


def address_of(machine: str) -> str:
    """The variable that holds the address of a machine's tables."""
    return f"{machine.upper()}_DSN"


def _type(width: int) -> str:
    return "string" if width > 8 else "bigint"


def _key(relation: Relation) -> str:
    return next(iter(relation.columns))


# The database


def fill_database(
    connection: psycopg.Connection[tuple[object, ...]], live: Live, relations: Sequence[Relation] = RELATIONS
) -> None:
    """The tables with their first rows: tweets 1..n, users 1..m, each relation about the first of them."""
    connection.execute("SELECT setseed(0.5)")
    users = live.rows(RELATIONS[0])
    for relation in relations:
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


def tick_statement(users: int, relations: Sequence[Relation] = RELATIONS) -> str:
    """One transaction of `count` tweets from `first` on, `fresh` users from `next_user` on, and their changes."""
    parts = [
        "new AS MATERIALIZED (SELECT %(first)s + i AS tid FROM generate_series(0, %(count)s - 1) i)",
        "joined AS MATERIALIZED (SELECT %(next_user)s + i AS uid FROM generate_series(0, %(fresh)s - 1) i)",
    ]
    for relation in relations:
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
    """Writes at a rate, in a thread; `tweets` were written so far, and `behind_s` is how late the writer is.

    `dsn` is that of the database, or those of several with the relations that each has: a tweet is then a transaction
    in each of them.
    """

    dsn: str | Mapping[str, Sequence[Relation]]
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
            with ExitStack() as opened:
                places = {self.dsn: RELATIONS} if isinstance(self.dsn, str) else self.dsn
                users, statements = self.live.rows(RELATIONS[0]), dict[psycopg.Connection[tuple[object, ...]], str]()
                for dsn, relations in places.items():
                    connection = opened.enter_context(psycopg.connect(dsn, autocommit=True))
                    connection.execute("SELECT setseed(0.25)")
                    statements[connection] = tick_statement(users, relations)
                self._write(statements, _State(*_next_keys(statements, places.values())))
        except psycopg.Error as error:
            self.error = str(error)

    def _write(self, statements: Mapping[psycopg.Connection[tuple[object, ...]], str], state: _State) -> None:
        known = {f"known_{relation.name}": self.live.rows(relation) for relation in RELATIONS}
        started, owed = time.monotonic(), 0.0
        for tick in range(1, 1 << 40):
            owed += self.rate(tick * TICK_S) * TICK_S
            count, owed = int(owed), owed - int(owed)
            if count:
                values = {**state.take(count), **known}
                for connection, statement in statements.items():
                    connection.execute(statement.encode(), values)
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


def _next_keys(
    connections: Iterable[psycopg.Connection[tuple[object, ...]]], places: Iterable[Sequence[Relation]]
) -> tuple[int, int]:
    """After the last tweet, and after the last user."""
    last = {"tid": 0, "uid": 0}
    for connection, relations in zip(connections, places, strict=True):
        for relation in relations:
            key = _key(relation)
            found = connection.execute(f"SELECT coalesce(max({key}), 0) FROM {relation.name}".encode()).fetchone()
            assert found is not None
            last[key] = max(last[key], int(str(found[0])))
    return last["tid"] + 1, last["uid"] + 1
