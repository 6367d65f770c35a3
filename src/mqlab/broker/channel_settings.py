"""What a person may choose about distributed queueing: channels to other brokers, and names for their queues."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from mqlab.errors import MqlabError
from mqlab.wire.address import BROKER_NAME, Address, BadAddressError

_REMOTE: Final = re.compile(r"queue:[^@]+@[A-Za-z0-9_-]{1,48}", re.ASCII)
_MOST_IN_A_BATCH: Final = 100_000
_LONGEST_PAUSE: Final = 3600
# What the names of queues that the broker makes for itself begin with.
_ITS_OWN: Final = ("transmit.", "channel.", "temporary.")


class ChannelError(MqlabError, ValueError):
    """A channel or the name of a remote queue cannot be as it was written."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    # The name of the broker it leads to, and where that one listens.
    to: str
    address: str
    # How it logs in there; the password is the first line of a file, read each time it connects.
    user: str = ""
    password_file: Path | None = None
    # Certificates (PEM) to trust with a tls: address. None: those this machine trusts.
    ca: Path | None = None
    # Messages that go together at most. More: fewer syncs over there; what is there goes at once, whatever this is.
    batch: int = 1000
    # Seconds between two tries to connect, at most: the pauses grow up to this.
    retry: int = 10

    def __post_init__(self) -> None:
        if not BROKER_NAME.fullmatch(self.to):
            raise ChannelError(f"to: {self.to[:80]!r} is not 1 to 48 letters, digits, _ and -")
        try:
            Address.parse(self.address)
        except BadAddressError as error:
            raise ChannelError(f"address: {error}") from None
        for name, most in (("batch", _MOST_IN_A_BATCH), ("retry", _LONGEST_PAUSE)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise ChannelError(f"{name}: {value!r} is not a whole number from 1 to {most}")
        if self.password_file is not None and not self.user:
            raise ChannelError("password_file: it needs a user")


CHANNEL_FIELDS: Final = tuple(one.name for one in fields(ChannelSettings))


def check_remote(short: str, target: str) -> None:
    """A name here that stands for a queue of another broker."""
    if not short or "@" in short or not short.isprintable() or short != short.strip() or short.startswith(_ITS_OWN):
        raise ChannelError(f"{short[:80]!r} is no name of a queue here, such as orders")
    if not target.isprintable() or not _REMOTE.fullmatch(target):
        raise ChannelError(f"{target[:80]!r} is no queue of another broker, such as queue:orders@B")
