"""How much of the SQL that other people wrote is maintained?

Reads a folder of .sql files: CREATE TABLE gives the tables, and each CREATE VIEW ... AS, CREATE TABLE ... AS and query
by itself is one query; equal ones count once. Of those that a parser of the dialect reads it says how many are
maintained incrementally, how many more `refresh: auto` takes because Spark can run them, and which words the others are
refused for, the most frequent first. A query may be refused for several words.

    headrace bench sql FOLDER [--dialect postgres|spark] [--list] [--top 40]
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from bench.sql_collection import Case, Written, read_collection
from headrace.declare.query.scope import fold
from headrace.declare.recompute import FullViewReader
from headrace.declare.sql import ViewText, find_mentioned, read_views
from headrace.model.catalogue import Refusal, Source, View
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError
from headrace.model.full_query import FullQuery


class Outcome(StrEnum):
    INCREMENTAL = "incremental"
    FULL = "in full"
    REFUSED = "refused"
    MISTAKE = "mistake"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a query, and the words for which it is refused, or its mistakes."""

    place: str
    outcome: Outcome
    words: tuple[str, ...] = ()


def judge(case: Case, dialect: SqlDialect) -> Judged:
    texts = {name: _as_text(query, dialect) for name, query in _mentioned(case, dialect).items()}
    name, place = case.query.name, case.query.file
    tables = _with_schemas(texts.values(), case)
    views, problems = read_views(texts, tables, {})
    view = views.get(name)
    if view is None:
        words = dict.fromkeys(_plain(problem.message) for problem in problems)
        return Judged(place, Outcome.MISTAKE, tuple(words) or ("reads a view with mistakes",))
    if not isinstance(view.query, Refusal):
        return Judged(place, Outcome.INCREMENTAL)
    in_full = _is_recomputed(FullViewReader(texts, tables, {}), view)
    words = dict.fromkeys(_words(problem.message) for problem in view.query.problems)
    return Judged(place, Outcome.FULL if in_full else Outcome.REFUSED, tuple(words))


def _with_schemas(texts: Iterable[ViewText], case: Case) -> Mapping[str, Source]:
    """The tables, also by the names that queries give them: `raw.orders` is `orders`, wherever that was created."""
    tables = dict(case.tables)
    for name in (name for text in texts for name in find_mentioned(text)):
        own = fold(name.rpartition(".")[2])
        if "." in name and own in case.tables and fold(name) not in map(fold, tables):
            tables[name] = replace(case.tables[own], name=name)
    return tables


def _is_recomputed(reader: FullViewReader, view: View) -> bool:
    try:
        return isinstance(reader.recomputed(view), FullQuery)
    except (InputError, RecursionError):
        return False


def _mentioned(case: Case, dialect: SqlDialect) -> dict[str, Written]:
    """The query, and the views that it reads, and those that these read."""
    found, waiting = {case.query.name: case.query}, [case.query]
    while waiting:
        for table in find_mentioned(_as_text(waiting.pop(), dialect)):
            view = case.views.get(fold(table.rpartition(".")[2]))
            if view is not None and view.name not in found and fold(table) not in case.tables:
                found[view.name] = view
                waiting.append(view)
    return found


def _as_text(query: Written, dialect: SqlDialect) -> ViewText:
    return ViewText(query.name, query.sql, query.file, dialect)


def _words(message: str) -> str:
    """The words that a refusal names: the last ones in quotes, since a view may be named before them."""
    named = re.search(r'"(.+)" is not maintained|: "(.+)"$', message)
    return next((group for group in named.groups() if group), message) if named else message


def _plain(message: str) -> str:
    """A mistake without the names in it."""
    return re.sub(r'"[^"]*"', '"..."', message)


def judge_all(cases: Sequence[Case], dialect: SqlDialect) -> Iterator[Judged]:
    """Judges queries, equal ones once."""
    seen = set[str]()
    for case in cases:
        text = " ".join(case.query.sql.split()).casefold()
        if text not in seen:
            seen.add(text)
            try:
                yield judge(case, dialect)
            except Exception as error:  # a collection is judged to its end, whatever a query does to the reader
                yield Judged(case.query.file, Outcome.FAILED, (f"{type(error).__name__}: {error}",))


def say(judged: Sequence[Judged], unread: Sequence[str], top: int) -> Iterator[str]:
    counts = Counter(one.outcome for one in judged)
    kept, taken = counts[Outcome.INCREMENTAL], counts[Outcome.INCREMENTAL] + counts[Outcome.FULL]
    yield f"{len(judged)} queries that a parser reads, {len(unread)} that none does"
    yield f"maintained incrementally  {kept:6}  {_share(kept, len(judged))}"
    yield f"with auto                 {taken:6}  {_share(taken, len(judged))}"
    yield f"refused                   {counts[Outcome.REFUSED]:6}"
    yield f"mistakes                  {counts[Outcome.MISTAKE]:6}"
    groups: Mapping[str, tuple[Outcome, ...]] = {
        "refused for": (Outcome.FULL, Outcome.REFUSED),
        "mistakes": (Outcome.MISTAKE,),
        "failed, which is a bug": (Outcome.FAILED,),
    }
    for title, outcomes in groups.items():
        found = [one for one in judged if one.outcome in outcomes]
        words = Counter(word for one in found for word in one.words)
        taken_too = Counter(word for one in found if one.outcome is Outcome.FULL for word in one.words)
        if words:
            yield f"\n{title}"
        for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:top]:
            yield f"{count:6}  {word}" + (f"  ({taken_too[word]} taken by auto)" if taken_too[word] else "")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:5.1f} %" if whole else ""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the .sql files are, in it and in folders below")
    parser.add_argument("--dialect", type=SqlDialect, choices=tuple(SqlDialect), default=SqlDialect.POSTGRES)
    parser.add_argument("--top", type=int, default=40, help="how many words to list")
    parser.add_argument("--list", action="store_true", help="say of each query what became of it")
    chosen = parser.parse_args(arguments)
    if not chosen.folder.is_dir():
        parser.error(f'folder "{chosen.folder}" does not exist')
    cases, unread = read_collection(chosen.folder, chosen.dialect)
    judged = list(judge_all(cases, chosen.dialect))
    if chosen.list:
        for one in judged:
            print(f"{one.place}: {', '.join((one.outcome, *one.words))}")
        print(*(f"{place}: not read by a parser" for place in unread), sep="\n")
    print(*say(judged, unread, chosen.top), sep="\n")


if __name__ == "__main__":
    main()
