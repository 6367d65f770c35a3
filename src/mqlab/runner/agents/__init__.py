"""Agents: the processes that play roles, and the conductor's side of them."""
