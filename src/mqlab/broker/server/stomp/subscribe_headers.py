"""What the headers of a SUBSCRIBE ask for."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from mqlab.broker import limits
from mqlab.broker.core.selectors.texts import CONVERTING
from mqlab.broker.server.stomp.messages.headers import flag, number
from mqlab.wire.stomp import StompError

Acknowledge = Literal["auto", "client", "client-individual"]
# As many as a fast client works off in a moment; few of large messages are in memory twice.
_PREFETCH: Final = 1000
_PREFETCHES: Final = ("prefetch", "prefetch-count", "activemq.prefetchSize")
_DURABLE_NAMES: Final = ("durable-subscription-name", "activemq.subscriptionName", "activemq.subcriptionName")


class SubscribeHeaders(NamedTuple):
    # By which it is unsubscribed: its id or, for clients of 1.0 that give none, its destination.
    key: str
    id: str | None
    # The destination as the client wrote it.
    written: str
    acknowledge: Acknowledge
    prefetch: int
    # The rest, as the broker's own protocol says it.
    said: dict[str, Any]


def parse_subscribe(headers: Mapping[str, str], version: str) -> SubscribeHeaders:
    """Raises StompError."""
    written, given = headers.get("destination", ""), headers.get("id")
    if not written:
        raise StompError("SUBSCRIBE needs a destination")
    if given is None and version != "1.0":
        raise StompError("SUBSCRIBE needs an id")
    said: dict[str, Any] = {
        "selector": _selector(headers.get("selector", "")),
        "durable": durable_name(headers),
        "shared": headers.get("shared", ""),
        "no_local": flag(headers, "no-local", "activemq.noLocal"),
        "exclusive": flag(headers, "exclusive", "activemq.exclusive"),
        "browse": flag(headers, "browser"),
    }
    # Of what a browser sees nothing is taken, so nothing is acknowledged.
    acknowledge = _acknowledge(headers.get("ack", "auto")) if not said["browse"] else "auto"
    named = (number(name, headers[name], limits.PREFETCH) for name in _PREFETCHES if name in headers)
    key = written if given is None else given
    return SubscribeHeaders(key, given, written, acknowledge, max(1, next(named, _PREFETCH)), said)


def _acknowledge(text: str) -> Acknowledge:
    accepted: tuple[Acknowledge, ...] = get_args(Acknowledge)
    for one in accepted:
        if text == one:
            return one
    raise StompError(f"ack: {text[:80]!r} is none of {', '.join(accepted)}")


def _selector(text: str) -> str:
    """Headers are texts; a client that compares one with a number means the number it spells."""
    return text if not text or text.startswith(CONVERTING) else CONVERTING + text


def durable_name(headers: Mapping[str, str]) -> str:
    """Of the subscription that lasts, or "". Raises StompError."""
    for name in _DURABLE_NAMES:
        if headers.get(name):
            return headers[name]
    if not flag(headers, "durable"):
        return ""
    if not headers.get("id"):
        raise StompError("a durable subscription needs an id")
    return headers["id"]
