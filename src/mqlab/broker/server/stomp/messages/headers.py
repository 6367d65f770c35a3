"""The headers of SEND as columns of a message."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from mqlab.broker.server.adapter.property_names import PropertyNameError, property_name
from mqlab.wire.native.columns import AMQP_SECTIONS, HEADERS, PROPERTY, Value
from mqlab.wire.stomp.frames import StompError

CORRELATION_ID: Final = ("correlation-id", "JMSCorrelationID")
# Headers that are not part of the message: those for the broker, and those of a delivery that a client forwards.
TRANSPORT_HEADERS: Final = frozenset((
    "destination", "receipt", "transaction", "persistent", "content-length", "message-id", "subscription", "ack",
    "redelivered", "browser", "JMSDestination", "JMSDeliveryMode", "JMSRedelivered", "JMSXDeliveryCount",
    AMQP_SECTIONS,
))  # fmt: skip

_PRIORITIES: Final = range(10)
_LATEST_MS: Final = 2**62
_ID: Final = "ID:"


class SendContext(NamedTuple):
    """Values that the meaning of a header depends on."""

    # ms since 1970

    now_ms: int
    # The broker's name of a destination, such as a temporary queue of the connection.
    destination: Callable[[str], str]


HeaderParser = Callable[[str, SendContext], Value | None]


class HeaderColumn(NamedTuple):
    """A column of a message that a header fills."""

    header: str
    name: str
    letter: str
    read: HeaderParser


@lru_cache(maxsize=256)
def columns_for(names: tuple[str, ...]) -> tuple[HeaderColumn, ...]:
    """The columns of messages with these headers. Of several headers for one column the first counts.

    Raises StompError.
    """
    columns: dict[str, HeaderColumn] = {}
    for header in names:
        if header in TRANSPORT_HEADERS:
            continue
        name, read = _FIELDS.get(header) or (PROPERTY + _property_name(header), _text)
        letter = HEADERS.get(name, "s")
        columns.setdefault(name, HeaderColumn(header, name, letter, read))
    return tuple(columns.values())


def _property_name(header: str) -> str:
    try:
        return property_name(header)
    except PropertyNameError as error:
        raise StompError(str(error)) from None


def is_persistent(headers: Mapping[str, str]) -> bool:
    return flag(headers, "persistent") or headers.get("JMSDeliveryMode", "").upper() == "PERSISTENT"


def flag(headers: Mapping[str, str], *names: str) -> bool:
    """Raises StompError for a value that is neither true nor false."""
    for name in names:
        text = headers.get(name)
        if text is not None:
            value = text.strip().lower()
            if value not in ("true", "false"):
                raise StompError(f"{name}: {text[:80]!r} is neither true nor false")
            return value == "true"
    return False


def number(name: str, text: str, most: int) -> int:
    """Raises StompError."""
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > len(str(most)) or int(digits) > most:
        raise StompError(f"{name}: {text[:80]!r} is not a whole number up to {most}")
    return int(digits)


def _text(text: str, _: SendContext) -> Value:
    return text


def _reply_to(text: str, context: SendContext) -> Value:
    return context.destination(text)


def _time_to_live(text: str, context: SendContext) -> Value | None:
    lifetime_ms = number("ttl", text, _LATEST_MS)
    return context.now_ms + lifetime_ms if lifetime_ms else None


def _delay(text: str, context: SendContext) -> Value | None:
    delay_ms = number("delay", text, _LATEST_MS)
    return context.now_ms + delay_ms if delay_ms else None


def _message_id(text: str, _: SendContext) -> Value | None:
    """None: the message id of another broker."""
    try:
        message_id = bytes.fromhex(text.removeprefix(_ID))
    except ValueError:
        return None
    return message_id if len(message_id) == 16 and text.startswith(_ID) else None


# Names that clients use for a header, the column that it fills, and its parser.
_HEADERS: Final[tuple[tuple[tuple[str, ...], str, HeaderParser], ...]] = (
    (CORRELATION_ID, "correlation_id", _text),
    (("reply-to", "JMSReplyTo"), "reply_to", _reply_to),
    (("type", "JMSType"), "type", _text),
    (("priority", "JMSPriority"), "priority", lambda text, _: number("priority", text, _PRIORITIES[-1])),
    (("expires", "JMSExpiration"), "expiration", lambda text, _: number("expires", text, _LATEST_MS) or None),
    (("ttl", "expiration"), "expiration", _time_to_live),
    (("delay", "AMQ_SCHEDULED_DELAY"), "deliver_at", _delay),
    (("timestamp", "JMSTimestamp"), "timestamp", lambda text, _: number("timestamp", text, _LATEST_MS)),
    (("JMSXGroupID",), "group", _text),
    (("duplicate-id", "_AMQ_DUPL_ID"), "duplicate_id", _text),
    (("JMSMessageID",), "id", _message_id),
)
_FIELDS: Final = {header: (column, read) for headers, column, read in _HEADERS for header in headers}
# The header of a column in MESSAGE frames, which do not contain the others: the first name, not that of a time to live.
MESSAGE_HEADERS: Final = {
    column: headers[0] for headers, column, read in _HEADERS if read not in (_time_to_live, _delay)
}
