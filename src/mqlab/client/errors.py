"""What can go wrong for a client."""

from mqlab.errors import MqlabError


class MessagingError(MqlabError):
    """Any failure of messaging."""


class ClosedError(MessagingError):
    """The connection (or this part of it) is closed; sends without a confirmation may or may not have arrived."""


class SeenAllError(ClosedError):
    """A browser has seen all there was."""


class RefusedError(MessagingError):
    """The broker said no; nothing of it happened."""


class LoginError(MessagingError):
    """The broker wants a user and a password, and not these."""
