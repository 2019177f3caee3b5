"""What SQL means, in plain Python without Arrow or NumPy: scalars, functions, Z-sets, relations and their deltas."""
