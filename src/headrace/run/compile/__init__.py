"""Compiles a Plan into a Program: for every vertex, the step that advances it, and the content of its log.

    compile_plan   one vertex after another, inputs first; also steps that only pass rows on
    join           changes of one side against contents of the other
    on_top         aggregates, other operators on top of a block, and views in full
    known          facts about the vertices compiled so far: columns, keys, states
    columns        which columns of a log's files stand for those that expressions read
    timers         conditions on time, as steps of their own

Steps are defined in `run.program` and performed by `run.operators`.
"""
