"""Durability: records for the journal, what waits for them, checkpoints, restoring after a start, and paging."""
