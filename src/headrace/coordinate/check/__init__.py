"""Checks what runs in the background: what is held against the sources, and views against their queries."""
