"""The headers of SUBSCRIBE."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

from mqlab.broker import limits
from mqlab.broker.core.selectors.texts import CONVERTING
from mqlab.broker.server.stomp.messages.headers import flag, number
from mqlab.wire.stomp.frames import StompError

Acknowledge = Literal["auto", "client", "client-individual"]
# Enough for a fast client; with more, large messages would take twice the memory.
_PREFETCH: Final = 1000
_PREFETCHES: Final = ("prefetch", "prefetch-count", "activemq.prefetchSize")
_DURABLE_NAMES: Final = ("durable-subscription-name", "activemq.subscriptionName", "activemq.subcriptionName")


class SubscribeHeaders(NamedTuple):
    # UNSUBSCRIBE names the subscription by its id or, in STOMP 1.0 without ids, by its destination.
    key: str
    id: str | None
    # The destination as the client wrote it.
    written: str
    acknowledge: Acknowledge
    prefetch: int
    # The options of OPEN_CONSUMER in the native protocol.
    options: dict[str, object]


def parse_subscribe(headers: Mapping[str, str], version: str) -> SubscribeHeaders:
    """Raises StompError."""
    written, given = headers.get("destination", ""), headers.get("id")
    if not written:
        raise StompError("SUBSCRIBE needs a destination")
    if given is None and version != "1.0":
        raise StompError("SUBSCRIBE needs an id")
    options: dict[str, object] = {
        "selector": _selector(headers.get("selector", "")),
        "durable": durable_name(headers),
        "shared": headers.get("shared", ""),
        "no_local": flag(headers, "no-local", "activemq.noLocal"),
        "exclusive": flag(headers, "exclusive", "activemq.exclusive"),
        "browse": flag(headers, "browser"),
    }
    # A browser removes nothing, so it acknowledges nothing.
    acknowledge = _acknowledge(headers.get("ack", "auto")) if not options["browse"] else "auto"
    named = (number(name, headers[name], limits.PREFETCH) for name in _PREFETCHES if name in headers)
    key = written if given is None else given
    return SubscribeHeaders(key, given, written, acknowledge, max(1, next(named, _PREFETCH)), options)


def _acknowledge(text: str) -> Acknowledge:
    accepted: tuple[Acknowledge, ...] = get_args(Acknowledge)
    for mode in accepted:
        if text == mode:
            return mode
    raise StompError(f"ack: {text[:80]!r} is none of {', '.join(accepted)}")


def _selector(text: str) -> str:
    """Headers are texts. A selector of a STOMP client converts them where it compares them with numbers."""
    return text if not text or text.startswith(CONVERTING) else CONVERTING + text


def durable_name(headers: Mapping[str, str]) -> str:
    """The name of the durable subscription, or "". Raises StompError."""
    for name in _DURABLE_NAMES:
        if headers.get(name):
            return headers[name]
    if not flag(headers, "durable"):
        return ""
    if not headers.get("id"):
        raise StompError("a durable subscription needs an id")
    return headers["id"]
