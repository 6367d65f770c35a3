"""RUN: the conductor plays the points of a study on systems, with agents that play the roles.

It records events. It computes no measures: the agents' own counters only decide when a point has been repeated enough.
"""
