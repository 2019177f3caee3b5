"""Worlds in which views run beside copies of themselves, and beside others that read the same blocks."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.declare.sql import read_query
from headrace.model.block import Block
from headrace.model.catalogue import Contract, Source
from headrace.model.plan import Plan, PlanOptions
from headrace.model.relation import Relation
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.figures import plan_of
from headrace.plan.make import plan_views
from headrace.plan.share.on_running import arrange_on_running
from headrace.testing import SCHEMA
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.meaning.test_known_queries import BY_ARRIVAL, changed, texts_in
from tests.plan.query_pairs import DIFFERENT, EQUAL
from tests.plan.written import catalogue, contract, mesh, site
from tests.queries import schemas
from tests.run.test_engine import check

SITES = ("m1", "m2")


@dataclass(frozen=True, slots=True)
class Text:
    """A query and the sources that it is over."""

    name: str
    sql: str
    schema: Mapping[str, Source]


def collected() -> list[Text]:
    """Every view of our collections whose rows follow from those that its sources hold, each text once."""
    tpch = [Text(f"tpch_{name}", sql, schemas.TPCH) for name, sql in schemas.queries("tpch").items()]
    nexmark = [
        Text(f"nexmark_{name}", sql, schemas.NEXMARK)
        for name, sql in schemas.queries("nexmark").items()
        if name != f"q{BY_ARRIVAL:02}"
    ]
    ours = dict.fromkeys((*schemas.understood(), *(sql for pair in (*EQUAL, *DIFFERENT) for sql in pair)))
    return [*tpch, *nexmark, *(Text(f"ours_{number}", sql, SCHEMA) for number, sql in enumerate(ours))]


def spelled_otherwise(sql: str) -> str:
    """The same query in another spelling."""
    return f"select * from ({sql.rstrip().rstrip(';')}) as spelled_otherwise"


def meanings_of(texts: Sequence[str], schema: Mapping[str, Source]) -> dict[str, Relation]:
    return {f"v{number}": read_query(text, schema) for number, text in enumerate(texts)}


@dataclass(frozen=True)
class Project:
    """Views `v0`, `v1` and so on with a contract for each, and the plan that they have."""

    texts: tuple[str, ...]
    schema: Mapping[str, Source]
    meanings: Mapping[str, Relation]
    plan: Plan

    def redefine(self, changes: Mapping[int, str | None]) -> Project:
        """The project with other texts for some views, or without them (None), on top of what it ran before."""
        texts = tuple(changes.get(number, text) for number, text in enumerate(self.texts))
        meanings = {
            f"v{number}": read_query(text, self.schema) for number, text in enumerate(texts) if text is not None
        }
        contracts = {name: one for name, one in _contracts(len(texts)).items() if one.view in meanings}
        catalogue = replace(self.plan.catalogue, contracts=contracts)
        now = arrange_on_running(self.plan, catalogue, _blocks(meanings))
        assert now is not None, "what runs has no room any more"
        return Project(tuple(text or "" for text in texts), self.schema, meanings, plan_of(now))

    def check(self, seed: int, batches: int = 1) -> None:
        """The plan is right as a document; it is loaded, kept through a few batches, and read back equal."""
        assert not self.plan.rejected, self.plan.rejected
        assert check_document(json.loads(json.dumps(plan_document(self.plan)))) == []
        rng, words = random.Random(seed), [word for text in self.texts for word in texts_in(text)]
        sources = self.plan.catalogue.sources
        with quick_folder() as folder:
            world = RunningWorld(self.plan, self.meanings, Path(folder))
            world.capture(changed(world.history[world.now], sources, rng, 5, words))
            world.engine.load()
            assert world.wrong() == []
            for _ in range(batches):
                world.capture(changed(world.history[world.now], sources, rng, 3, words))
                check(world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now)))
                assert world.wrong() == []


def arrange(texts: Sequence[str], schema: Mapping[str, Source]) -> Project:
    """The views planned together from nothing."""
    meanings = meanings_of(texts, schema)
    sources = {
        name: replace(source, site=SITES[number % 2], rows=20.0, rate=0.05, key=())
        for number, (name, source) in enumerate(sorted(schema.items()))
    }
    contracts = _contracts(len(texts)).values()
    project = catalogue([site(name) for name in SITES], mesh(SITES), sources.values(), contracts)
    return Project(tuple(texts), schema, meanings, plan_views(project, _blocks(meanings), PlanOptions()))


def _contracts(count: int) -> dict[str, Contract]:
    made = (contract(f"c{n}", f"v{n}", SITES[n // 2 % 2], (600, 900)[n % 2]) for n in range(count))
    return {one.name: one for one in made}


def _blocks(meanings: Mapping[str, Relation]) -> dict[str, tuple[Block, ...]]:
    return {name: blocks_of(name, meaning) for name, meaning in meanings.items()}


def keep_together(texts: Sequence[str], schema: Mapping[str, Source], seed: int, batches: int = 2) -> None:
    """Views in one project, planned from nothing."""
    arrange(texts, schema).check(seed, batches)


def keep_on_running(text: Text, redefined: Mapping[int, str] | None = None) -> None:
    """Three equal views of which some go, or change; then all are back."""
    project = arrange([text.sql] * 3, text.schema)
    gone = [dict(redefined)] if redefined else [{0: None}, {1: None}, {0: None, 1: None}]
    for changes in gone:
        left = project.redefine(changes)
        left.check(seed=1)
        left.redefine(dict.fromkeys(changes, text.sql)).check(seed=2)
