"""Instance -> Decision: picks the method that is exact for the kind of instance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.model.errors import InputError, Problem
from headrace.plan.place.effort import Effort
from headrace.plan.place.infeasible import Infeasible
from headrace.plan.place.instance import CLOUD, CloudTree, Dag, PlacedOperator, PlacementDecision, Single
from headrace.plan.place.single import as_columns, decide_single


def decide(instance: Single | Dag, effort: Effort = Effort()) -> PlacementDecision:  # noqa: B008
    """The cheapest placement. Raises InputError if pins and capacities leave none."""
    return prepare_decision(instance)(effort)


def prepare_decision(instance: Single | Dag) -> Callable[[Effort], PlacementDecision]:
    """The instance in numbers, ready to be decided: for those who want to know how long deciding alone takes."""
    ready = _prepare_decision(instance)

    def decide_now(effort: Effort) -> PlacementDecision:
        try:
            return ready(effort)
        except Infeasible as error:
            raise InputError([Problem(str(error))]) from error

    return decide_now


def _prepare_decision(instance: Single | Dag) -> Callable[[Effort], PlacementDecision]:
    if isinstance(instance, Single) and instance.core is None:
        return partial(decide_single, instance, as_columns(instance))
    # Operator graphs need SciPy, which takes longer to load than most decisions over pairs.
    from headrace.plan.place.core_edge import decide_core
    from headrace.plan.place.dag import decide_dag
    from headrace.plan.place.graph import number_dag

    dag = as_dag(instance) if isinstance(instance, Single) else instance
    if dag.core is None:
        return partial(decide_dag, dag, number_dag(dag))
    return partial(decide_core, dag, dag.core, number_dag(dag, [link.weight for link in dag.core.links]))


def as_dag(single: Single) -> Dag:
    """The instance as an operator graph: one source per feed, one operator per view, in the order of the views."""
    names = sorted({name for view in single.views for name in (view.a, view.b)})
    # Sources share their namespace with operators, and in the core's attachments with devices.
    taken = {view.id for view in single.views} | set(names)
    mark = "feed:"
    while any(mark + name in taken for name in names):
        mark += ":"
    core = single.core
    if core is not None:
        kept = {(mark + name if name in single.cloud_sources else name): node for name, node in core.attach.items()}
        core = CloudTree(core.links, kept)
    return Dag(
        sources={mark + name: CLOUD if name in single.cloud_sources else name for name in names},
        operators=tuple(
            PlacedOperator(view.id, ((mark + view.a, view.rate_a), (mark + view.b, view.rate_b)), view.load)
            for view in single.views
        ),
        default=single.default,
        devices=single.devices,
        core=core,
    )
