"""Transactions: commit, rollback, two-phase commit, and the sends that a transaction gathers."""
