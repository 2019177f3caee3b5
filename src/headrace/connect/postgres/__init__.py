"""PostgreSQL: embedded server, inspection of sources."""
