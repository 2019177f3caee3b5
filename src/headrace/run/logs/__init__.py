"""What a log holds and how it is kept small: indexes, merges, history, and which files may be deleted."""
