"""Rates, pairs and prices change: only the devices that a change touches are decided again, and what they conflict
with.

A device's own optimum depends on nothing but its own views. So after a change the devices of changed views are
decided again, and the components of conflicts that hold one of them, as they were or as they have become. All others
keep their limits. The result is the one that deciding everything anew would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from headrace.plan.exact_numbers import Exact
from headrace.plan.place.device import cheapest_limit, device_cost, wants
from headrace.plan.place.effort import Effort
from headrace.plan.place.instance import CLOUD, Device, PairView, Single
from headrace.plan.place.single import LOCAL, as_columns, decide_pairs

Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """Views to take away (by id) and to put in, in this order: a new rate is both.

    `devices` are those with new prices.
    """

    removed: Names = frozenset()
    added: tuple[PairView, ...] = ()
    devices: Mapping[str, Device] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StandingPlacement:
    """A decided instance, kept so that it can change.

    `own` are the devices' own optima, `limit` what was decided; they differ only for devices in conflict. `contested`
    are the views that both devices want, by device. `gap` holds how far a component may be from its optimum, by its
    first device.
    """

    default: Device
    devices: Mapping[str, Device]
    cloud_sources: Names
    views: Mapping[str, PairView]
    views_of: Mapping[str, Names]
    own: Mapping[str, Exact]
    limit: Mapping[str, Exact]
    contested: Mapping[str, Names]
    gap: Mapping[str, Exact]
    cost: Exact

    @property
    def lower_bound(self) -> Exact:
        return self.cost - sum(self.gap.values(), start=Fraction(0))

    def kind(self, device: str) -> Device:
        return self.devices.get(device, self.default)

    def place_of(self, view: str) -> str:
        found = self.views[view]
        if self._runs_at(found.a, found.rate_a):
            return found.a
        return found.b if self._runs_at(found.b, found.rate_b) else CLOUD

    def _runs_at(self, device: str, rate: Exact) -> bool:
        return device not in self.cloud_sources and rate > self.limit[device]

    def ends(self, device: str) -> list[PairView]:
        return [self.views[view] for view in sorted(self.views_of.get(device, ()))]


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change did: the devices decided anew, those whose conflicts were settled anew, and views that moved."""

    standing: StandingPlacement
    decided: Names
    settled: Names
    moved: Mapping[str, str]


def stand(instance: Single, effort: Effort = Effort()) -> StandingPlacement:  # noqa: B008
    """Decides an instance from nothing."""
    empty = StandingPlacement(instance.default, instance.devices, instance.cloud_sources, {}, {}, {}, {}, {}, {}, 0)
    return change(empty, PlacementChange(added=instance.views), effort).standing


def change(before: StandingPlacement, what: PlacementChange, effort: Effort = Effort()) -> Changed:  # noqa: B008
    """Decides the touched devices again. Ids of removed views must be known, those of added ones must not be left."""
    after, touched = _with_views(before, what)
    decided = touched - before.cloud_sources
    after = _with_own_optima(after, decided)
    settled = _find_connected(decided, before.contested, after.contested, after.views, before.views)
    after = _settle_devices(before, after, settled, effort)
    near = {view for device in settled for view in after.views_of.get(device, ())} | {view.id for view in what.added}
    places = {view: after.place_of(view) for view in sorted(near)}
    moved = {view: at for view, at in places.items() if view not in before.views or before.place_of(view) != at}
    return Changed(after, decided, settled, moved)


def _with_views(before: StandingPlacement, what: PlacementChange) -> tuple[StandingPlacement, Names]:
    """The views after the change, and every device of a view or price that changed."""
    gone = [before.views[view] for view in sorted(what.removed)]
    views = {name: view for name, view in before.views.items() if name not in what.removed}
    views |= {view.id: view for view in what.added}
    touched = {name for view in (*gone, *what.added) for name in (view.a, view.b)} | what.devices.keys()
    new: dict[str, set[str]] = {}
    for view in what.added:
        new.setdefault(view.a, set()).add(view.id)
        new.setdefault(view.b, set()).add(view.id)
    views_of = dict(before.views_of)
    for device in touched:
        left = {view for view in views_of.get(device, ()) if view not in what.removed}
        views_of[device] = frozenset(left | new.get(device, set()))
    devices = {**before.devices, **what.devices}
    return replace(before, views=views, views_of=views_of, devices=devices), frozenset(touched)


