"""What the core answers when it does not do something."""

from mqlab.errors import MqlabError


class RefusedError(MqlabError):
    """The command cannot be done; the session goes on without it."""
