"""The pairs of all templates over one group of devices, decided together, and again when rows, rates or prices change.

Templates share the streams of their devices: one that a device sends for one template costs the next one nothing. Pairs
that read one stream of each device are decided by thresholds (`adapt`), all others as a graph of operators
(`adapt_graph`). Both decide again only what a change touches, and give what deciding everything anew would give.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.plan.place.adapt import PlacementChange, StandingPlacement, change
from headrace.plan.place.adapt_graph import StandingGraph, change_graph
from headrace.plan.place.demands import StreamDemand, make_dag, make_view, name_pair, read_one_stream
from headrace.plan.place.failure import failure_of, without_device
from headrace.plan.place.handover import TemplatePair
from headrace.plan.place.instance import CLOUD, Dag, Device, PairView


@dataclass(slots=True)
class GroupPlacement:
    """`kinds` are devices that differ from `default`. Changes by `change_pairs` alone."""

    default: Device
    kinds: dict[str, Device] = field(default_factory=dict)
    demands: dict[TemplatePair, tuple[StreamDemand, ...]] = field(default_factory=dict)
    _pairs: StandingPlacement | None = None
    _graph: StandingGraph | None = None

    def change_pairs(
        self,
        removed: Collection[TemplatePair] = (),
        added: Mapping[TemplatePair, tuple[StreamDemand, ...]] | None = None,
        kinds: Mapping[str, Device] | None = None,
    ) -> None:
        """Takes pairs away, and puts pairs in, or in again with other rates. `kinds` are new prices and capacities."""
        new, gone = dict(added or {}), [pair for pair in removed if pair in self.demands]
        gone += [pair for pair in new if pair in self.demands and pair not in removed]
        for pair in gone:
            del self.demands[pair]
        self.demands |= new
        self.kinds |= kinds or {}
        if not self.demands:
            self._pairs = self._graph = None
        elif not read_one_stream(self.demands):
            self._change_graph()
        elif self._pairs is None:
            self._stand_pairs()
        else:
            what = PlacementChange(frozenset(map(name_pair, gone)), self._make_views(new), dict(kinds or {}))
            self._pairs = change(self._pairs, what).standing

    def lose_devices(self, devices: frozenset[str]) -> None:
        """Takes away what derives from the data of devices that are gone for good, and nothing else.

        What they can hold is kept: one that comes back is still the same.
        """
        self.demands = {pair: needs for pair, needs in self.demands.items() if devices.isdisjoint(pair.ids)}
        if not self.demands:
            self._pairs = self._graph = None
        elif self._pairs is not None:
            removed = frozenset(view for one in devices for view in failure_of(self._pairs, one).removed)
            self._pairs = change(self._pairs, PlacementChange(removed)).standing
        elif self._graph is not None:
            left = self._graph.dag
            for one in sorted(devices):
                left = without_device(left, one).dag
            self._graph = change_graph(self._graph, left).standing

    def place_of(self, pair: TemplatePair) -> str:
        """Where a pair costs least, given where all others run."""
        if pair not in self.demands:
            return CLOUD
        if self._pairs is not None:
            return self._pairs.place_of(name_pair(pair))
        assert self._graph is not None
        return self._graph.placement[name_pair(pair)]

    def place_all(self) -> dict[TemplatePair, str]:
        return {pair: self.place_of(pair) for pair in self.demands}

    @property
    def is_optimal(self) -> bool:
        """Whether nothing costs less: else nothing costs less than a bound that is known."""
        standing = self._pairs or self._graph
        return standing is None or standing.cost == standing.lower_bound

    def _stand_pairs(self) -> None:
        self._graph = None
        empty = StandingPlacement(self.default, dict(self.kinds), frozenset({CLOUD}), {}, {}, {}, {}, {}, {}, 0)
        self._pairs = change(empty, PlacementChange(added=self._make_views(self.demands))).standing

    def _change_graph(self) -> None:
        before = self._graph or StandingGraph(Dag({}, ()), {}, {}, 0)
        self._pairs = None
        self._graph = change_graph(before, make_dag(self.demands, self.default, self.kinds)).standing

    def _make_views(self, demands: Mapping[TemplatePair, tuple[StreamDemand, ...]]) -> tuple[PairView, ...]:
        found = (make_view(pair, needs) for pair, needs in demands.items())
        return tuple(view for view in found if view is not None)
