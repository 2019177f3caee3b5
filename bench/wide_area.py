"""Is it better to place a wide-area query as a whole, on top of the running plan?

Twelve streaming queries on 14 sites, placed by every mode and predicted by the fluid model on five modelled networks
(and on a measured one when its file is given), on tight ones, and on one of which a link drops and comes back. Prints
throughput, planned bandwidth and latency, as ratios to placement without sharing (NET), beside what Sana's paper
reports; then sweeps over the number of queries, the input rate and the sharing ratio.

    headrace bench wide-area [--measured FILE] [--plot FILE]
    headrace bench wide-area --real       on real links, in network namespaces: wide_area_real.py
    headrace bench wide-area --planned    what a model says of plans for those links: wide_area_planned.py
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.wide_area_planned import print_planned
from bench.wide_area_real import add_real_options, find_networks, read_real_settings, run_real
from bench.workloads.wide_area import RECIPES, make_network, make_tight_network, make_tight_workload, make_workload
from bench.workloads.wide_area_files import read_network
from headrace.plan.wide_area.fluid import Deployment, FlowSharing, Prediction, predict
from headrace.plan.wide_area.greedy import MODES, admit_greedily
from headrace.plan.wide_area.search import admit_all
from headrace.plan.wide_area.streams import SiteLink, SiteNetwork, Workload


@dataclass(frozen=True, slots=True)
class Planner:
    """How operators are placed, and which of their flows are one."""

    place: Callable[[Workload, SiteNetwork], Deployment]
    sharing: FlowSharing

    def __call__(self, workload: Workload, network: SiteNetwork) -> Prediction:
        return predict(workload, network, self.place(workload, network), self.sharing)


def by_mode(name: str) -> Planner:
    mode = MODES[name]
    return Planner(lambda workload, network: admit_greedily(workload, network, mode).deployment, mode.sharing)


def by_search(at_source: bool) -> Planner:
    return Planner(
        lambda workload, network: admit_all(workload, network, at_source=at_source).deployment, FlowSharing.ALL
    )


PLANNERS: dict[str, Planner] = {
    **{name: by_mode(name) for name in ("default", "net", "mqo", "strict-share", "max-share", "sana")},
    "ours": by_search(at_source=False),
    "ours, at source": by_search(at_source=True),
}

DROPS_TO = 0.1
"""What is left of the link that drops."""

TIGHT_SEEDS = tuple(range(1, 13))

PAPER = (
    "paper (Sana, SoCC 2018): +16 % throughput of NET in total, +21 % in the mean over queries;",
    "  bandwidth -33 % of NET; +35 % throughput and -23 % latency of Max-Share",
)


def latency(prediction: Prediction) -> float:
    """Mean over queries, in seconds."""
    return statistics.mean(query.latency_s for query in prediction.queries.values())


def compare(workload: Workload, network: SiteNetwork) -> dict[str, Prediction]:
    return {name: planner(workload, network) for name, planner in PLANNERS.items()}


def print_network(title: str, network: SiteNetwork, answers: dict[str, Prediction]) -> None:
    net = answers["net"]
    print(f"\n{title}: {len(net.queries)} queries, ratios are to NET")
    print(" " * 15, "records/s  ratio per query   MB/s  ratio   latency full links")
    for name, answer in answers.items():
        per_query = statistics.mean(
            answer.queries[query].records_per_s / flow.records_per_s for query, flow in net.queries.items()
        )
        print(
            f"{name:15} {answer.records_per_s:9.0f} {answer.records_per_s / net.records_per_s:6.2f} {per_query:9.2f}"
            f" {answer.planned / 1e6:6.1f} {answer.planned / net.planned:6.2f} {latency(answer):7.2f} s"
            f" {len(answer.overloaded(network)):10}"
        )


def print_tight_networks(seeds: Iterable[int] = TIGHT_SEEDS) -> None:
    """Throughput where most links are narrow, and where blind sharing may hurt: as ratios, for each network."""
    print("\ntight networks: records/s as ratios to Max-Share and to NET, bytes to NET")
    print("seed      mqo/max sana/max ours/max  sana/net ours/net  bytes: max  sana  ours")
    found: list[tuple[float, float]] = []
    for seed in seeds:
        answers = compare(make_tight_workload(seed), network := make_tight_network(seed))
        assert network.bandwidth
        rate = {name: answer.records_per_s for name, answer in answers.items()}
        size = {name: answer.planned / answers["net"].planned for name, answer in answers.items()}
        most = rate["max-share"]
        found.append((rate["sana"] / most, rate["ours"] / rate["sana"]))
        print(
            f"{seed:4} {rate['mqo'] / most:12.2f} {rate['sana'] / most:8.2f} {rate['ours'] / most:8.2f}"
            f" {rate['sana'] / rate['net']:9.2f} {rate['ours'] / rate['net']:8.2f}"
            f" {size['max-share']:11.2f} {size['sana']:5.2f} {size['ours']:5.2f}"
        )
    sana, ours = [one for one, _ in found], [one for _, one in found]
    print(f"Sana over Max-Share: {min(sana):.2f} to {max(sana):.2f}, middle {statistics.median(sana):.2f}", end="; ")
    print(f"ours over Sana: {min(ours):.2f} to {max(ours):.2f}")


@dataclass(frozen=True, slots=True)
class Change:
    """Records/s of one planner before a link drops, while it is narrow (as placed, and placed again), and when it is
    back, if those that were placed again stay so; and how many operators were placed elsewhere.
    """

    before: float
    narrow: float
    again: float
    back: float
    moved: int


def find_fullest_link(workload: Workload, network: SiteNetwork, planner: Planner) -> SiteLink:
    load = planner(workload, network).load
    return max(sorted(load), key=lambda link: load[link])


def with_bandwidth(network: SiteNetwork, link: SiteLink, factor: float) -> SiteNetwork:
    return replace(network, bandwidth={**network.bandwidth, link: factor * network.bandwidth[link]})


def change_link(workload: Workload, network: SiteNetwork, link: SiteLink, planner: Planner) -> Change:
    """A link drops and comes back. Placing everything anew when it is back gives what there was before."""
    narrow = with_bandwidth(network, link, DROPS_TO)
    first, second = planner.place(workload, network), planner.place(workload, narrow)

    def rate(where: SiteNetwork, placed: Deployment) -> float:
        return predict(workload, where, placed, planner.sharing).records_per_s

    moved = sum(site != second[query][operator] for query in first for operator, site in first[query].items())
    return Change(rate(network, first), rate(narrow, first), rate(narrow, second), rate(network, second), moved)


def print_changing_network(seed: int = 1) -> None:
    workload, network = make_workload(), make_network(seed)
    print(f"\na changing network: of each, the link that it fills most drops to {DROPS_TO:.0%} and comes back")
    print("records/s          before    narrow  placed again   back  moved  link")
    for name, planner in PLANNERS.items():
        link = find_fullest_link(workload, network, planner)
        one = change_link(workload, network, link, planner)
        rates = f"{one.before:9.0f} {one.narrow:9.0f} {one.again:13.0f} {one.back:6.0f}"
        print(f"{name:15} {rates} {one.moved:6}  {link[0]} to {link[1]}")
    print("placed anew when the link is back, each gets what it got before")


Rows = list[tuple[float, dict[str, float]]]


def sweep(title: str, unit: str, network: SiteNetwork, points: Iterable[tuple[float, Workload]]) -> Rows:
    """Planned bandwidth of NET, Sana and ours over a parameter; returns what a plot needs."""
    print(f"\n{title} (MB/s planned; share of records that get through)")
    names = ("net", "sana", "ours")
    print(f"{unit:>10} " + " ".join(f"{name:>16}" for name in names))
    rows = []
    for value, workload in points:
        answers = {name: PLANNERS[name](workload, network) for name in names}
        full = PLANNERS["ours"](workload, _unlimited(network)).records_per_s
        cells = [f"{answers[n].planned / 1e6:8.1f} {100 * answers[n].records_per_s / full:5.1f} %" for n in names]
        print(f"{value:10g} " + " ".join(f"{cell:>16}" for cell in cells))
        rows.append((value, {name: answer.planned / 1e6 for name, answer in answers.items()}))
    return rows


def _unlimited(network: SiteNetwork) -> SiteNetwork:
    return SiteNetwork(network.sites, network.compute, dict.fromkeys(network.bandwidth, 1e12), network.latency)


def sharing_ratio(workload: Workload) -> float:
    """Operators that also occur in another query, as a share of all."""
    owners: dict[str, set[str]] = {}
    for query in workload.queries:
        for operator in query.operators:
            owners.setdefault(operator.fingerprint, set()).add(query.id)
    operators = [op for query in workload.queries for op in query.operators]
    return sum(len(owners[op.fingerprint]) > 1 for op in operators) / len(operators)


def four_queries() -> list[tuple[float, Workload]]:
    """Sets of four queries with a rising sharing ratio."""
    by_id = {recipe.id: recipe for recipe in RECIPES}
    sets = (("Q1", "Q3", "Q6", "Q7"), ("Q3", "Q6", "Q9", "Q12"), ("Q2", "Q3", "Q8", "Q10"), ("Q2", "Q5", "Q8", "Q11"))
    made = [make_workload(recipes=tuple(by_id[name] for name in names)) for names in sets]
    return sorted(((round(sharing_ratio(workload), 2), workload) for workload in made), key=lambda pair: pair[0])


def plot(path: Path, rows: Rows) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 4))
    for name in rows[0][1]:
        axis.plot([value for value, _ in rows], [answer[name] for _, answer in rows], marker="o", label=name)
    axis.set_xlabel("queries")
    axis.set_ylabel("planned wide-area bandwidth, MB/s")
    axis.set_ylim(bottom=0)
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"\nplot written to {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, help="a measured network, as JSON")
    parser.add_argument("--plot", type=Path, help="write the sweep over queries as a picture")
    add_real_options(parser)
    options = parser.parse_args()
    if options.real or options.planned:
        settings = read_real_settings(options)
        if options.planned:
            print_planned(find_networks(settings), settings.modes, settings.queries, settings.rates, settings.freshness)
        else:
            run_real(settings)
        return
    workload = make_workload()
    networks = {f"modelled network, seed {seed}": make_network(seed) for seed in range(1, 6)}
    if options.measured:
        networks["measured network"] = read_network(options.measured, networks["modelled network, seed 1"].compute)
    for title, network in networks.items():
        print_network(title, network, compare(workload, network))
    print_tight_networks()
    print_changing_network()
    print()
    for line in PAPER:
        print(line)
    network = networks.get("measured network", networks["modelled network, seed 1"])
    rows = sweep(
        "queries", "queries", network, ((n, make_workload(recipes=RECIPES[:n])) for n in range(1, len(RECIPES) + 1))
    )
    sweep("input rate", "tweets/s", network, ((rate, make_workload(rate)) for rate in (2000, 4000, 6000, 8000, 12000)))
    sweep("sharing ratio, four queries", "ratio", network, four_queries())
    if options.plot:
        plot(options.plot, rows)


if __name__ == "__main__":
    main()
