"""What the levels medium and high add to a record: options and ids; headers and the first bytes of a message.

The broker keeps raw values; whoever reads the trace makes text of them.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final, NamedTuple

from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload, decode
from mqlab.wire.native.columns import (
    HEADERS,
    PROPERTY,
    Value,
    columns_of,
    decode_batch,
    decode_single,
    encode_single,
    values_of,
)

# Bytes of a body that the level high shows.
BODY_BYTES: Final = 64
# Headers and properties of a message in a record. A client may send MiB of them, and many records wait in memory.
HEADER_BYTES: Final = 1024
# Beside the form of the message: it is persistent, the level is high.
PERSISTENT: Final = 2
HIGH: Final = 4
_LETTERS: Final[Mapping[type, str]] = {bool: "?", int: "q", float: "d", str: "s"}

# Raw values of one operation. In their order: its marks (the form of the message, PERSISTENT, HIGH), what `about` says,
# a sequence number or delivery id, the message (see `kept`) or None, and what else there is to say: by name, or just
# the room that an acknowledgement gives.
More = tuple[int, str, int, bytes | None, dict[str, Value] | int | None]


class Head(NamedTuple):
    """The first message of a batch: its headers and properties, and how its body begins."""

    values: dict[str, Any]
    body: bytes


def about(session: int, link: int) -> str:
    """How the details of an operation begin."""
    return f'{{"session":{session},"link":{link}'


def kept(payload: Payload, high: int) -> tuple[int, bytes | None]:
    """Form and bytes of the first of its messages as a single one, with no more of the body than is shown.

    None: its headers are too long to be kept.
    """
    data, _, form = payload
    if not form & SINGLE:
        head = head_of(payload)
        letters = "".join(HEADERS.get(name) or _LETTERS[type(value)] for name, value in head.values.items())
        data, _, form = payload = encode_single(head.body, (*head.values,), letters, [*head.values.values()])
    begin = decode_single(payload).begin
    if begin > HEADER_BYTES:
        return form, None
    return form, bytes(data[: begin + BODY_BYTES if high else begin])


def head_of(payload: Payload) -> Head:
    if payload.form & SINGLE:
        single = decode_single(payload)
        return Head(single.values, bytes(single.data[single.begin : single.begin + BODY_BYTES]))
    if not payload.form & COLUMNS:
        bodies = decode(payload)
        begin, end = int(bodies.offsets[0]), int(bodies.offsets[1])
        return Head({}, bodies.data[begin : min(end, begin + BODY_BYTES)].tobytes())
    batch = decode_batch(payload)
    first = {name: column[0].as_py() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    body = first.pop("body")
    return Head({name: value for name, value in first.items() if value is not None}, body[:BODY_BYTES])


def ids_of(payload: Payload) -> tuple[Any, Any]:
    """Correlation id and message id of a payload of one message."""
    values = head_of(payload).values
    return values.get("correlation_id"), values.get("id")


def told(others: dict[str, Value] | int | None) -> str:
    """What else there is to say, as a part of a JSON object."""
    if isinstance(others, int):
        return f',"room":{others}'
    return "" if not others else "".join([f",{quoted(name)}:{json_value(value)}" for name, value in others.items()])


class Texts:
    """Makes the texts of records that are read together: a message that was put and got is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], str] = {}

    def of(self, marks: int, begin: str, first: int, message: bytes | None, others: str) -> str:
        """As JSON; "" if there is nothing to tell. Raises MalformedPayloadError."""
        if not begin:
            return ""
        if message is None:
            return f'{begin},"first":{first}{others}}}'
        said = self._known.get((marks, message))
        if said is None:
            said = self._known[marks, message] = _of_message(message, marks)
        return f'{begin},"first":{first}{said}{others}}}'


def json_value(value: Value) -> str:
    """JSON has no word for bytes, nor for what is not a number."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return f'"ID:{value.hex()}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int) or math.isfinite(value) else f'"{value}"'


def _of_message(message: bytes, marks: int) -> str:
    high = bool(marks & HIGH)
    listed = columns_of(Payload(message, 1, marks & (SINGLE | COLUMNS)))
    values, end = ((), 0) if listed is None else values_of(message, listed)
    headers, properties = _places(() if listed is None else listed.names, high)
    text = f',"persistent":{"true" if marks & PERSISTENT else "false"}'
    text += "".join([before + json_value(values[at]) for before, at in headers])
    if properties:
        text += ',"properties":{' + ",".join([before + json_value(values[at]) for before, at in properties]) + "}"
    return text + _body(message[end : end + BODY_BYTES]) if high else text


@lru_cache(maxsize=256)
def _places(names: tuple[str, ...], high: bool) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Of the headers and of the properties that are shown: what stands before each, and where its value is."""
    shown = [(name, at) for at, name in enumerate(names) if high or name in ("id", "correlation_id")]
    headers = [(f',"{name}":', at) for name, at in shown if not name.startswith(PROPERTY)]
    return headers, [(f"{quoted(name[1:])}:", at) for name, at in shown if name.startswith(PROPERTY)]


def _body(body: bytes) -> str:
    """As text where it is text; else in hexadecimal digits, under another name."""
    try:
        return f',"body":{quoted(body.decode())}'
    except UnicodeDecodeError:
        return f',"body_hex":"{body.hex()}"'
