"""Rows as Arrow tables: types, equality, hashes, changes, and comparisons of large multisets."""
