"""What a device does with rows: its own and those of its partners go in, changes of results come out."""
