"""Many contracts, one graph: what they share, and how it changes while it runs."""
