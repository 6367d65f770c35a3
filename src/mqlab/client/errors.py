"""The exceptions of the client library."""

from mqlab.errors import MqlabError


class MessagingError(MqlabError):
    """Any failure of messaging."""


class ClosedError(MessagingError):
    """The connection (or this part of it) is closed; sends without a confirmation may or may not have arrived."""


class SeenAllError(ClosedError):
    """A browser has reached the end of its queue."""


class RefusedError(MessagingError):
    """The broker refused the operation; nothing of it happened."""


class LoginError(MessagingError):
    """The broker refused the user or the password."""
