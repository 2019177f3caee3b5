"""Compiles a Plan into a Program: for every vertex, the step that advances it, and the content of its log.

    program   one vertex after another, inputs first; also steps that only pass rows on
    join      changes of one side against contents of the other
    on_top    aggregates, other operators on top of a block, and views in full
    known     facts about the vertices compiled so far: columns, keys, states

Steps are defined in `run.steps` and performed by `run.operators`.
"""
