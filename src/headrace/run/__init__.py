"""A Plan and captured changes become maintained views and events."""
