"""The stages wired together."""
