"""When pins, capacities and allowed devices contradict each other."""

from __future__ import annotations


class Infeasible(Exception):
    """No choice obeys all rows, or none was found within the effort. The text says which, for the user."""
