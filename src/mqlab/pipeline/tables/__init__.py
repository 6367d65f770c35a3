"""The measure tables, one module a table: its columns, and how Spark computes it. Those of `points` sum up runs."""
