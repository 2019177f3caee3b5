"""The search for the plan of one contract: labels, supplies, joins, operators on top, and the way back to a graph."""
