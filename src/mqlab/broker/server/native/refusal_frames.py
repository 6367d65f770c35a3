"""What frames say beyond their headers, and how a refusal is said."""

from collections.abc import Mapping
from typing import Final

from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.destination_names import BadNameError
from mqlab.broker.core.routing.subscriptions import ConsumerOptions
from mqlab.broker.core.selectors import BadSelectorError
from mqlab.wire import native
from mqlab.wire.native.bodies import Payload, validate
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Frame, Kind, ProtocolError

# What a client may not have, or said wrong; its connection goes on.
REFUSALS: Final = (RefusedError, BadNameError, BadSelectorError)
_SINGLE: Final = int(Flag.SINGLE)


def refusal(frame: Frame, error: Exception) -> bytes:
    """The answer to a frame that was refused."""
    said = {"code": "refused", "message": str(error)}
    amount = 1 if frame.kind == Kind.REQUEST else frame.amount
    return native.frame(Kind.ERROR, said, session=frame.session, link=frame.link, first=frame.first, amount=amount)


def destination_in(frame: Frame) -> str:
    """Raises ProtocolError."""
    name = frame.json().get("destination")
    if not isinstance(name, str):
        raise ProtocolError("a producer or consumer needs a destination")
    return name


def consumer_options(frame: Frame) -> ConsumerOptions:
    """How a consumer wants to receive. Raises ProtocolError."""
    said = frame.json()
    texts = {name: said.get(name, "") for name in ("selector", "durable", "shared")}
    flags = {name: said.get(name, False) for name in ("no_local", "browse", "exclusive")}
    if not all(isinstance(text, str) for text in texts.values()) or not all(
        isinstance(flag, bool) for flag in flags.values()
    ):
        raise ProtocolError("selector, durable and shared are texts; no_local, browse and exclusive are true or false")
    return ConsumerOptions(**texts, **flags)


def reply_key(payload: Payload) -> tuple[Mapping[str, Value], Key]:
    """The headers of a request, and which message is the reply to it. Raises ProtocolError, MalformedPayloadError."""
    headers = validate(payload) or {}
    wanted = headers.get("correlation_id")
    if not isinstance(wanted, str):
        raise ProtocolError("a request is a single message with a correlation id")
    return headers, Key("correlation_id", wanted)


def key_of(frame: Frame) -> Key:
    """Which one message is wanted. Raises ProtocolError."""
    value = bytes(frame.payload)
    if frame.flags & _SINGLE:
        if len(value) != 16:
            raise ProtocolError("a message id has 16 bytes")
        return Key("id", value)
    try:
        return Key("correlation_id", value.decode())
    except UnicodeDecodeError as error:
        raise ProtocolError("a correlation id is UTF-8") from error
