"""Prices of the four ways to join two tables at three machines, and of graphs that several contracts share."""

from __future__ import annotations

import itertools

import pytest

from headrace.model.plan import Edge, Graph, Operator, Vertex
from headrace.model.rate import Groups, Rate
from headrace.plan.cores import cores_of
from headrace.plan.datasets import Dataset, sub_join, whole_dataset
from headrace.plan.price import (
    Promise,
    arrivals,
    bill_of,
    critical_path,
    late_share,
    serves,
    tariff_of,
    time_of_edge,
    total_cost,
    upstream_first,
)
from tests.plan.written import block, catalogue, mesh, site, source

A, B = 1, 2
MACHINES = ("m1", "m2", "m3")


def two_tables(at_a="m1", at_b="m2"):
    sources = (
        source("A", at_a, 1e6, 100, {"k": (8, 1e5), "pad": (92, None)}),
        source("B", at_b, 1e5, 50, {"k": (8, 1e5), "pad": (192, None)}),
    )
    project = catalogue([site(name) for name in MACHINES], mesh(MACHINES), sources)
    view = block("V", ["A", "B"], [[("A", "k"), ("B", "k")]], project.sources)
    return project, cores_of((view,), project)[0]


class Drawing:
    """A graph drawn by hand: what a join of two tables at given sites needs."""

    def __init__(self, core):
        self.core, self.vertices, self.edges = core, dict[str, Vertex](), dict[str, Edge]()

    def add(self, vertex: Vertex, op: Operator | None = None, *inputs: str) -> str:
        self.vertices.setdefault(vertex.id, vertex)
        if op is not None:
            self.edges.setdefault(vertex.id, Edge(op, inputs, vertex.id))
        return vertex.id

    def delta(self, bit: int, at: str) -> str:
        whole = whole_dataset(self.core.input_of(bit).facts)
        home = whole.home
        assert home is not None
        captured = self.add(whole.delta_at(home), Operator.CAPTURE, self.add(whole.relation_at(home)))
        return captured if at == home else self.add(whole.delta_at(at), Operator.COPY, captured)

    def state(self, bit: int, at: str) -> str:
        whole = whole_dataset(self.core.input_of(bit).facts)
        if at == whole.home:
            return self.add(whole.relation_at(at))
        return self.add(whole.relation_at(at), Operator.APPLY, self.delta(bit, at))

    def bring(self, dataset: Dataset, source: str, at: str) -> str:
        if source == at:
            return dataset.delta_at(at).id
        return self.add(dataset.delta_at(at), Operator.COPY, dataset.delta_at(source).id)

    def join(self, j1: str, j2: str, out: str, early: bool = False) -> str:
        """JOIN(A at j1, B at j2 -> out), united at `out` or, early, at j1 = j2."""
        from_b, from_a, both = sub_join(self.core, 3, B), sub_join(self.core, 3, A), sub_join(self.core, 3, 3)
        self.add(from_b.delta_at(j1), Operator.JOIN, self.state(A, j1), self.delta(B, j1))
        self.add(from_a.delta_at(j2), Operator.JOIN, self.delta(A, j2), self.state(B, j2))
        at = j1 if early and j1 == j2 else out
        self.add(both.delta_at(at), Operator.UNION, self.bring(from_b, j1, at), self.bring(from_a, j2, at))
        return self.add(both.relation_at(out), Operator.APPLY, self.bring(both, at, out))

    @property
    def graph(self) -> Graph:
        return Graph(self.vertices, self.edges)


WAYS = {"a": ("m1", "m2"), "b": ("m1", "m1"), "c": ("m2", "m2"), "d": ("m3", "m3")}


@pytest.mark.parametrize(
    ("way", "path_1", "path_half", "cores", "sent", "disk_gb", "rescost", "cost"),
    [
        ("a", 0.8383, 3.544, 0.9868, 212_000, 0.312, 9.533e-5, 1.0332e-4),
        ("b", 0.8383, 3.544, 1.0414, 200_400, 0.332, 1.0037e-4, 1.0879e-4),
        ("c", 0.9454, 3.879, 1.0708, 201_200, 0.412, 1.0316e-4, 1.1291e-4),
        ("d", 0.9076, 3.774, 1.1114, 22_400, 0.428, 1.0520e-4, 1.1475e-4),
    ],
)
def test_the_four_ways_of_a_join_cost_what_smiles_model_says(
    way, path_1, path_half, cores, sent, disk_gb, rescost, cost
):
    project, core = two_tables()
    drawing, tariff = Drawing(core), tariff_of(project)
    view = drawing.join(*WAYS[way], "m3")
    bill = bill_of(drawing.graph, tariff, serves(drawing.graph, [Promise("S", view, 1.0, 10.0)]))
    at = arrivals(drawing.graph, tariff, 1.0, [view])
    assert at[view] == pytest.approx(path_1, abs=5e-5)
    assert arrivals(drawing.graph, tariff, 5.0, [view])[view] == pytest.approx(path_half, abs=5e-4)
    assert sum(bill.cpu.values()) == pytest.approx(cores, abs=5e-5)
    assert sum(bill.link.values()) == pytest.approx(sent)
    assert sum(bill.disk.values()) / 1e9 == pytest.approx(disk_gb, abs=5e-4)
    assert bill.rescost == pytest.approx(rescost, rel=1e-4)
    assert total_cost(bill.rescost, at[view], 10.0, 0.0) == pytest.approx(cost, rel=1e-4)


