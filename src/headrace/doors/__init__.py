"""What people start. Thin: read input, call app, show the result."""
