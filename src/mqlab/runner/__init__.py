"""RUN: agents (processes that play producers, consumers, requesters and responders), and the conductor of it all.

Records go to `events`; no figure is computed here beyond the agents' own counters, which decide only when to stop.
"""
