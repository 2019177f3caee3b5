"""Where each small view runs: on a device or in the Cloud, whichever sends the fewest messages.

Devices hang off the Cloud like a star. A stream that leaves its device is paid once per unit of rate on the way up, and
once more by every device that takes it down. Decisions are exact, or carry a lower bound that says how far off they may
be.

    read        JSON text -> Single | Dag                decide      Single | Dag -> Decision
    templates   a template and its rows -> Dag           why         one view's decision, in words

    single      one view per pair                        dag         any operator graph
    threshold   every device alone, by sorting           networks    every device alone, as cuts
    several     views that share a download              located     operators only where an input is
    conflicts   views that two devices want              core_edge   a tree of Cloud nodes behind the star

    cut         minimum cuts, half-integral cuts         search      what no cut decides
    adapt       rates, pairs and prices change           redeploy    when to move
    adapt_graph operators change                         failure     a device is gone

The model, and where the original paper (RACE, VLDB 2013) is wrong, are in `docs/placement.md`.
"""
