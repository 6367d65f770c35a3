"""The capacity of systems: what the runs of a search have shown, which runs it needs next, and its part of a report."""
