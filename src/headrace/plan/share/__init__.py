"""Many contracts, one graph: what they share, and how it changes while it runs.

    arrangement   the graph and the promises that it keeps
    place         one more contract, on top of what lives
    widen         a live sub-join with more columns serves those who need fewer
    merge, plumb  plans made alone, put together afterwards (SMILE's way)
    replan        contracts planned once more, when the others are there
    change        a contract comes or goes while the plan runs
    adapt         when what was measured differs from what was planned
    difference    what two plans have in common
"""
