"""Sampling during a run: the resources of systems and agents, the disk and the network, as rows of `samples`."""
