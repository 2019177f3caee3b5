"""Compares views with their queries, evaluated from scratch on the sources as of the same time."""
