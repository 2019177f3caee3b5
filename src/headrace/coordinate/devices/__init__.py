"""Decides where pairs of templates run while they do, and tells devices."""
