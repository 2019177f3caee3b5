"""What does it save to plan a contract on top of the running plan, compared with merging separate plans?

SMILE's Table 1 on the fixed and on ten random placements, by every method: cost, vertices, edges, and savings against
separate and against merged plans, beside what the paper reports. Then: ten random orders of arrival, with and without
planning once more; many contracts; and how long one contract takes that comes to a plan which runs. Every plan is
checked.

    python -m bench.sharing [--seeds N] [--orders N] [--contracts N] [--plot FILE]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.workloads.table1 import MACHINES, SHARINGS, Setting, make_table1
from headrace.model.catalogue import Catalogue
from headrace.model.plan import Plan, PlanOptions
from headrace.model.plan_modes import ContractOrder, Method, Sharing
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.plan.share.change import add_contract

METHODS = {
    "separate, dpd": PlanOptions(method=Method.DPD, sharing=Sharing.NONE),
    "separate, dpt": PlanOptions(method=Method.DPT, sharing=Sharing.NONE),
    "separate, cheapest": PlanOptions(sharing=Sharing.NONE),
    "merged, dpd": PlanOptions(method=Method.DPD, sharing=Sharing.MERGE),
    "merged, dpt": PlanOptions(method=Method.DPT, sharing=Sharing.MERGE),
    "plumbed, dpd": PlanOptions(method=Method.DPD, sharing=Sharing.PLUMB),
    "plumbed, dpt": PlanOptions(method=Method.DPT, sharing=Sharing.PLUMB),
    "on what lives, as declared": PlanOptions(order=ContractOrder.DECLARED),
    "on what lives, small first": PlanOptions(),
}

PAPER = (
    "paper (SMILE, EDBT 2014, fig. 12, 1000 tweets/s): $ per sharing and second: DPT .0042, DPD .0033,",
    "  DPT plumbed .0025 (-40 %), DPD plumbed .0023 (-30 %); more than 80 vertices and edges removed",
)


@dataclass(frozen=True)
class Timed:
    plan: Plan
    seconds: float

    @property
    def cost(self) -> float:
        """$/s of all resources."""
        return self.plan.totals.rescost


def planned(catalogue: Catalogue, options: PlanOptions) -> Timed:
    """A plan that the checker has nothing to say against and that keeps every contract."""
    start = time.process_time()
    plan = make_plan(catalogue, options)
    seconds = time.process_time() - start
    problems = check_document(plan_document(plan))
    assert not problems, problems[:3]
    assert not plan.rejected, plan.rejected
    return Timed(plan, seconds)


def compare(title: str, catalogue: Catalogue) -> dict[str, Timed]:
    found = {name: planned(catalogue, options) for name, options in METHODS.items()}
    separate, merged = found["separate, dpd"].cost, found["merged, dpd"].cost
    print(f"\n{title}")
    print(f"{'':28} {'$/h':>7} {'vertices':>8} {'edges':>6} {'of separate':>11} {'of merged':>9} {'core s':>8}")
    for name, entry in found.items():
        graph = entry.plan.graph
        print(
            f"{name:28} {entry.cost * 3600:7.4f} {len(graph.vertices):8} {len(graph.edges):6}"
            f" {entry.cost / separate:11.3f} {entry.cost / merged:9.3f} {entry.seconds:8.2f}"
        )
    return found


def compare_orders(count: int) -> None:
    """The same contracts, in random orders of arrival."""
    found = {}
    for seed in range(count):
        order = random.Random(seed).sample(range(1, len(SHARINGS) + 1), len(SHARINGS))
        found[seed] = planned(make_table1(order=order), PlanOptions(order=ContractOrder.DECLARED)), arriving(order)
    best = min(entry.cost for entry, _ in found.values())
    print(f"\n{count} random orders of arrival: cost above the best one found ({best * 3600:.4f} $/h)")
    for name, costs in (
        ("one by one", [entry for _, entry in found.values()]),
        ("and once more", [entry.cost for entry, _ in found.values()]),
    ):
        above = [100 * (cost / best - 1) for cost in costs]
        print(f"{name:15} mean {statistics.mean(above):5.2f} %  largest {max(above):5.2f} %")


def arriving(order: Sequence[int]) -> float:
    """$/s when contracts come one by one and nothing is planned again."""
    everyone = make_table1(order=order)
    plan = make_plan(replace(everyone, contracts={}))
    for contract in everyone.contracts.values():
        plan = add_contract(plan, contract)
    return plan.totals.rescost


def add_to_running(running: Plan) -> None:
    """One contract more, for every sharing, on what runs."""
    seconds: dict[int, list[float]] = {}
    template = next(iter(running.catalogue.contracts.values()))
    for number, sharing in enumerate(SHARINGS, 1):
        site = f"m{(number + 3) % MACHINES + 1}"
        contract = replace(template, name="new", view=f"V{number}", site=site, freshness_s=45.0)
        start = time.process_time()
        add_contract(running, contract)
        seconds.setdefault(len(sharing.split()), []).append(time.process_time() - start)
    print(f"\none contract more, on {len(running.graph.vertices)} vertices: core seconds by number of relations")
    for size, found in sorted(seconds.items()):
        print(f"{size:3} relations  median {statistics.median(found):6.3f}  largest {max(found):6.3f}")


def plan_many(count: int) -> None:
    entry = planned(make_table1(Setting(contracts=count)), PlanOptions())
    print(f"\n{count} contracts: {entry.seconds:.1f} core seconds, {len(entry.plan.graph.vertices)} vertices")


def summarise(comparisons: Iterable[dict[str, Timed]]) -> None:
    """Over placements: the least, mean and largest share of separate and merged DPD plans."""
    every = list(comparisons)
    print(f"\n{len(every)} placements: share of separate and of merged DPD plans (least, mean, largest)")
    for name in METHODS:
        cells = []
        for base in ("separate, dpd", "merged, dpd"):
            ratios = [found[name].cost / found[base].cost for found in every]
            cells.append(f"{min(ratios):.3f} {statistics.mean(ratios):.3f} {max(ratios):.3f}")
        print(f"{name:28} {'   '.join(cells)}")


def plot(path: Path, found: dict[str, Timed]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    axes.barh(list(found)[::-1], [entry.cost * 3600 for entry in found.values()][::-1])
    axes.set_xlabel("$/h, 25 contracts of SMILE's Table 1")
    figure.tight_layout()
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10, help="random placements")
    parser.add_argument("--orders", type=int, default=10, help="random orders of arrival")
    parser.add_argument("--contracts", type=int, default=200, help="how many contracts at once")
    parser.add_argument("--plot", type=Path, help="write a chart there")
    chosen = parser.parse_args(arguments)
    fixed = compare("fixed placement, 25 contracts, 100 tweets/s, 45 s, network free", make_table1())
    print(*PAPER, sep="\n")
    if chosen.seeds:
        placements = range(1, chosen.seeds + 1)
        summarise(compare(f"placement {seed}", make_table1(Setting(seed=seed))) for seed in placements)
    if chosen.orders:
        compare_orders(chosen.orders)
    add_to_running(fixed["on what lives, small first"].plan)
    if chosen.contracts:
        plan_many(chosen.contracts)
    if chosen.plot is not None:
        plot(chosen.plot, fixed)


if __name__ == "__main__":
    main()
