"""Spark: finding Java, building the session."""
