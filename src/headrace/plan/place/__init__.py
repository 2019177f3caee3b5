"""Where each small view runs: on a device or in the Cloud, whichever sends the fewest messages.

Devices hang off the Cloud like a star. A stream that leaves its device is paid once per unit of rate on the way up,
and once more by every device that takes it down. The decisions here are exact, or carry a lower bound that says how
far off they may be.

    read       JSON text -> Single | Dag               templates  a template and its rows -> Dag
    threshold  each device alone, one level            networks   each device alone, any operator graph
    conflicts  one level, uploads dearer               components devices that want the same operator, capacities
    cut        the shared core: minimum cuts           search     what no cut decides: HiGHS, then exact branching
    core_edge  a tree of Cloud nodes behind the star   adapt      rates and rows change, devices fail
    decide     instance -> Decision                    why        one view's decision, in words

The model, the proofs and what the original paper (RACE, VLDB 2013) gets wrong are in `docs/placement.md`.
"""
