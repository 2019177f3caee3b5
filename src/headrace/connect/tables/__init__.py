"""Tables in files: Parquet and CSV, read and written with Arrow, some rows at a time."""
