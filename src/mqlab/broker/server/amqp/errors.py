"""Errors of AMQP 1.0: the condition tells the client what went wrong, the scope tells what ends."""

from typing import Any, Final

from mqlab.errors import MqlabError
from mqlab.wire.amqp10.performatives import AmqpErrorFields, composite
from mqlab.wire.amqp10.types import AmqpValue, Encoded, Symbol

INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
RESOURCE_LOCKED: Final = "amqp:resource-locked"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
RESOURCE_DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
CONNECTION_FORCED: Final = "amqp:connection:forced"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
WINDOW_VIOLATION: Final = "amqp:session:window-violation"
ERRANT_LINK: Final = "amqp:session:errant-link"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
TRANSFER_LIMIT: Final = "amqp:link:transfer-limit-exceeded"
MESSAGE_TOO_LARGE: Final = "amqp:link:message-size-exceeded"
UNKNOWN_TRANSACTION: Final = "amqp:transaction:unknown-id"
TRANSACTION_ROLLBACK: Final = "amqp:transaction:rollback"

# The condition for the reason or the code of a refusal.
_CONDITIONS: Final = {"denied": UNAUTHORIZED, "name": INVALID_FIELD, "selector": INVALID_FIELD}
# Parts of refusals of the core that have a condition of their own.
_SPECIAL: Final = (
    ("another connection's", UNAUTHORIZED),
    ("in use", RESOURCE_LOCKED),
    ("is gone", RESOURCE_DELETED),
    ("there is no", NOT_FOUND),
)
# Characters of a description.
_MOST_TEXT: Final = 400


class AmqpConditionError(MqlabError):
    """An error with its condition; the connection ends."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition = condition

    def fields(self, info: dict[AmqpValue, AmqpValue] | None = None) -> Encoded:
        return composite(AmqpErrorFields(Symbol(self.condition), str(self)[:_MOST_TEXT], info))


class SessionError(AmqpConditionError):
    """The session ends."""


class LinkError(AmqpConditionError):
    """The link is detached."""


def refusal_of(document: Any, default: str = LIMIT_EXCEEDED) -> LinkError:
    """The error for a command that the broker refused; `document` is that of an ERROR frame."""
    message = str(document.get("message", document.get("error", "")))
    special = next((condition for text, condition in _SPECIAL if text in message), default)
    reason = document.get("reason") or document.get("code")
    return LinkError(_CONDITIONS.get(str(reason), special), message)
