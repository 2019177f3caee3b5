"""Sources without a database, whose rows the service writes itself."""
