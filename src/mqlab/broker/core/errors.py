"""The error with which the core refuses a command."""

from mqlab.errors import MqlabError


class CommandError(MqlabError):
    """The core refuses a command; the session goes on."""
