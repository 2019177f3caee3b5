"""The changes that tweets cause, as rows, for systems that keep the views without a database."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.workloads.live_table1 import NEW_USERS, Live
from bench.workloads.table1 import RELATIONS, Relation

Keys = npt.NDArray[np.int64]


def stored_rows(live: Live) -> dict[str, pa.Table]:
    """What relations hold before anyone tweets."""
    return {
        one.name: _rows(one, np.arange(1, live.rows(one) + 1), live, np.random.default_rng(0)) for one in live.sources
    }


def changed_rows(live: Live, tweets: int, batches: int) -> Iterator[dict[str, pa.Table]]:
    """Batches of so many tweets: rows that are new, or new values of rows whose key is known. A key comes once in each.

    Relations without changes are left out.
    """
    rng = np.random.default_rng(1)
    tweet, user = live.tweets + 1, live.rows(RELATIONS[0]) + 1
    for _ in range(batches):
        new, joined = np.arange(tweet, tweet + tweets), np.arange(user, user + round(tweets * NEW_USERS))
        tweet, user = tweet + tweets, user + len(joined)
        keys = [(relation, _changed(relation, new, joined, live, rng)) for relation in live.sources]
        yield {one.name: _rows(one, found, live, rng) for one, found in keys if len(found)}


def _changed(relation: Relation, new: Keys, joined: Keys, live: Live, rng: np.random.Generator) -> Keys:
    """Keys of rows that are new or have new values, as in the database."""
    if next(iter(relation.columns)) == "tid":
        return new[rng.random(len(new)) < relation.ratio]
    share = min(1.0, relation.ratio / NEW_USERS / 3)
    updates = min(round((relation.ratio - share * NEW_USERS) / 2 * len(new)), live.rows(relation))
    known = rng.choice(live.rows(relation), updates, replace=False) + 1
    return np.concatenate([joined[rng.random(len(joined)) < share], known])


def _rows(relation: Relation, keys: Keys, live: Live, rng: np.random.Generator) -> pa.Table:
    columns = {}
    for number, (name, width) in enumerate(relation.columns.items()):
        if number == 0:
            columns[name] = pa.array(keys)
        elif name in ("uid", "uid2"):
            columns[name] = pa.array(rng.integers(1, live.rows(RELATIONS[0]) + 1, len(keys)))
        elif width == 8:
            columns[name] = pa.array(rng.integers(0, 1_000_000, len(keys)))
        else:
            columns[name] = pa.array([f"{value:08x}" * (width // 8) for value in rng.integers(0, 2**32, len(keys))])
    return pa.table(columns)
