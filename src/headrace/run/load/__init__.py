"""Loading: the contents of new vertices from scratch, and the switch from one program to another."""
