"""The HTTP interface of a running service: the answers of the commands, for people and programs."""
