"""Background checks: whether what we hold is what the sources hold, and views are what their queries say."""
