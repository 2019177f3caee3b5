"""Copies of views in other people's databases and folders, and how they are removed again."""
