"""Faults: what the lab does in a run to the processes of a system, and to the line between it and the agents."""
