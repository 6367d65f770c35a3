"""What a destination of the lab is called on a NATS server."""

import re
from typing import NamedTuple, Self

from mqlab.drivers.api import DriverError

_NEEDS_ESCAPE = re.compile(r"[^A-Za-z0-9_-]")


class NatsNames(NamedTuple):
    """Messages that need not be kept go to `subject`; those to `stored`, or below it, are kept by `stream`."""

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
    """One word of a subject, or the name of a consumer: different for different names."""
    return _NEEDS_ESCAPE.sub(lambda found: "".join(f"={byte:02x}" for byte in found[0].encode()), name)
