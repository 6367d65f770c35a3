"""Capacity: the highest rate within a latency goal, as a search that plays no runs itself; and the scalability law."""
