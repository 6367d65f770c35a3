"""Names of destinations: `queue:orders`, `topic:prices.metal.gold`."""

from typing import Final

from mqlab.broker import limits
from mqlab.broker.patterns import is_pattern
from mqlab.errors import MqlabError

QUEUE: Final = "queue"
TOPIC: Final = "topic"
# Temporary queues; clients cannot choose such a name.
TEMPORARY: Final = "temporary."


class BadNameError(MqlabError, ValueError):
    """A name that no destination can have."""


def parse(name: str, *, patterns: bool = False) -> tuple[str, str]:
    """The kind and the short name. Names are used as keys and in logs, so they are printable and bounded.

    `patterns` allows a topic with wildcards, which can be subscribed to but not sent to.
    """
    kind, colon, short = name.partition(":")
    if not colon or kind not in (QUEUE, TOPIC):
        raise BadNameError(f"{name[:80]!r} is not a destination; write queue:NAME or topic:NAME")
    check_name(short, f"the name of a {kind}")
    if is_pattern(short):
        if kind == QUEUE or not patterns:
            raise BadNameError(f"{name[:80]!r}: only subscriptions to topics can use * and #")
        if "#" in short.split(".")[:-1]:
            raise BadNameError(f"{name[:80]!r}: # matches all remaining levels, so it can stand only at the end")
    return kind, short


def check_name(name: str, subject: str) -> None:
    """Raises BadNameError."""
    if not name or len(name.encode(errors="replace")) > limits.NAME:
        raise BadNameError(f"{subject} has 1 to {limits.NAME} bytes")
    if not name.isprintable() or name != name.strip():
        raise BadNameError(f"{name[:80]!r}: a name has printable characters and no blank at its ends")
