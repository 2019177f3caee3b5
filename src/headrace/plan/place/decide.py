"""Instance -> Decision: picks the method that is exact for the kind of instance."""

from __future__ import annotations

from headrace.model.errors import InputError, Problem
from headrace.plan.place.effort import Effort
from headrace.plan.place.infeasible import Infeasible
from headrace.plan.place.instance import CLOUD, Core, Dag, Decision, Operator, Single
from headrace.plan.place.single import decide_single


def decide(instance: Single | Dag, effort: Effort = Effort()) -> Decision:  # noqa: B008
    """The cheapest placement. Raises InputError if pins and capacities leave none."""
    try:
        return _decide(instance, effort)
    except Infeasible as error:
        raise InputError([Problem(str(error))]) from error


def _decide(instance: Single | Dag, effort: Effort) -> Decision:
    if isinstance(instance, Single) and instance.core is None:
        return decide_single(instance, effort)
    # Operator graphs need SciPy, which takes longer to load than most decisions over pairs.
    from headrace.plan.place.core_edge import decide_core
    from headrace.plan.place.dag import decide_dag

    dag = as_dag(instance) if isinstance(instance, Single) else instance
    return decide_dag(dag, effort) if dag.core is None else decide_core(dag, dag.core, effort)


def as_dag(single: Single) -> Dag:
    """The same instance as an operator graph: one source per feed, one operator per view, in the order of the views."""
    names = sorted({name for view in single.views for name in (view.a, view.b)})
    taken = {view.id for view in single.views}
    mark = "feed:"
    while any(mark + name in taken for name in names):
        mark += ":"
    core = single.core
    if core is not None:
        kept = {(mark + name if name in single.cloud_sources else name): node for name, node in core.attach.items()}
        core = Core(core.links, kept)
    return Dag(
        sources={mark + name: CLOUD if name in single.cloud_sources else name for name in names},
        operators=tuple(
            Operator(view.id, ((mark + view.a, view.rate_a), (mark + view.b, view.rate_b)), view.load)
            for view in single.views
        ),
        default=single.default,
        devices=single.devices,
        core=core,
    )
