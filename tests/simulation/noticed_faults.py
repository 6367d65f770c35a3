"""Checks that a simulation notices a fault."""

from collections.abc import Callable


def notices(simulate: Callable[[int], object], seeds: int) -> bool:
    """One of the seeds does."""
    for seed in range(seeds):
        try:
            simulate(seed)
        except Exception:
            return True
    return False
