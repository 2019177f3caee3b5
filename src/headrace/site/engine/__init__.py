"""The engine of a site: starts it, gives it jobs with time limits, and notices when it stands still."""
