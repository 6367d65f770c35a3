"""What the core answers when it does not do something."""


class RefusedError(Exception):
    """The command cannot be done; the session goes on without it."""
