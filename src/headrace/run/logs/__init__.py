"""What a log holds and how it is kept small: arrangements, merges, history, and which files may be deleted."""