def _with_own_optima(after: StandingPlacement, decided: Names) -> StandingPlacement:
    own = dict(after.own)
    for device in decided:
        own[device] = cheapest_limit(device, after.kind(device), after.ends(device))
    contested = dict(after.contested)
    changed = set(decided)
    for device in decided:
        mine = frozenset(view.id for view in after.ends(device) if _both_want(after, own, view))
        partners = {name for view in contested.get(device, frozenset()) | mine for name in _ends(after, view)}
        contested[device] = mine
        changed |= partners
    for device in changed - decided:
        contested[device] = frozenset(view.id for view in after.ends(device) if _both_want(after, own, view))
    return replace(after, own=own, contested={device: views for device, views in contested.items() if views})


def _ends(after: StandingPlacement, view: str) -> tuple[str, ...]:
    found = after.views.get(view)
    return (found.a, found.b) if found is not None else ()


def _both_want(after: StandingPlacement, own: Mapping[str, Exact], view: PairView) -> bool:
    if after.cloud_sources & {view.a, view.b}:
        return False
    return wants(view, view.a, own[view.a]) and wants(view, view.b, own[view.b])


def _find_connected(
    decided: Names,
    before: Mapping[str, Names],
    after: Mapping[str, Names],
    views: Mapping[str, PairView],
    old_views: Mapping[str, PairView],
) -> Names:
    """The decided devices and all that are joined to them by contested views, as they were or as they are now."""
    reached, todo = set(decided), list(decided)
    while todo:
        device = todo.pop()
        for name in before.get(device, frozenset()) | after.get(device, frozenset()):
            for view in (views.get(name), old_views.get(name)):
                for end in (view.a, view.b) if view is not None else ():
                    if end not in reached:
                        reached.add(end)
                        todo.append(end)
    return frozenset(reached)


def _settle_devices(
    before: StandingPlacement, after: StandingPlacement, devices: Names, effort: Effort
) -> StandingPlacement:
    """New limits for some devices. Their partners outside play the part of feeds in the Cloud: they want nothing."""
    near = {view for device in devices for view in after.views_of.get(device, ())}
    views = tuple(after.views[view] for view in sorted(near))
    outside = {name for view in views for name in (view.a, view.b)} - devices
    columns = as_columns(Single(views, after.default, after.devices, after.cloud_sources | outside))
    found = decide_pairs(columns.pairs, columns.star, effort)
    limits = {
        name: Fraction(int(limit), columns.rate_scale) for name, limit in zip(columns.names, found.limit, strict=True)
    }
    limit = {**after.limit, **{device: limits.get(device, Fraction(0)) for device in devices}}
    gap = {device: amount for device, amount in after.gap.items() if device not in devices}
    off = columns.exact(found.cost) - columns.exact(found.twice_bound, halves=True)
    if off and found.method != LOCAL:
        gap[min(devices)] = off
    paid_before = sum((_paid(before, device) for device in devices), start=Fraction(0))
    cost = after.cost - paid_before + columns.exact(found.cost)
    return replace(after, limit=limit, gap=gap, cost=cost.numerator if cost.denominator == 1 else cost)


def _paid(standing: StandingPlacement, device: str) -> Exact:
    if device in standing.cloud_sources or device not in standing.limit:
        return 0
    return device_cost(device, standing.kind(device), standing.ends(device), standing.limit[device])


def commit_device(
    limits: Mapping[str, Exact], device: str, limit: Exact, views: Iterable[PairView]
) -> dict[str, Exact]:
    """Deploys one device's new limit while others keep theirs, which may be out of date.

    Where a stale device would now claim a view that this one claims, it is lifted to upload what the view needs.
    """
    after = {**limits, device: limit}
    for view in views:
        if device not in (view.a, view.b) or not wants(view, device, limit):
            continue
        partner, rate = (view.b, view.rate_b) if device == view.a else (view.a, view.rate_a)
        if partner in after and rate > after[partner]:
            after[partner] = rate
    return after
