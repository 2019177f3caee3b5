"""Whole projects at random, from the grammar of the project file: right ones, odd ones, and right ones made wrong.

A seed gives a project, always the same. What the parts are called, in which units amounts are written, how views are
nested and which constructs occur in them is drawn; then, in most projects, a few values are removed, duplicated,
mistyped or exchanged.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ruamel.yaml import YAML

PLAIN = ("a", "b", "us", "eu", "orders", "customers", "items", "posts", "north_2", "x9", "total", "t", "city")
ODD = ("Größe", "注文", "select", "Order Items", "group", "a-b", "null", "7", "true", "x" * 63, "from", "É", "end")
TYPES = ("int", "bigint", "double", "decimal(12,2)", "text", "date", "timestamp", "boolean", "smallint", "varchar(10)")
HUGE: tuple[object, ...] = (
    0,
    -1,
    1e308,
    10**30,
    1e-300,
    "1e308 s",
    "9999999 GB",
    ".nan",
    ".inf",
    "1e400",
    True,
    None,
    "",
    [],
    {},
    "${X}",
)


@dataclass(slots=True)
class Grammar:
    """Draws one project. `odd` is how often a name, unit or construct is an unusual one."""

    random: random.Random
    odd: float
    used: set[str] = field(default_factory=set)
    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one_of(self, *choices: object) -> object:
        return self.random.choice(choices)

    def name(self) -> str:
        stem = self.random.choice(ODD if self.chance(self.odd) else PLAIN)
        name, number = stem, 1
        while name.casefold() in self.used:
            number += 1
            name = f"{stem[:58]}_{number}"
        self.used.add(name.casefold())
        return name

    def amount(self, *usual: object) -> object:
        return self.random.choice(usual)

    # The project file

    def project(self) -> dict[str, object]:
        sites = {self.name(): self.site() for _ in range(self.random.randint(1, 3))}
        made: dict[str, object] = {"project": self.random.choice(PLAIN), "sites": sites}
        if len(sites) > 1 and self.chance(0.9):
            made["links"] = self.links(list(sites))
        if self.chance(0.2):
            made["hosts"] = {"big": {"cores": self.amount(1, 2, "8 cores", 0.5)}}
            sites[self.random.choice(list(sites))]["host"] = "big"
        sources = {self.name(): self.source(list(sites)) for _ in range(self.random.randint(1, 4))}
        made["sources"] = sources
        self.tables = {name: self.columns_of(source) for name, source in sources.items()}
        for _ in range(self.random.randint(0, 4)):
            name = self.name()
            sql, columns = self.query(self.random.randint(0, 2))
            self.views[name], self.tables[name] = sql, columns
        made["contracts"] = {self.name(): self.contract(list(sites)) for _ in range(self.random.randint(0, 4))}
        made |= self.tuning()
        made |= self.feeds_and_devices(list(sites))
        return {key: value for key, value in made.items() if value or key == "sites"}

    def site(self) -> dict[str, object]:
        return self.some(
            cpu=("0.34 $/core-hour", 0.3, 0, "$0.2/h"),
            disk=("0.11 $/GB-month", 0.1),
            cores=(2, 4, 0.5, "8 cores"),
            disk_capacity=("500 GB", "1 MiB"),
            speed=(1, 2, 0.1),
        )

    def some(self, share: float = 0.4, **fields: tuple[object, ...]) -> dict[str, object]:
        return {name: self.random.choice(values) for name, values in fields.items() if self.chance(share)}

    def links(self, sites: list[str]) -> list[object]:
        links: list[object] = []
        for one in sites:
            for other in sites:
                if one < other and self.chance(0.8):
                    ends: dict[str, object] = self.random.choice(
                        [{"between": [one, other]}, {"from": one, "to": other}]
                    )
                    links.append(
                        ends
                        | self.some(
                            bandwidth=("100 Mbps", "1e6 B/s", "1 kbps"),
                            latency=("40 ms", "2 s", 0),
                            price=("0.01 $/GB", 0.1),
                        )
                    )
        return links

    def source(self, sites: list[str]) -> dict[str, object]:
        own = Grammar(self.random, self.odd)
        columns: dict[str, object] = {}
        for _ in range(self.random.randint(1, 5)):
            columns[own.name()] = self.column(str(self.random.choice(TYPES)))
        made: dict[str, object] = {"kind": "table", "at": self.random.choice(sites), "columns": columns}
        made |= self.some(0.6, rows=(1, 1000, "7M rows", 123456), rate=(0, "100 /s", 0.5, "3 rows/min"))
        if self.chance(0.3):
            when = own.name()
            columns[when] = "timestamp"
            made |= {"kind": "stream", "time": when}
            made.pop("rows", None)
            made |= self.some(0.7, retention=("7 days", "1 h", 60))
            if self.chance(0.5):
                made["files"] = {"path": "data/in", "format": self.one_of("jsonl", "csv", "parquet")}
        elif self.chance(0.8):
            made["key"] = self.random.sample(list(columns), self.random.randint(1, min(2, len(columns))))
        if self.chance(0.1):
            made["stays"] = self.one_of([made["at"]], {"sites": [made["at"]], "aggregates": "anywhere"})
        if self.chance(0.1) and not made.get("rate"):
            made["static"] = True
        return made

    def column(self, type_: str) -> object:
        if self.chance(0.7):
            return type_
        return {"type": type_} | self.some(width=(8, "24 B"), distinct=(1, 700, 1000000))

    def columns_of(self, source: object) -> dict[str, str]:
        columns = source["columns"]  # type: ignore[index]
        return {name: c if isinstance(c, str) else c["type"] for name, c in columns.items()}

    def contract(self, sites: list[str]) -> dict[str, object]:
        if not self.views:
            return {"view": "missing", "at": sites[0], "freshness": 30}
        made: dict[str, object] = {
            "view": self.random.choice(list(self.views)),
            "at": self.random.choice(sites),
            "freshness": self.amount("30 s", 60, "10 minutes", "1 day", "0.5 s", "3 s"),
        }
        made |= self.some(
            0.2, penalty=("0.001 $/row", 1), owner=("somebody", "Zoë"), refresh=("full", "incremental", "auto")
        )
        if self.chance(0.1):
            made["deliver"] = {"delta": f"out/{self.random.randint(1, 3)}"}
        return made

    def tuning(self) -> dict[str, object]:
        made: dict[str, object] = self.some(0.15, admission=("sustainable", "paper"))
        if self.chance(0.15):
            made["headroom"] = self.some(cpu=(0, 0.3, "40 %"), link=(0.1, 0), blocking=("measured", "1 s"))
        if self.chance(0.15):
            made["operator_times"] = {self.one_of("join", "copy", "apply"): self.some(fixed=(0, 0.1), per_in=(1e-6, 0))}
        if self.chance(0.2) and self.tables:
            table = self.random.choice([name for name in self.tables if name not in self.views])
            made["selectivity"] = {table: {self.condition("", self.tables[table]): self.amount(0.1, 1, 0, "20 %")}}
        return made

    def feeds_and_devices(self, sites: list[str]) -> dict[str, object]:
        if not self.chance(0.25):
            return {}
        table = self.random.choice([name for name in self.tables if name not in self.views])
        columns = list(self.tables[table])
        column = self.random.choice(columns)
        made: dict[str, object] = {}
        if self.chance(0.5):
            made["feeds"] = {"home": self.feed(table, column, sites)}
        if self.chance(0.6):
            view = self.name()
            self.views[view] = "SELECT x.lat AS lat, y.lng AS lng FROM a.location x JOIN b.location y ON x.lat = y.lat"
            streams = {"location": {"columns": {"lat": "double", "lng": "double"}} | self.some(rate=(0.1, "1 /min"))}
            made["devices"] = {"phones": {"table": table, "id": column, "streams": streams} | self.some(up=(1.0, 0))}
            per = {"table": table, "a": column, "b": columns[-1]}
            made["templates"] = {"near": {"per": per, "devices": "phones", "view": view}}
        return made

    def feed(self, table: str, column: str, sites: list[str]) -> dict[str, object]:
        times = [name for name, type_ in self.tables[table].items() if type_ == "timestamp"]
        events: object = "api"
        follows: object = "api"
        if times and self.chance(0.8):
            events = {"source": table, "producer": column, "time": self.random.choice(times)} | self.some(id=(column,))
            follows = {"source": table, "consumer": self.random.choice(list(self.tables[table])), "producer": column}
        made: dict[str, object] = {"events": events, "follows": follows}
        made |= self.some(limit=(20, 1), coherency=("global", "per-producer"), latency=({"p95": "50 ms"},))
        made |= self.some(freshness=("2 s", "1 min"), keep=(200, 20), reads=("300 /s", 0.01), rank=("age_s",))
        return made | {"at": self.random.choice(sites)}

    # Views

    def query(self, depth: int) -> tuple[str, dict[str, str]]:
        makers: list[Callable[[int], tuple[str, dict[str, str]]]] = [self.select, self.grouped, self.joined, self.top]
        if self.chance(self.odd):
            makers = [self.strange, self.combined, self.deep]
        return self.random.choice(makers)(depth)

    def table(self, depth: int, alias: str) -> tuple[str, dict[str, str]]:
        if depth > 0 and self.chance(0.4):
            sql, columns = self.query(depth - 1)
            return f"({sql}) AS {alias}", columns
        name = self.random.choice(list(self.tables))
        return f"{quote(name)} AS {alias}", self.tables[name]

    def select(self, depth: int) -> tuple[str, dict[str, str]]:
        text, columns = self.table(depth, "t1")
        chosen = self.random.sample(list(columns), self.random.randint(1, len(columns)))
        made = {(self.name() if self.chance(0.3) else name): (name, columns[name]) for name in chosen}
        listed = ", ".join(f"t1.{quote(name)} AS {quote(new)}" for new, (name, _) in made.items())
        where = f" WHERE {self.condition('t1.', columns)}" if self.chance(0.6) else ""
        distinct = "DISTINCT " if self.chance(0.1) else ""
        return f"SELECT {distinct}{listed} FROM {text}{where}", {new: type_ for new, (_, type_) in made.items()}

    def grouped(self, depth: int) -> tuple[str, dict[str, str]]:
        text, columns = self.table(depth, "t1")
        key, other = self.random.choice(list(columns)), self.random.choice(list(columns))
        function = self.random.choice(["count", "min", "max", "count"])
        having = " HAVING count(*) > 3" if self.chance(0.2) else ""
        sql = f"SELECT t1.{quote(key)} AS k, {function}(t1.{quote(other)}) AS n FROM {text} GROUP BY t1.{quote(key)}"
        return sql + having, {"k": columns[key], "n": "bigint" if function == "count" else columns[other]}

    def joined(self, depth: int) -> tuple[str, dict[str, str]]:
        parts: list[str] = []
        columns: dict[str, tuple[str, str]] = {}
        last: tuple[str, dict[str, str]] | None = None
        for number in range(1, self.random.randint(2, 4) + 1):
            text, own = self.table(depth, f"t{number}")
            columns |= {f"c{number}_{i}": (f"t{number}.{quote(c)}", own[c]) for i, c in enumerate(own)}
            pair = self.pair(last, (f"t{number}", own)) if last else None
            kind = self.random.choice(["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
            parts.append(text if last is None else f"{kind} {text} ON {pair}" if pair else f"CROSS JOIN {text}")
            last = (f"t{number}", own)
        chosen = self.random.sample(list(columns), self.random.randint(1, len(columns)))
        listed = ", ".join(f"{columns[new][0]} AS {new}" for new in chosen)
        return f"SELECT {listed} FROM {' '.join(parts)}", {new: columns[new][1] for new in chosen}

    def pair(self, left: tuple[str, dict[str, str]], right: tuple[str, dict[str, str]]) -> str | None:
        pairs = [(a, b) for a, one in left[1].items() for b, other in right[1].items() if one == other]
        if not pairs:
            return None
        one, other = self.random.choice(pairs)
        return f"{left[0]}.{quote(one)} = {right[0]}.{quote(other)}"

    def top(self, depth: int) -> tuple[str, dict[str, str]]:
        sql, columns = self.select(depth)
        order = quote(self.random.choice(list(columns)))
        return f"{sql} ORDER BY {order} DESC LIMIT {self.random.randint(1, 9)}", columns

    def combined(self, depth: int) -> tuple[str, dict[str, str]]:
        one, columns = self.select(depth)
        other, _ = self.select(depth)
        word = self.random.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT ALL"])
        return f"{one} {word} {other}", columns

    def deep(self, depth: int) -> tuple[str, dict[str, str]]:
        """Nesting of one kind or another, up to far beyond what anybody writes."""
        name = self.random.choice(list(self.tables))
        column, times = quote(next(iter(self.tables[name]))), self.random.choice([3, 30, 300, 3000])
        table, last = quote(name), self.tables[name]
        few = min(times, 120)
        joins = " ".join(
            f"{self.one_of('FULL', 'LEFT', '')} JOIN {table} j{n} ON t.{column} = j{n}.{column}" for n in range(few)
        )
        sql = self.random.choice(
            [
                f"SELECT t.{column} AS c FROM {table} t {joins}",
                f"SELECT {'(' * times}{column}{')' * times} AS c FROM {table}",
                f"SELECT {column} AS c FROM {table} WHERE {' OR '.join([f'{column} IS NULL'] * times)}",
                f"SELECT {column} AS c FROM {table} WHERE {'NOT ' * times}{column} IS NULL",
                " UNION ALL ".join([f"SELECT {column} AS c FROM {table}"] * few),
                "SELECT c FROM (" * few + f"SELECT {column} AS c FROM {table}" + ") t" * few,
                f"SELECT {'coalesce(' * few}{column}{', NULL)' * few} AS c FROM {table}",
                f"SELECT CASE {' '.join([f'WHEN {column} IS NULL THEN 1'] * times)} END AS c FROM {table}",
            ]
        )
        return sql, {"c": next(iter(last.values()))}

    def strange(self, depth: int) -> tuple[str, dict[str, str]]:
        """SQL that exists and that few write, or that we do not maintain."""
        name = self.random.choice(list(self.tables))
        table, column = quote(name), quote(next(iter(self.tables[name])))
        sql = self.random.choice(
            [
                f"SELECT {column} AS {quote(self.random.choice(list(self.tables)))} FROM {table}",
                "SELECT c FROM ROWS FROM (generate_series(1, 3)) AS t(c)",
                f"SELECT {column} AS c FROM {table} TABLESAMPLE (10 PERCENT)",
                f"SELECT {column} AS c, rand() AS r FROM {table} ORDER BY 1",
                f"SELECT a.{column} AS c FROM {table} a, LATERAL (SELECT 1) b",
                f"SELECT {column} AS c FROM {table} GROUP BY CUBE ({column})",
                f"WITH w AS (SELECT {column} AS c FROM {table}) SELECT c FROM w x JOIN w y USING (c)",
                f"SELECT {column} AS c FROM {table} WHERE {column} IN (SELECT {column} FROM {table})",
                f"SELECT * FROM {table} PIVOT (count(*) FOR {column} IN (1, 2))",
                f"SELECT t.* FROM {table} t NATURAL JOIN {table} u",
                f"SELECT (SELECT max({column}) FROM {table}) AS c FROM {table}",
                f"SELECT {column} AS c, lag({column}) OVER (ORDER BY {column}) AS p FROM {table}",
                f"SELECT sum({column}) AS c FROM {table}",
                f"SELECT {column}[0] AS c FROM {table}",
                "VALUES (1), (2)",
                "SELECT 1 AS c",
                f"SELECT count(DISTINCT {column}) AS c FROM {table} HAVING count(*) > 1",
            ]
        )
        return sql, {"c": next(iter(self.tables[name].values()))}

    def condition(self, qualifier: str, columns: dict[str, str]) -> str:
        column = self.random.choice(list(columns))
        left = f"{qualifier}{quote(column)}"
        literal = LITERALS.get(columns[column], "'x'")
        one = self.random.choice(
            [f"{left} = {literal}", f"{left} <> {literal}", f"{left} IS NOT NULL", f"{left} IN ({literal}, {literal})"]
        )
        return f"{one} AND {self.condition(qualifier, columns)}" if self.chance(0.3) else one


LITERALS = {
    **dict.fromkeys(("int", "bigint", "smallint", "double", "decimal(12,2)"), "7"),
    "date": "DATE '2024-02-29'",
    "timestamp": "TIMESTAMP '2024-02-29 12:00:00'",
    "boolean": "TRUE",
}


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def make_project(seed: int) -> dict[str, str]:
    """The files of a project, by their paths."""
    chosen = random.Random(seed)
    grammar = Grammar(chosen, odd=chosen.choice([0.0, 0.1, 0.3]))
    project = grammar.project()
    for _ in range(chosen.choice([0, 0, 0, 1, 1, 2, 5])):
        mutate(project, chosen)
    text = io.StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.allow_unicode = True
    writer.dump(project, text)
    yaml = text.getvalue()
    if chosen.random() < 0.05:
        start = chosen.randrange(len(yaml))
        yaml = (
            yaml[:start]
            + chosen.choice(["\t", ":", "- ", '"', "{", "\n", "&a", "*b"])
            + yaml[start + chosen.randint(0, 3) :]
        )
    files = {"headrace.yml": yaml} | {f"views/{name}.sql": sql for name, sql in grammar.views.items()}
    if chosen.random() < 0.1 and len(files) > 1:
        del files[chosen.choice([file for file in files if file != "headrace.yml"])]
    return files


def mutate(project: object, chosen: random.Random) -> None:
    """Remove, duplicate, misspell or exchange one value somewhere within."""
    value = project
    while isinstance(value, dict | list) and value:
        key = chosen.choice(list(value) if isinstance(value, dict) else list(range(len(value))))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and chosen.random() < 0.8:
            value = inner
            continue
        match chosen.randrange(4):
            case 0:
                del value[key]
            case 1 if isinstance(value, list):
                value.append(inner)
            case 1 if isinstance(value, dict):
                value[f"{key}_2"] = inner
            case 2 if isinstance(value, dict):
                value[f"{key}x"] = value.pop(key)
            case _:
                value[key] = chosen.choice([*HUGE, *PLAIN, *ODD])
        return
