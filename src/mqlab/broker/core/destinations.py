"""Names of destinations: `queue:orders`, `topic:prices`."""

from typing import Final

from mqlab.broker import limits

QUEUE: Final = "queue"
TOPIC: Final = "topic"


class BadNameError(ValueError):
    """The name is none a destination can have."""


def parse(name: str) -> tuple[str, str]:
    """The kind and the short name. Names are keys and log text, never paths, yet stay printable and bounded."""
    kind, colon, short = name.partition(":")
    if not colon or kind not in (QUEUE, TOPIC):
        raise BadNameError(f"{name[:80]!r} is no destination; write queue:NAME or topic:NAME")
    if not short or len(short.encode(errors="replace")) > limits.NAME:
        raise BadNameError(f"the name of a {kind} has 1 to {limits.NAME} bytes")
    if not short.isprintable() or short != short.strip():
        raise BadNameError(f"{short[:80]!r}: a name has printable characters and no blank at its ends")
    return kind, short
