"""Details that the levels medium and high add to a record: options and ids; headers and the first bytes of a message.

The broker records raw values; the reader of the trace makes JSON of them.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Final, NamedTuple

from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload, decode
from mqlab.wire.native.columns import (
    HEADERS,
    PROPERTY,
    Decoded,
    Value,
    columns_of,
    decode_batch,
    decode_single,
    decode_values,
    encode_single,
)

# Bytes of a body that the level high shows.
BODY_BYTES: Final = 64
# Headers and properties of a message that a record keeps. A client may send MiB of them, and records wait in memory.
HEADER_BYTES: Final = 1024
# Marks beside the form of the message: it is persistent; the level is high.
PERSISTENT: Final = 2
HIGH: Final = 4
_LETTERS: Final[Mapping[type, str]] = {bool: "?", int: "q", float: "d", str: "s"}

# Raw values of one operation: its marks (the form of the message, PERSISTENT, HIGH), `detail_prefix`, a sequence number
# or delivery id, the message (see `kept_message`) or None, and other values: by name, or the credit that an
# acknowledgement grants.
RawDetail = tuple[int, str, int, bytes | None, dict[str, Value] | int | None]


class FirstMessage(NamedTuple):
    """The first message of a batch: its headers and properties, and the first bytes of its body."""

    values: dict[str, Decoded]
    body: bytes


def detail_prefix(session: int, link: int) -> str:
    """The beginning of the JSON object."""
    return f'{{"session":{session},"link":{link}'


def kept_message(payload: Payload, high: int) -> tuple[int, bytes | None]:
    """Form and bytes of the first message, encoded as a single one, with as much of the body as the level shows.

    The bytes are None if the headers are too long.
    """
    data, _, form = payload
    if not form & SINGLE:
        values, body = first_message(payload)
        letters = "".join(HEADERS.get(name) or _LETTERS[type(value)] for name, value in values.items())
        data, _, form = payload = encode_single(body, (*values,), letters, [*values.values()])
    begin = decode_single(payload).begin
    if begin > HEADER_BYTES:
        return form, None
    return form, bytes(data[: begin + BODY_BYTES if high else begin])


def first_message(payload: Payload) -> FirstMessage:
    if payload.form & SINGLE:
        single = decode_single(payload)
        return FirstMessage(single.values, bytes(single.data[single.begin : single.begin + BODY_BYTES]))
    if not payload.form & COLUMNS:
        bodies = decode(payload)
        begin, end = int(bodies.offsets[0]), int(bodies.offsets[1])
        return FirstMessage({}, bodies.data[begin : min(end, begin + BODY_BYTES)].tobytes())
    batch = decode_batch(payload)
    first = {name: column[0].as_py() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    body = first.pop("body")
    return FirstMessage({name: value for name, value in first.items() if value is not None}, body[:BODY_BYTES])


def ids_of(payload: Payload) -> tuple[str | None, bytes | None]:
    """Correlation id and message id of a payload of one message."""
    values = first_message(payload).values
    return values.get("correlation_id"), values.get("id")


def extra_json(extra: dict[str, Value] | int | None) -> str:
    """The other values of a raw detail, as members of the JSON object."""
    if isinstance(extra, int):
        return f',"room":{extra}'
    return "" if not extra else "".join([f",{quoted(name)}:{json_value(value)}" for name, value in extra.items()])


class DetailWriter:
    """Writes the details of one table as JSON. It decodes a message once that several records have in common."""

    def __init__(self) -> None:
        self._messages: dict[tuple[int, bytes], str] = {}

    def to_json(self, marks: int, prefix: str, first: int, message: bytes | None, extra: str) -> str:
        """Return "" for a record without details. Raises MalformedPayloadError."""
        if not prefix:
            return ""
        if message is None:
            return f'{prefix},"first":{first}{extra}}}'
        members = self._messages.get((marks, message))
        if members is None:
            members = self._messages[marks, message] = _message_members(message, marks)
        return f'{prefix},"first":{first}{members}{extra}}}'


def json_value(value: Value) -> str:
    """Bytes become hexadecimal text, and NaN and infinity text, since JSON has none of them."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return f'"ID:{value.hex()}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int) or math.isfinite(value) else f'"{value}"'


def _message_members(message: bytes, marks: int) -> str:
    high = bool(marks & HIGH)
    listed = columns_of(Payload(message, 1, marks & (SINGLE | COLUMNS)))
    values, end = ((), 0) if listed is None else decode_values(message, listed)
    headers, properties = _shown_columns(() if listed is None else listed.names, high)
    text = f',"persistent":{"true" if marks & PERSISTENT else "false"}'
    text += "".join([key + json_value(values[index]) for key, index in headers])
    if properties:
        text += ',"properties":{' + ",".join([key + json_value(values[index]) for key, index in properties]) + "}"
    return text + _body(message[end : end + BODY_BYTES]) if high else text


@lru_cache(maxsize=256)
def _shown_columns(names: tuple[str, ...], high: bool) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The headers and the properties that the level shows: each as its JSON key and the index of its value."""
    shown = [(name, index) for index, name in enumerate(names) if high or name in ("id", "correlation_id")]
    headers = [(f',"{name}":', index) for name, index in shown if not name.startswith(PROPERTY)]
    return headers, [(f"{quoted(name[1:])}:", index) for name, index in shown if name.startswith(PROPERTY)]


def _body(body: bytes) -> str:
    """`body` for text, `body_hex` for other bytes."""
    try:
        return f',"body":{quoted(body.decode())}'
    except UnicodeDecodeError:
        return f',"body_hex":"{body.hex()}"'
