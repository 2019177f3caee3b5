"""Pushes: work items that bring vertices to a time, and the engine that performs and commits them."""
