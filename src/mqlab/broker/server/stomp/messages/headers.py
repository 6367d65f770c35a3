"""What the headers of a SEND say about its message."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from mqlab.broker.server.stomp.messages.properties import property_name
from mqlab.wire.native.columns import HEADERS, PROPERTY, Value
from mqlab.wire.stomp import StompError

# Headers of the message itself by the names that clients use, the first of which is what they are told.
CORRELATION_ID: Final = ("correlation-id", "JMSCorrelationID")
REPLY_TO: Final = ("reply-to", "JMSReplyTo")
TYPE: Final = ("type", "JMSType")
PRIORITY: Final = ("priority", "JMSPriority")
EXPIRES: Final = ("expires", "JMSExpiration")
TIME_TO_LIVE: Final = ("ttl", "expiration")
DELAY: Final = ("delay", "AMQ_SCHEDULED_DELAY")
TIMESTAMP: Final = ("timestamp", "JMSTimestamp")
GROUP: Final = ("JMSXGroupID",)
DUPLICATE_ID: Final = ("duplicate-id", "_AMQ_DUPL_ID")
MESSAGE_ID: Final = ("JMSMessageID",)
# What is between client and broker, and what a client that passes a message on repeats of its delivery.
NOT_OF_THE_MESSAGE: Final = frozenset((
    "destination", "receipt", "transaction", "persistent", "content-length", "message-id", "subscription", "ack",
    "redelivered", "browser", "JMSDestination", "JMSDeliveryMode", "JMSRedelivered", "JMSXDeliveryCount",
))  # fmt: skip

_PRIORITIES: Final = range(10)
_LATEST: Final = 2**62
_ID: Final = "ID:"


class SendContext(NamedTuple):
    """What a header can mean something different by: the time (ms since 1970), and the connection's own queues."""

    now: int
    destination: Callable[[str], str]


HeaderParser = Callable[[str, SendContext], Value | None]


class HeaderColumn(NamedTuple):
    """A column of messages that one header fills."""

    header: str
    name: str
    letter: str
    read: HeaderParser


@lru_cache(maxsize=256)
def columns_for(names: tuple[str, ...]) -> tuple[HeaderColumn, ...]:
    """Of messages with these headers. Of several headers that mean the same, the first counts."""
    found: dict[str, HeaderColumn] = {}
    for header in names:
        if header in NOT_OF_THE_MESSAGE:
            continue
        name, read = _FIELDS.get(header) or (PROPERTY + property_name(header), _text)
        letter = HEADERS.get(name, "s")
        found.setdefault(name, HeaderColumn(header, name, letter, read))
    return tuple(found.values())


def is_persistent(headers: Mapping[str, str]) -> bool:
    return flag(headers, "persistent") or headers.get("JMSDeliveryMode", "").upper() == "PERSISTENT"


def flag(headers: Mapping[str, str], *names: str) -> bool:
    """Raises StompError for what is neither true nor false."""
    for name in names:
        text = headers.get(name)
        if text is not None:
            said = text.strip().lower()
            if said not in ("true", "false"):
                raise StompError(f"{name}: {text[:80]!r} is neither true nor false")
            return said == "true"
    return False


def number(name: str, text: str, most: int) -> int:
    """Raises StompError."""
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > len(str(most)) or int(digits) > most:
        raise StompError(f"{name}: {text[:80]!r} is not a whole number up to {most}")
    return int(digits)


def _text(text: str, _: SendContext) -> Value:
    return text


def _reply_to(text: str, around: SendContext) -> Value:
    return around.destination(text)


def _priority(text: str, _: SendContext) -> Value:
    return number("priority", text, _PRIORITIES[-1])


def _expires(text: str, _: SendContext) -> Value | None:
    return number("expires", text, _LATEST) or None


def _time_to_live(text: str, around: SendContext) -> Value | None:
    lasting = number("ttl", text, _LATEST)
    return around.now + lasting if lasting else None


def _delay(text: str, around: SendContext) -> Value | None:
    waiting = number("delay", text, _LATEST)
    return around.now + waiting if waiting else None


def _timestamp(text: str, _: SendContext) -> Value:
    return number("timestamp", text, _LATEST)


def _message_id(text: str, _: SendContext) -> Value | None:
    """None: another broker's, that means nothing here."""
    try:
        found = bytes.fromhex(text.removeprefix(_ID))
    except ValueError:
        return None
    return found if len(found) == 16 and text.startswith(_ID) else None


_FIELDS: Final[dict[str, tuple[str, HeaderParser]]] = {
    header: (name, read)
    for headers, name, read in (
        (CORRELATION_ID, "correlation_id", _text),
        (REPLY_TO, "reply_to", _reply_to),
        (TYPE, "type", _text),
        (PRIORITY, "priority", _priority),
        (EXPIRES, "expiration", _expires),
        (TIME_TO_LIVE, "expiration", _time_to_live),
        (DELAY, "deliver_at", _delay),
        (TIMESTAMP, "timestamp", _timestamp),
        (GROUP, "group", _text),
        (DUPLICATE_ID, "duplicate_id", _text),
        (MESSAGE_ID, "id", _message_id),
    )
    for header in headers
}
