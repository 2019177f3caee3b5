"""A Plan becomes a Program: for every vertex the step that moves it on, and what its log holds.

    program   vertex after vertex, inputs first; rows that only come in or go on
    join      changes of one side against contents of the other
    on_top    aggregates, other operators on top of a block, and views in full
    known     what is known of the vertices so far: columns, keys, states

Steps are defined in `run.steps` and performed by `run.operators`.
"""
