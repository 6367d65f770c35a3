"""Transactions: commit, rollback, two-phase commit, and joining of the sends of an open transaction."""
