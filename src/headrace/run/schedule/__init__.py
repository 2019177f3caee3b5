"""Decides when to push what, in which job, and when to end a job that takes too long."""
