"""Catalogue and Stats become a Plan: pure functions, one module per decision."""