def test_every_edge_of_the_join_in_place_takes_what_smiles_model_says():
    project, core = two_tables()
    drawing, tariff = Drawing(core), tariff_of(project)
    view = drawing.join("m1", "m2", "m3")
    graph = drawing.graph
    times = sorted(round(time_of_edge(graph, edge, tariff, 1.0), 4) for edge in graph.edges.values())
    assert times == [0, 0, 0.0226, 0.0242, 0.0244, 0.0379, 0.0667, 0.1056, 0.3278, 0.3833]
    at = arrivals(graph, tariff, 1.0, [view])
    assert [name.split("~")[0] for name in critical_path(graph, at, view)] == [
        "r:B@m2",
        "d:B|B@m2",
        "d:B|B@m1",
        "d:A,B|B@m1",
        "d:A,B|B@m3",
        "d:A,B|A,B@m3",
        "r:A,B@m3",
    ]
    links = bill_of(graph, tariff, serves(graph, [Promise("S", view, 1.0, 10.0)])).link
    assert links == {
        ("m2", "m1"): 10_800,
        ("m1", "m2"): 11_600,
        ("m1", "m3"): pytest.approx(158_000),
        ("m2", "m3"): pytest.approx(31_600),
    }


@pytest.mark.parametrize(
    ("homes", "late", "early"),
    [
        (("m1", "m2", "m3"), (8, 8, 8, 8), (8, 7, 7, 8)),
        (("m1", "m1", "m3"), (6, 6, 6, 8), (5, 5, 5, 8)),
        (("m1", "m2", "m1"), (7, 6, 8, 6), (7, 6, 7, 6)),
        (("m1", "m2", "m2"), (7, 8, 6, 6), (7, 7, 6, 6)),
        (("m1", "m1", "m1"), (4, 4, 4, 4), (4, 4, 4, 4)),
    ],
)
def test_a_join_adds_as_many_vertices_and_edges_as_the_table_says(homes, late, early):
    m1, m2, m3 = homes
    _, core = two_tables(m1, m2)
    ways = ((m1, m2), (m1, m1), (m2, m2), (m3, m3))
    for counts, is_early in ((late, False), (early, True)):
        for (j1, j2), count in zip(ways, counts, strict=True):
            drawing = Drawing(core)
            drawing.delta(A, m1)
            drawing.delta(B, m2)
            vertices, edges = len(drawing.vertices), len(drawing.edges)
            drawing.join(j1, j2, m3, is_early)
            assert len(drawing.vertices) - vertices == count
            assert len(drawing.edges) - edges == count


def test_a_shared_edge_runs_at_the_smallest_batch_and_a_shared_log_is_kept_for_the_largest_freshness():
    project, core = two_tables()
    drawing, tariff = Drawing(core), tariff_of(project)
    view = drawing.join("m1", "m2", "m3")
    eager, lazy = Promise("eager", view, 1.0, 2.0), Promise("lazy", view, 5.0, 10.0)

    def bill(*promises):
        return bill_of(drawing.graph, tariff, serves(drawing.graph, promises))

    assert bill(eager, lazy).cpu == bill(eager).cpu
    assert bill(eager, lazy).disk == bill(lazy).disk
    assert bill(eager).cpu["m3"] > bill(lazy).cpu["m3"]
    assert bill(eager).disk["m3"] < bill(lazy).disk["m3"]


def test_upstream_of_a_vertex_is_everything_it_is_made_of_inputs_first():
    _, core = two_tables()
    drawing = Drawing(core)
    view = drawing.join("m1", "m2", "m3")
    order = upstream_first(drawing.graph, [view])
    assert set(order) == set(drawing.vertices)
    for name, edge in drawing.edges.items():
        assert all(order.index(input_) < order.index(name) for input_ in edge.inputs)


def test_lateness_needs_a_busy_operator():
    assert late_share(600.0, 0.383, 10.0) == 0.0
    assert late_share(1.0, 0.99, 1.0) == pytest.approx(0.98995, abs=1e-5)
    assert late_share(1.0, 1.0, 1.0) == 1.0
    assert late_share(0.0, 0.5, 1.0) == 0.0


def test_a_group_that_is_touched_often_within_a_batch_changes_once():
    rate = Rate(0.0, ((1.0, Groups(10.0, Rate(100.0))),))
    assert rate.at(100.0) == pytest.approx(0.2)
    assert rate.at(1e-6) == pytest.approx(200.0, rel=1e-3)
    assert (rate * 0.5 + Rate(3.0)).at(100.0) == pytest.approx(3.1)
    batches = [0.01 * 1.5**n for n in range(40)]
    assert all(rate.at(later) <= rate.at(sooner) for sooner, later in itertools.pairwise(batches))
