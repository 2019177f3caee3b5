"""A feed while it runs: what its store holds, how that is brought forward, and how a page is made of it."""
