"""Reads the payloads of command frames, and encodes refusals."""

from collections.abc import Mapping
from typing import Final

from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import BadNameError
from mqlab.broker.core.routing.subscriptions import ConsumerOptions
from mqlab.broker.core.selectors import BadSelectorError
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Payload, validate
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Frame, Kind, ProtocolError

# The broker refuses the command with these errors, and the connection goes on.
REFUSALS: Final = (CommandError, BadNameError, BadSelectorError)
_SINGLE: Final = int(Flag.SINGLE)
_REASONS: Final = ((BadNameError, "name"), (BadSelectorError, "selector"))


def refusal(frame: Frame, error: Exception) -> bytes:
    """The answer to a frame that was refused."""
    code = error.code if isinstance(error, CommandError) else "refused"
    document = {"code": code, "reason": _reason(error), "message": str(error)}
    amount = 1 if frame.kind == Kind.REQUEST else frame.amount
    return native.frame(Kind.ERROR, document, session=frame.session, link=frame.link, first=frame.first, amount=amount)


def _reason(error: Exception) -> str:
    """The part of the command that is invalid, for protocols that have an error of their own for it; or ""."""
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), "")


def destination_in(frame: Frame) -> str:
    """Raises ProtocolError."""
    name = frame.json().get("destination")
    if not isinstance(name, str):
        raise ProtocolError("a producer or consumer needs a destination")
    return name


def consumer_options(frame: Frame) -> ConsumerOptions:
    """The options in an OPEN_CONSUMER frame. Raises ProtocolError."""
    document = frame.json()
    texts = {name: document.get(name, "") for name in ("selector", "durable", "shared")}
    flags = {name: document.get(name, False) for name in ("no_local", "browse", "exclusive")}
    if not all(isinstance(text, str) for text in texts.values()) or not all(
        isinstance(flag, bool) for flag in flags.values()
    ):
        raise ProtocolError("selector, durable and shared are texts; no_local, browse and exclusive are true or false")
    return ConsumerOptions(**texts, **flags)


def reply_key(payload: Payload) -> tuple[Mapping[str, Value], Key]:
    """The headers of a request, and the key of its reply. Raises ProtocolError and MalformedPayloadError."""
    headers = validate(payload) or {}
    correlation_id = headers.get("correlation_id")
    if not isinstance(correlation_id, str):
        raise ProtocolError("a request is a single message with a correlation id")
    return headers, Key("correlation_id", correlation_id)


def receive_key(frame: Frame) -> Key:
    """The key of the message that a RECEIVE frame asks for. Raises ProtocolError."""
    value = bytes(frame.payload)
    if frame.flags & _SINGLE:
        if len(value) != 16:
            raise ProtocolError("a message id has 16 bytes")
        return Key("id", value)
    try:
        return Key("correlation_id", value.decode())
    except UnicodeDecodeError as error:
        raise ProtocolError("a correlation id is UTF-8") from error
