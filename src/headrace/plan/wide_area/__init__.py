"""Where streaming operators run across a wide area, what queries share there, and how much gets through.

streams.py    queries as graphs of operators over streams, with rates and fingerprints
fluid.py      what a deployment sends over each link, and the throughput and latency that follow (max-min fair)
greedy.py     operator by operator in topological order: Sana's algorithms, corrected, with reservation
search.py     a whole query at once by dynamic programming on what already runs: the default
"""
