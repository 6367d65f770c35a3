"""Agents: the processes that play the roles of a run, and the conductor's handles on them.

The conductor sends an agent commands as lines of JSON; the agent connects through a driver and records events.
"""
