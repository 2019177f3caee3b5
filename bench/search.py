"""How long does the search for one contract's plan take, and what does an exact search buy over SMILE's?

Every contract of SMILE's Table 1 is planned alone on six machines: seconds of the search alone (median and slowest of
its contracts, by number of joined tables), and the cost of SMILE's plans (least cost per state, DPD; least time, DPT)
over the cheapest plan that keeps the promise. On equal machines with a free network they hardly differ; they do on
random three-way joins over three sites of unequal price and speed.

    python -m bench.search [--seeds 2] [--joins 120]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable
from dataclasses import replace

from bench.workloads.random_joins import make_random_join
from bench.workloads.table1 import Setting, make_table1
from headrace.model.catalogue import Admission, Catalogue, Refusal
from headrace.model.plan_modes import Method
from headrace.plan.admit import Answer, Question, admit
from headrace.plan.cores import cores_of
from headrace.plan.live import Live
from headrace.plan.price import tariff_of
from headrace.plan.views import views_of


def questions(project: Catalogue) -> Iterable[Question]:
    """Every contract alone."""
    live, blocks = Live(tariff_of(project)), views_of(project)
    for contract in project.contracts.values():
        view = blocks[contract.view]
        assert not isinstance(view, Refusal)
        cores = cores_of(view, project)
        yield Question(project, contract, cores, Admission.SUSTAINABLE, Method.CHEAPEST, live)


def timed(question: Question) -> tuple[float, Answer | None]:
    started = time.process_time()
    answer = admit(question)
    return time.process_time() - started, answer


def print_times(asked: list[Question]) -> None:
    print("tables  contracts  exact  median s  slowest s")
    sizes = sorted({len(question.cores[0].inputs) for question in asked})
    for size in sizes:
        some = [question for question in asked if len(question.cores[0].inputs) == size]
        seconds = [timed(question)[0] for question in some]
        exact = "yes" if all(question.is_exact for question in some) else "no"
        print(f"{size:6}  {len(some):9}  {exact:>5}  {statistics.median(seconds):8.3f}  {max(seconds):9.3f}")


def print_costs(asked: list[Question], title: str) -> None:
    """Costs of SMILE's plans over the cheapest; a plan that does not keep the promise has none."""
    ratios: dict[Method, list[float]] = {Method.DPD: [], Method.DPT: [], Method.SMILE: []}
    kept = 0
    for question in asked:
        best = admit(question)
        if best is None:
            continue
        kept += 1
        for method, found in ratios.items():
            answer = admit(replace(question, method=method))
            if answer is not None:
                assert answer.cost >= best.cost * (1 - 1e-9), "no plan is cheaper than the cheapest"
                found.append(answer.cost / best.cost)
    print(f"\n{title}: {kept} of {len(asked)} contracts can be kept; cost over the cheapest plan that keeps them")
    print("method  kept  dearer  mean where dearer    max")
    for method, found in ratios.items():
        dearer = [ratio for ratio in found if ratio > 1 + 1e-9]
        mean = statistics.mean(dearer) if dearer else 1.0
        print(f"{method:6}  {len(found):4}  {len(dearer):6}  {mean:17.3f}  {max(found):5.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="random placements besides the published one")
    parser.add_argument("--joins", type=int, default=120, help="random three-way joins")
    arguments = parser.parse_args()
    placements = (None, *range(1, arguments.seeds + 1))
    print(f"Table 1, 100 tweets/s, 45 s; published placement and random ones with seeds 1 to {arguments.seeds}\n")
    asked = [question for seed in placements for question in questions(make_table1(Setting(seed=seed)))]
    print_times(asked)
    print_costs(asked, "Table 1")
    joins = [question for seed in range(arguments.joins) for question in questions(make_random_join(seed))]
    print_costs(joins, "random three-way joins")


if __name__ == "__main__":
    main()
