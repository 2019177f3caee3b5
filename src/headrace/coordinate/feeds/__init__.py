"""Decides what feeds store ahead while they run."""
