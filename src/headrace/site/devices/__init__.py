"""Devices of a running project: who they are, the broker and the router."""
