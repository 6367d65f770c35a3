"""Faults: what the lab does in a run to the processes of a system, to its disk, and to the line to it."""
