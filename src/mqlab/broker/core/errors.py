"""The error with which the core refuses a command."""

from mqlab.errors import MqlabError


class CommandError(MqlabError):
    """The core refuses a command; the session goes on."""

    # The kind of refusal, for protocols that have a code for it.
    code = "refused"
