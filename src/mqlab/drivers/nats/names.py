"""Names of a destination on a NATS server."""

import re
from typing import NamedTuple, Self

from mqlab.drivers.api import DriverError

_NEEDS_ESCAPE = re.compile(r"[^A-Za-z0-9_-]")


class NatsNames(NamedTuple):
    """Core NATS uses `subject`. The JetStream stream `stream` keeps messages to `stored` and below it."""

    is_queue: bool
    subject: str
    stored: str
    stream: str

    @classmethod
    def of(cls, destination: str) -> Self:
        kind, _, name = destination.partition(":")
        if kind not in ("queue", "topic") or not name:
            raise DriverError(f"{destination!r} is not a destination: write queue:NAME or topic:NAME")
        plain = escaped(name)
        return cls(kind == "queue", f"{kind}.{plain}", f"stored.{kind}.{plain}", f"{kind}_{plain}")


def escaped(name: str) -> str:
    """Escape a name for use in a subject or as a consumer name. Different names stay different."""
    return _NEEDS_ESCAPE.sub(lambda match: "".join(f"={byte:02x}" for byte in match[0].encode()), name)
