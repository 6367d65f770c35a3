"""Settings of distributed queueing: channels to other brokers, and local names of their queues."""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from mqlab.errors import MqlabError
from mqlab.wire.address import BROKER_NAME, Address, BadAddressError

_REMOTE: Final = re.compile(r"queue:[^@]+@[A-Za-z0-9_-]{1,48}", re.ASCII)
_MOST_IN_A_BATCH: Final = 100_000
_LONGEST_PAUSE_S: Final = 3600
# Prefixes of queues that the broker creates for itself.
_RESERVED_PREFIXES: Final = ("transmit.", "channel.", "temporary.")


class ChannelError(MqlabError):
    """The settings of a channel, or the name of a remote queue, are wrong."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    # The name of the other broker, and the address where it listens.
    to: str
    address: str
    # The user and, as the first line of a file, the password; the file is read for each connection.
    user: str = ""
    password_file: Path | None = None
    # Certificates (PEM) to trust with a tls: address. None: those that this machine trusts.
    ca: Path | None = None
    # The most messages of a batch. More: fewer syncs at the other broker. The channel never waits for a full batch.
    batch: int = 1000
    # The longest pause between two attempts to connect, in seconds; pauses grow up to it.
    retry: int = 10

    def __post_init__(self) -> None:
        if not BROKER_NAME.fullmatch(self.to):
            raise ChannelError(f"to: {self.to[:80]!r} is not 1 to 48 letters, digits, _ and -")
        try:
            Address.parse(self.address)
        except BadAddressError as error:
            raise ChannelError(f"address: {error}") from None
        for name, most in (("batch", _MOST_IN_A_BATCH), ("retry", _LONGEST_PAUSE_S)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise ChannelError(f"{name}: {value!r} is not a whole number from 1 to {most}")
        if self.password_file is not None and not self.user:
            raise ChannelError("password_file: it needs a user")


CHANNEL_FIELDS: Final = tuple(setting.name for setting in fields(ChannelSettings))


def check_remote(short: str, target: str) -> None:
    """Check a local name for a queue of another broker. Raises ChannelError."""
    if (
        not short
        or "@" in short
        or not short.isprintable()
        or short != short.strip()
        or short.startswith(_RESERVED_PREFIXES)
    ):
        raise ChannelError(f"{short[:80]!r} is not a name for a remote queue, such as orders")
    if not target.isprintable() or not _REMOTE.fullmatch(target):
        raise ChannelError(f"{target[:80]!r} is not a queue of another broker, such as queue:orders@B")
