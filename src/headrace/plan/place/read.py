"""JSON text -> `Single` or `Dag`. Every mistake is reported with its place; what comes out needs no further check."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from headrace.model.errors import nearest_name
from headrace.plan.place.allowed import allowed_devices, in_order
from headrace.plan.place.instance import CLOUD, Core, CoreLink, Dag, Device, Mode, Operator, PairView, Single
from headrace.plan.place.json_text import Path, Problems, Repeated, parse
from headrace.plan.place.numbers import Exact

SINGLE_FIELDS = ("kind", "cu", "cd", "devices", "cloud_sources", "pairs", "core")
DAG_FIELDS = ("kind", "cu", "cd", "mode", "devices", "sources", "ops", "share", "core")
OPERATOR_FIELDS = ("id", "inputs", "load", "allowed", "pin")
DEVICE_FIELDS = ("cu", "cd", "capacity")


def read_instance(text: str, file: str) -> Single | Dag:
    """Raises InputError with all mistakes."""
    document = parse(text, file)
    problems = Problems(text, file)
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind == "single":
        return _Reader(document, problems).single()
    if kind == "dag":
        return _Reader(document, problems).dag()
    found = f", not {kind!r}".replace("'", '"') if kind is not None else ""
    problems.add(
        f'a placement instance has the kind "single" or "dag"{found}', ("kind",), '{"kind": "single", "pairs": [...]}'
    )
    problems.raise_any()
    raise AssertionError("unreachable: a problem was just added")


class _Reader:
    """Reads one document. A value that is wrong is replaced by one that is not, so that the rest can still be read."""

    def __init__(self, document: dict[str, Any], problems: Problems) -> None:
        self._document = document
        self._problems = problems

    def single(self) -> Single:
        self._fields(self._document, (), SINGLE_FIELDS)
        default = Device(self._number("cu", 1), self._number("cd", 1))
        views = self._views()
        names = {name for view in views for name in (view.a, view.b)}
        in_cloud = frozenset(self._names(self._document.get("cloud_sources", []), ("cloud_sources",)))
        core = self._core(names - in_cloud, in_cloud)
        read = Single(views, default, self._devices(default, names), in_cloud, core)
        self._problems.raise_any()
        return read

    def dag(self) -> Dag:
        self._fields(self._document, (), DAG_FIELDS)
        default = Device(self._number("cu", 1), self._number("cd", 1))
        sources = self._sources()
        operators = self._operators(sources)
        known = {home for home in sources.values() if home != CLOUD}
        in_cloud = frozenset(name for name, home in sources.items() if home == CLOUD)
        read = Dag(
            sources,
            operators,
            self._mode(),
            default,
            self._devices(default, known),
            self._sums({*sources, *(operator.id for operator in operators)}),
            self._core(known, in_cloud),
        )
        self._problems.raise_any()
        self._check_graph(read)
        self._problems.raise_any()
        return read

    # Parts of both kinds

    def _fields(self, found: Mapping[str, Any], path: Path, known: tuple[str, ...]) -> None:
        if isinstance(found, Repeated):
            self._problems.add(f'the field "{found.key}" is given twice', (*path, found.key))
        for field in found:
            if field not in known:
                self._problems.add(
                    f'"{field}" is not a field here',
                    (*path, field),
                    nearest_name(field, known) or f"one of: {', '.join(known)}",
                )

    def _number(self, field: str, default: Exact, at: Mapping[str, Any] | None = None, path: Path = ()) -> Exact:
        found = (self._document if at is None else at).get(field, default)
        return self._amount(found, field, (*path, field))

    def _amount(self, found: Any, what: str, path: Path) -> Exact:
        if isinstance(found, int | Fraction) and not isinstance(found, bool) and found >= 0:
            return found
        if isinstance(found, float):
            self._problems.add(f"{what} is not a finite number, or out of range", path)
        elif isinstance(found, int | Fraction) and not isinstance(found, bool):
            self._problems.add(
                f"{what} is negative: {_text(found)}", path, "rates, prices, loads and capacities are 0 or more"
            )
        else:
            self._problems.add(f"{what} is not a number: {_text(found)}", path)
        return 0

    def _name(self, found: Any, what: str, path: Path, *, place: bool = True) -> str:
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        if not isinstance(found, str) or not found:
            self._problems.add(f"{what} is not a name: {_text(found)}", path)
            return "?"
        if place and found == CLOUD:
            self._problems.add(f'"{CLOUD}" is reserved and cannot name {what}', path)
        return found

    def _names(self, found: Any, path: Path) -> tuple[str, ...]:
        if not isinstance(found, list):
            self._problems.add(f"expected a list of names, not {_text(found)}", path)
            return ()
        return tuple(self._name(name, "a name", (*path, at), place=False) for at, name in enumerate(found))

    def _object(self, found: Any, path: Path) -> Mapping[str, Any]:
        if isinstance(found, dict):
            if isinstance(found, Repeated):
                self._problems.add(f'"{found.key}" is given twice', (*path, found.key))
            return found
        self._problems.add(f"expected an object, not {_text(found)}", path)
        return {}

    def _list(self, field: str) -> list[Any]:
        found = self._document.get(field)
        if isinstance(found, list):
            return found
        what = f'"{field}" is missing' if found is None else f'"{field}" is not a list'
        self._problems.add(what, (field,))
        return []

    def _devices(self, default: Device, known: set[str]) -> dict[str, Device]:
        found = self._object(self._document.get("devices", {}), ("devices",))
        read = {}
        for name, entry in found.items():
            path = ("devices", name)
            if name not in known:
                hint = nearest_name(name, known) or "devices are those of the pairs or sources"
                self._problems.add(f'device "{name}" is unknown', path, hint)
            entry = self._object(entry, path)
            self._fields(entry, path, DEVICE_FIELDS)
            capacity = entry.get("capacity")
            read[name] = Device(
                self._number("cu", default.up, entry, path),
                self._number("cd", default.down, entry, path),
                None if capacity is None else self._amount(capacity, "capacity", (*path, "capacity")),
            )
        return read

    def _core(self, devices: set[str], in_cloud: frozenset[str]) -> Core | None:
        found = self._document.get("core")
        if found is None:
            return None
        found = self._object(found, ("core",))
        self._fields(found, ("core",), ("links", "attach"))
        links = self._core_links(found.get("links", []))
        attach = {
            name: self._name(node, "a node", ("core", "attach", name), place=False)
            for name, node in self._object(found.get("attach", {}), ("core", "attach")).items()
        }
        nodes = {node for link in links for node in (link.one, link.other)} or set(attach.values())
        self._check_attached(attach, nodes, devices, in_cloud)
        self._check_tree(links, nodes)
        return Core(links, attach)

    def _core_links(self, found: Any) -> tuple[CoreLink, ...]:
        if not isinstance(found, list):
            self._problems.add(f"expected a list of links, not {_text(found)}", ("core", "links"))
            return ()
        links = []
        for at, link in enumerate(found):
            path: Path = ("core", "links", at)
            if not isinstance(link, list) or len(link) != 3:
                self._problems.add(f"a core link is [node, node, weight], not {_text(link)}", path)
                continue
            one, other = (self._name(name, "a node", (*path, k), place=False) for k, name in enumerate(link[:2]))
            links.append(CoreLink(one, other, self._amount(link[2], "weight", (*path, 2))))
        return tuple(links)

    def _check_attached(
        self, attach: Mapping[str, str], nodes: set[str], devices: set[str], in_cloud: frozenset[str]
    ) -> None:
        for name, node in attach.items():
            path = ("core", "attach", name)
            if name not in devices and name not in in_cloud:
                self._problems.add(f'device "{name}" is unknown', path, nearest_name(name, devices))
            if node not in nodes:
                self._problems.add(f'core node "{node}" is in no link', path, nearest_name(node, nodes))
        for name in sorted(devices - attach.keys()):
            self._problems.add(f'device "{name}" is not attached to a core node', ("core", "attach"))
        for name in sorted(devices & nodes):
            self._problems.add(f'"{name}" names both a device and a core node', ("core", "links"))
        if not nodes:
            self._problems.add(
                "the core has no nodes", ("core",), '{"links": [["n1", "n2", 1]], "attach": {"d1": "n1"}}'
            )

    def _check_tree(self, links: tuple[CoreLink, ...], nodes: set[str]) -> None:
        group = {node: node for node in nodes}

        def root(node: str) -> str:
            while group[node] != node:
                group[node] = group[group[node]]
                node = group[node]
            return node

        for at, link in enumerate(links):
            one, other = root(link.one), root(link.other)
            if one == other:
                self._problems.add(
                    f'the core is not a tree: link "{link.one}"-"{link.other}" closes a circle', ("core", "links", at)
                )
            group[one] = other
        if len({root(node) for node in nodes}) > 1:
            self._problems.add("the core is not a tree: it falls into parts", ("core", "links"))

    # One level

    def _views(self) -> tuple[PairView, ...]:
        given: dict[str, int] = {}
        taken: set[str] = set()
        views = []
        for at, pair in enumerate(self._list("pairs")):
            view = self._view(pair, ("pairs", at), given)
            if view is None:
                continue
            if view.id in taken:
                self._problems.add(f'view id "{view.id}" is given twice', ("pairs", at))
            taken.add(view.id)
            views.append(view)
        return tuple(views)

    def _view(self, pair: Any, path: Path, given: dict[str, int]) -> PairView | None:
        if not isinstance(pair, list) or not 4 <= len(pair) <= 6:
            self._problems.add(
                f"a pair is [i, j, rate of i, rate of j, optional id, optional load], not {_text(pair)}", path
            )
            return None
        a, b, rate_a, rate_b, *more = pair
        if not (type(a) is str and type(b) is str and a and b and CLOUD not in (a, b)):
            a, b = self._name(a, "a device", (*path, 0)), self._name(b, "a device", (*path, 1))
        if a == b and a != "?":
            self._problems.add(f'device "{a}" is paired with itself', path)
        if not (type(rate_a) is int and rate_a >= 0):
            rate_a = self._amount(rate_a, f'the rate of "{a}"', (*path, 2))
        if not (type(rate_b) is int and rate_b >= 0):
            rate_b = self._amount(rate_b, f'the rate of "{b}"', (*path, 3))
        load = self._amount(more[1], "load", (*path, 5)) if len(more) > 1 and more[1] is not None else 1
        if more and more[0] is not None:
            return PairView(self._name(more[0], "a view", (*path, 4), place=False), a, b, rate_a, rate_b, load)
        name = f"{a}|{b}"
        given[name] = given.get(name, 0) + 1
        return PairView(name if given[name] == 1 else f"{name}#{given[name]}", a, b, rate_a, rate_b, load)

    # Operator graphs

    def _mode(self) -> Mode:
        found = self._document.get("mode", Mode.DERIVE)
        if found in tuple(Mode):
            return Mode(found)
        self._problems.add(f"mode is {_text(found)}", ("mode",), f"one of: {', '.join(Mode)}")
        return Mode.DERIVE

    def _sources(self) -> dict[str, str]:
        if "sources" not in self._document:
            self._problems.add('"sources" is missing', ())
        found = self._object(self._document.get("sources", {}), ("sources",))
        return {
            name: self._name(home, "a device", ("sources", name), place=home != CLOUD) for name, home in found.items()
        }

    def _operators(self, sources: Mapping[str, str]) -> tuple[Operator, ...]:
        taken = set(sources)
        operators = []
        for at, entry in enumerate(self._list("ops")):
            path: Path = ("ops", at)
            entry = self._object(entry, path)
            self._fields(entry, path, OPERATOR_FIELDS)
            name = self._name(entry.get("id"), "an operator", (*path, "id"), place=False)
            if name in taken:
                self._problems.add(f'id "{name}" is given twice', (*path, "id"))
            taken.add(name)
            allowed, pin = entry.get("allowed"), entry.get("pin")
            operators.append(
                Operator(
                    name,
                    self._inputs(entry.get("inputs"), (*path, "inputs")),
                    self._number("load", 1, entry, path),
                    None if allowed is None else self._names(allowed, (*path, "allowed")),
                    None if pin is None else self._name(pin, "a device", (*path, "pin"), place=False),
                )
            )
        self._check_names(operators, sources, taken)
        return tuple(operators)

    def _inputs(self, found: Any, path: Path) -> tuple[tuple[str, Exact], ...]:
        if not isinstance(found, list):
            self._problems.add(
                "inputs are [[stream, rate], ...]" if found is None else f"inputs are {_text(found)}", path
            )
            return ()
        inputs = []
        for at, entry in enumerate(found):
            if not isinstance(entry, list) or len(entry) != 2:
                self._problems.add(f"an input is [stream, rate], not {_text(entry)}", (*path, at))
                continue
            name = self._name(entry[0], "a stream", (*path, at, 0), place=False)
            inputs.append((name, self._amount(entry[1], f'the rate of "{name}"', (*path, at, 1))))
        return tuple(inputs)

    def _check_names(self, operators: list[Operator], sources: Mapping[str, str], streams: set[str]) -> None:
        devices = {home for home in sources.values() if home != CLOUD}
        for at, operator in enumerate(operators):
            for k, (name, _) in enumerate(operator.inputs):
                if name not in streams and name != "?":
                    self._problems.add(
                        f'stream "{name}" is unknown', ("ops", at, "inputs", k), nearest_name(name, streams)
                    )
            for k, name in enumerate(operator.allowed or ()):
                if name not in devices and name != CLOUD:
                    self._problems.add(
                        f'device "{name}" is unknown', ("ops", at, "allowed", k), nearest_name(name, devices)
                    )
            if operator.pin not in (None, CLOUD) and operator.pin not in devices:
                hint = nearest_name(str(operator.pin), devices)
                self._problems.add(f'device "{operator.pin}" is unknown', ("ops", at, "pin"), hint)

    def _sums(self, streams: set[str]) -> frozenset[str]:
        found = self._object(self._document.get("share", {}), ("share",))
        for name, how in found.items():
            if name not in streams:
                self._problems.add(f'stream "{name}" is unknown', ("share", name), nearest_name(name, streams))
            if how not in ("sum", "max"):
                self._problems.add(f'share is {_text(how)}, not "sum" or "max"', ("share", name))
        return frozenset(name for name, how in found.items() if how == "sum")

    def _check_graph(self, dag: Dag) -> None:
        """No circles; and every pin is where the operator may run."""
        try:
            operators = tuple(in_order(dag))
        except graphlib.CycleError as error:
            self._problems.add(f"operators read each other in a circle: {' -> '.join(error.args[1])}", ("ops",))
            return
        possible = allowed_devices(dag, operators)
        for at, operator in enumerate(dag.operators):
            if operator.pin not in (None, CLOUD) and not possible[operator.id]:
                self._problems.add(
                    f'operator "{operator.id}" is pinned to device "{operator.pin}", where it is not allowed',
                    ("ops", at, "pin"),
                    'name the device in "allowed", or choose another "mode"',
                )


def _text(value: Any) -> str:
    """A value as it stands in the file, cut to a line."""
    if isinstance(value, Fraction):
        return str(float(value))
    shown = {True: "true", False: "false", None: "null"}.get(value) if isinstance(value, bool | None) else None
    text = shown or (f'"{value}"' if isinstance(value, str) else f"{value}").replace("'", '"')
    return text if len(text) <= 60 else text[:57] + "..."
