"""Hundreds of clients need more open files than a shell allows at first; agents and systems inherit the limit."""

import resource


def raise_file_limit() -> None:
    """As far as this process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
