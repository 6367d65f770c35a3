"""Rounds: which points take turns, and the random errors of what is computed from their runs."""
