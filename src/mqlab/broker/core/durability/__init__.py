"""What the core asks the journal to keep: records, checkpoints, restoring, paging."""
