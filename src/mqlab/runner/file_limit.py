"""The limit of open files: hundreds of clients need more than the default. Agents and systems inherit it."""

import resource


def raise_file_limit() -> None:
    """Raise the soft limit to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
