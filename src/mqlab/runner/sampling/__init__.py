"""Sampling of processes and of the network during a run, for the events."""
