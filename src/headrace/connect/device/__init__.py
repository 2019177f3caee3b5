"""A device's own disk, and its connection to the broker."""
