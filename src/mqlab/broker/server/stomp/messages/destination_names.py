"""Translates names of destinations between STOMP and the broker."""

from typing import Final

from mqlab.broker.core.model.destination_names import BadNameError

# The prefixes that a client may use, and those of the broker. The broker uses the first form of each kind itself.
_FORMS: Final = (("/queue/", "queue:"), ("/topic/", "topic:"), ("queue:", "queue:"), ("topic:", "topic:"))
# A temporary queue of the connection, by a name that only the connection knows.
TEMPORARY: Final = "/temp-queue/"


def native_name(written: str) -> str:
    """The broker's name of a queue or topic. `TemporaryQueues` knows temporary queues. Raises BadNameError."""
    for form, kind in _FORMS:
        if written.startswith(form):
            return kind + written.removeprefix(form)
    raise BadNameError(f"{written[:80]!r} is not a destination; write /queue/NAME, /topic/NAME or {TEMPORARY}NAME")


def stomp_name(name: str, like: str = "/") -> str:
    """The STOMP name of a destination, in the form of `like`."""
    if not like.startswith("/"):
        return name
    kind, colon, short = name.partition(":")
    return f"/{kind}/{short}" if colon and kind in ("queue", "topic") else name
