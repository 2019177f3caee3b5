"""The command of a device."""
