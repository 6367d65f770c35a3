"""What the levels medium and high add to a record: options and ids; headers and the first bytes of a message."""

import math
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final, NamedTuple

from mqlab.wire.bodies import COLUMNS, LONE, Payload, decode
from mqlab.wire.columns import PROPERTY, Value, columns_of, decode_batch, decode_lone, values_of

# Bytes of a body that the level high shows.
BODY_BYTES: Final = 64
# A payload up to this size is kept until its record is made; of a larger one the beginning is read at once, so that
# records that wait take no memory to speak of.
_KEPT: Final = 4096


class Head(NamedTuple):
    """The first message of a batch: its headers and properties, and how its body begins."""

    values: dict[str, Any]
    body: bytes


# Raw values of one operation; text is made of them when its record is made. In their order: whether the level is high,
# what `about` says, a sequence number or delivery id, the message or the first of them, whether it is persistent, and
# what else there is to say: by name, or just the room that an acknowledgement gives.
More = tuple[bool, str, int, Payload | Head | None, bool, dict[str, Value] | int | None]


def about(session: int, link: int) -> str:
    """How the details of an operation begin."""
    return f'{{"session":{session},"link":{link}'


def kept(payload: Payload) -> Payload | Head:
    """What is to be remembered of a payload that others own."""
    return payload if len(payload.data) <= _KEPT else head_of(payload)


def head_of(payload: Payload) -> Head:
    if payload.form & LONE:
        lone = decode_lone(payload)
        return Head(lone.values, bytes(lone.data[lone.begin : lone.begin + BODY_BYTES]))
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


class Texts:
    """Makes the texts of records that are encoded together: a message that was put and got is read once."""

    def __init__(self) -> None:
        # The records hold the messages, so that no two have the same id.
        self._known: dict[int, str] = {}

    def of(self, more: More) -> str:
        """As JSON."""
        high, text, first, message, persistent, others = more
        if isinstance(others, int):
            return f'{text},"first":{first},"room":{others}}}'
        if others:
            text += "".join([f",{quoted(name)}:{json_value(value)}" for name, value in others.items()])
        if message is None:
            return f'{text},"first":{first}}}'
        key = id(message) << 1 | high
        said = self._known.get(key)
        if said is None:
            said = self._known[key] = _of_message(message, high)
        return f'{text},"first":{first},"persistent":{"true" if persistent else "false"}{said}}}'


def json_value(value: Value) -> str:
    """JSON has no word for bytes, nor for what is not a number."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return f'"ID:{value.hex()}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int) or math.isfinite(value) else f'"{value}"'


def _of_message(message: Payload | Head, high: bool) -> str:
    names: tuple[str, ...]
    values: Sequence[Any]
    if isinstance(message, Head):
        names, values, body = (*message.values.keys(),), (*message.values.values(),), message.body
    elif message.form & LONE:
        listed = columns_of(message)
        values, end = ((), 0) if listed is None else values_of(message.data, listed)
        names = () if listed is None else listed.names
        body = bytes(message.data[end : end + BODY_BYTES]) if high else b""
    else:
        return _of_message(head_of(message), high)
    headers, properties = _places(names, high)
    text = "".join([before + json_value(values[at]) for before, at in headers])
    if properties:
        text += ',"properties":{' + ",".join([before + json_value(values[at]) for before, at in properties]) + "}"
    return text + _body(body) if high else text


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
