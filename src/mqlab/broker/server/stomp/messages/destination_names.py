"""Names of destinations as STOMP clients write them, and as the broker does."""

from typing import Final

from mqlab.broker.core.model.destination_names import BadNameError

# How a client may write a destination, and what the broker calls it. The first form of each is the one it is told.
_FORMS: Final = (("/queue/", "queue:"), ("/topic/", "topic:"), ("queue:", "queue:"), ("topic:", "topic:"))
# A queue of the connection itself, by a name that only it knows.
TEMPORARY: Final = "/temp-queue/"


def native_name(written: str) -> str:
    """Raises BadNameError. Temporary queues are not looked at here: only their connection knows them."""
    for form, kind in _FORMS:
        if written.startswith(form):
            return kind + written.removeprefix(form)
    raise BadNameError(f"{written[:80]!r} is no destination; write /queue/NAME, /topic/NAME or {TEMPORARY}NAME")


def stomp_name(name: str, like: str = "/") -> str:
    """A name of the broker as a client writes it that wrote `like`."""
    if not like.startswith("/"):
        return name
    kind, colon, short = name.partition(":")
    return f"/{kind}/{short}" if colon and kind in ("queue", "topic") else name
