"""The ledger on SQLite or PostgreSQL: what is committed, and who may commit."""
