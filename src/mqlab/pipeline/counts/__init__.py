"""Counts of the events of runs: how runs become partitions, what a task reads, and the same counts in SQL."""
