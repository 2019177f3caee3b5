"""Sources that are folders to which files are only ever added."""
