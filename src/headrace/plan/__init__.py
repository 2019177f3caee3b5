"""Catalogue and Stats become a Plan: pure functions, one module or package per decision.

canonical/   what a query means, in one form: blocks and fingerprints
statistics, selectivity, outputs     rows, rates and widths of joins and of what comes out of blocks
price        operator times, critical paths, costs, capacities
search/      the cheapest plan of one contract in the space of all; admit decides, refuse makes a counter-offer
share/       what contracts have in common; make puts one plan together for all of them
document     the plan as JSON;  check/ judges such a document without sharing code with the planner
explain      why, and what if
wide_area/   streaming queries between regions
place/       small views: device or cloud;  feeds/  store ahead or on read
"""
