"""A message as a consumer gets it."""

from typing import NamedTuple


class Message(NamedTuple):
    body: bytes
    # It may have been delivered before, to this consumer or another.
    redelivered: bool = False
