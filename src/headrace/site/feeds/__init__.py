"""Feeds of a running project: their stores are kept, and pages are read from them."""
