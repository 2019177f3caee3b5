"""A Plan becomes a Program: for every vertex the step that moves it on, and what its log holds."""
