"""A message as a JSON document, for those who browse a queue."""

import base64
import codecs
import math
from typing import Final

from mqlab.client.message import Message
from mqlab.json_values import JsonObject
from mqlab.wire.native.columns import Value

_FIELDS: Final = (
    "id", "timestamp", "destination", "priority", "persistent", "redelivered", "delivery_count", "correlation_id",
    "reply_to", "type", "expiration", "deliver_at", "group",
)  # fmt: skip


def message_document(message: Message, *, most_body_bytes: int | None = None) -> JsonObject:
    """The headers and properties, and the first bytes of the body (None: all): UTF-8 as `body`, else `body_base64`."""
    document: JsonObject = {name: getattr(message, name) for name in _FIELDS}
    document["properties"] = {key: _json_value(value) for key, value in message.properties.items()}
    document["size"] = len(message.body)
    return document if most_body_bytes == 0 else document | _body(message.body, most_body_bytes)


def _json_value(value: Value) -> Value:
    """Return infinity and NaN as text: JSON cannot represent them."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _body(body: bytes, most_bytes: int | None) -> JsonObject:
    part = body[:most_bytes]
    try:
        # The cut may be within a character.
        return {"body": codecs.getincrementaldecoder("utf-8")().decode(part, final=len(part) == len(body))}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(part).decode()}
