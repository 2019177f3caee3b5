"""Store ahead or on read: how the events of every producer reach each consumer who follows it, at the least cost.

    document      JSON instances, read and answered       tables        columns of pairs and rates -> Feeds
    decide        Feeds -> Decision                       composite     Composite -> Decision, by one minimum cut
    per_pair      least cost, in doubles                  exactly       the same in integers, for near ties
    coherency     the four price models                   cost          what an assignment costs
    latency       read-latency targets                    cover         the covering knapsack behind them
    wholesale     consumers as a whole: a baseline        controller    one number that follows measured latency
    hysteresis    rates change: which pairs flip          explain       one pair's decision, in words
    relations     what a feed maintains                   family        a feed of a project in its plan
    load          what a feed takes                       explain_feed  why a feed, or a pair of it, is planned so

A feed event that is pushed is stored ahead; one that is pulled is fetched on read. The model, the proofs and what the
original paper (Feeding Frenzy, SIGMOD 2010) gets wrong are in `docs/deciding-feeds.md`.
"""
