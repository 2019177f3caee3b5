"""SQL that is not maintained and can be recomputed, with the operator that it is refused for otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue
from headrace.model.full_query import FullQuery

PROJECT = """
project: auctions
sites: {us: {}}
sources:
  bids: {kind: table, at: us, key: [id], columns: {id: bigint, auction: int, bidder: int, price: "decimal(10,2)",
    score: double, at: timestamp, note: string, day: date}}
  auctions: {kind: table, at: us, key: [id], columns: {id: int, seller: int, name: string}}
contracts:
"""

PORTABLE = {
    "ranks": """SELECT id, auction, rank() OVER (PARTITION BY auction ORDER BY price DESC NULLS LAST) AS place,
        dense_rank() OVER (ORDER BY bidder) AS dense, row_number() OVER (PARTITION BY auction ORDER BY id) AS number
        FROM bids""",
    "last_three": """SELECT a.seller, b.id, avg(b.score) OVER
        (PARTITION BY a.seller ORDER BY b.at, b.id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS mean
        FROM bids AS b JOIN auctions AS a ON a.id = b.auction""",
    "before": """SELECT id, lag(note) OVER (PARTITION BY bidder ORDER BY id) AS earlier,
        lead(price, 1) OVER (ORDER BY id) AS next_price, count(*) OVER (PARTITION BY auction) AS n FROM bids""",
    "best": """SELECT id, price
        FROM (SELECT *, rank() OVER (ORDER BY price DESC NULLS LAST, id) AS r FROM bids) x WHERE r % 2 = 1""",
    "left_over": "SELECT bidder FROM bids EXCEPT ALL SELECT seller FROM auctions",
    "both": "SELECT bidder FROM bids INTERSECT ALL SELECT seller FROM auctions",
    "cube": """SELECT auction, bidder, count(*) AS n, sum(price) AS total, grouping(auction) AS g
        FROM bids GROUP BY CUBE (auction, bidder)""",
    "sets": "SELECT auction, bidder, max(price) AS m FROM bids GROUP BY GROUPING SETS ((auction), (bidder), ())",
    "spread": "SELECT auction, stddev_pop(score) AS s FROM bids GROUP BY auction",
    "outside": """WITH big AS (SELECT * FROM bids WHERE price > 10)
        SELECT id, (SELECT max(b.price) FROM bids b WHERE b.auction = big.auction AND b.id < big.id) AS top FROM big""",
    "under_or": "SELECT id FROM bids WHERE price > 50 OR bidder IN (SELECT seller FROM auctions)",
    "over_view": "SELECT place, count(*) AS n FROM ranks GROUP BY place",
    "quoted": """SELECT b."id" AS "Größe #1", lag("note") OVER (ORDER BY b."id") AS "order",
        'it''s "so"' AS "select" FROM "bids" AS "b" """,
    "hidden": """WITH bids AS (SELECT id, name FROM auctions)
        SELECT b.name, r.place FROM bids b JOIN ranks r ON r.id = b.id""",
}
"""PostgreSQL means the same by them."""

SPARK_ONLY = {
    "sums": """SELECT sum(price) OVER (PARTITION BY auction) AS s, avg(price) OVER (PARTITION BY auction) AS a,
        sum(auction) OVER () AS i, avg(auction) OVER () AS j, price * 2 + sum(price) OVER () AS p,
        coalesce(lag(auction) OVER (ORDER BY id), 0) AS l, year(at) AS y, ntile(3) OVER (ORDER BY id) AS third,
        percent_rank() OVER (ORDER BY id) AS share, first_value(at) OVER (ORDER BY id) AS began,
        CAST(is_valid_utf8(note) AS boolean) AS h, max(day) OVER () AS last_day FROM bids""",
    "sessions": """SELECT session_window.start AS began, session_window.end AS ended, bidder, count(*) AS n
        FROM bids GROUP BY session_window(at, '30 minutes'), bidder""",
    "middle": """SELECT auction, median(score) AS m, percentile(price, 0.9) AS p, count_if(price > 1) AS c
        FROM bids GROUP BY auction""",
    "regressions": """SELECT auction, regr_slope(score, bidder) AS a, regr_intercept(score, bidder) AS b,
        regr_r2(score, bidder) AS c, regr_avgx(score, bidder) AS d, regr_avgy(score, bidder) AS e,
        regr_sxx(score, bidder) AS f, regr_sxy(score, bidder) AS g, regr_syy(score, bidder) AS h,
        regr_count(score, bidder) AS i FROM bids GROUP BY auction""",
    "natural": "SELECT * FROM bids NATURAL JOIN (SELECT id, seller FROM auctions) AS s",
    "qualified": "SELECT id, auction FROM bids QUALIFY row_number() OVER (PARTITION BY auction ORDER BY id) % 2 = 0",
    "steps": """WITH RECURSIVE up(n, id) AS (SELECT 1, id FROM auctions UNION ALL SELECT n + 1, id FROM up WHERE n < 3)
        SELECT n, id FROM up""",
    "star": "SELECT *, count(*) OVER () AS n FROM bids",
    "named_window": "SELECT id, max(price) OVER w AS m FROM bids WINDOW w AS (PARTITION BY auction ORDER BY id)",
    "exists": "SELECT id, EXISTS (SELECT 1 FROM auctions a WHERE a.id = bids.auction) AS listed FROM bids",
    "filtered": "SELECT id, count(*) FILTER (WHERE price > 10) OVER (PARTITION BY auction) AS n FROM bids",
    "any_type": """SELECT auction, CAST(max_by(note, id) AS string) AS last_note, CAST(kurtosis(score) AS float) AS k
        FROM bids GROUP BY auction""",
}


def read_auctions(folder: Path, views: Mapping[str, str]) -> Catalogue:
    """A project of these views, each under a contract of its own name that asks for it in full."""
    (folder / "views").mkdir(exist_ok=True)
    contracts = "".join(f"  {name}: {{view: {name}, at: us, freshness: 1 min, refresh: full}}\n" for name in views)
    (folder / "headrace.yml").write_text(PROJECT + contracts)
    for name, sql in views.items():
        (folder / "views" / f"{name}.sql").write_text(sql)
    return read_project(folder, {})


def recomputed(folder: Path, views: Mapping[str, str]) -> dict[str, FullQuery]:
    found = {name: view.recomputed for name, view in read_auctions(folder, views).views.items()}
    assert all(isinstance(one, FullQuery) for one in found.values()), found
    return {name: one for name, one in found.items() if isinstance(one, FullQuery)}
