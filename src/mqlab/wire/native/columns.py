"""ColumnLayout of a payload: the headers and typed properties that its messages use.

A payload with columns begins with the list of columns: its length as u16, then text such as
`scorrelation_id,bpriority,i.count`, with a letter for the type, and the name; that of a property begins with a full
stop. A batch continues with a record batch of the bodies and these columns. A single message continues with the values
in the order of the list (those of fixed size and the length of each string), then the strings, then the body.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqlab.wire.native.arrow import BODY_ONLY, BatchWriter, read_batch, serialized
from mqlab.wire.native.payload import (
    COLUMNS,
    SINGLE,
    Bodies,
    Buffer,
    MalformedPayloadError,
    Payload,
    offsets_of,
)

Value = bool | int | float | str | bytes
# Any: struct and pyarrow give values whose types only the letters of the column list tell.
Decoded = Any

# Types by their letter: in Arrow, and in a single message ("I": the length of a string).
_ARROW: Final = {
    "?": pa.bool_(), "b": pa.int8(), "h": pa.int16(), "i": pa.int32(), "q": pa.int64(), "f": pa.float32(),
    "d": pa.float64(), "s": pa.string(), "u": pa.binary(16),
}  # fmt: skip
_STRUCT: Final = {**{letter: letter for letter in "?bhiqfd"}, "s": "I", "u": "16s"}
_LETTERS: Final = {str(kind): letter for letter, kind in _ARROW.items()}

# The headers of messages and their types. Times are milliseconds since 1970.
HEADERS: Final = {
    "id": "u", "timestamp": "q", "correlation_id": "s", "reply_to": "s", "type": "s", "priority": "b",
    "expiration": "q", "deliver_at": "q", "group": "s", "duplicate_id": "s",
}  # fmt: skip
PROPERTY: Final = "."
# The property in which the broker keeps sections of an AMQP message for AMQP consumers; other clients do not see it.
AMQP_SECTIONS: Final = "JMS_AMQP_SECTIONS"
_SINGLE_COLUMNS: Final = SINGLE | COLUMNS
_MAX_COLUMNS: Final = 100
_LENGTH: Final = struct.Struct("<H")
# An error text quotes so many characters of untrusted input.
_MAX_QUOTED: Final = 60


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """A parsed list of columns, and the offsets that follow from it."""

    # The encoded list (its length, then its text), and the size of both.
    written: bytes
    size: int
    names: tuple[str, ...]
    schema: pa.Schema
    # Of a single message: the values of fixed size, the indexes of strings, and the offset of the first string.
    fixed: struct.Struct
    strings: tuple[int, ...]
    strings_at: int
    # The offset of the record batch, aligned to 8 bytes.
    batch_at: int


def is_property_name(name: str) -> bool:
    """As in JMS: an identifier, so that a selector can name it."""
    return name.replace("$", "_").isidentifier() and len(name.encode()) <= 255


# The cache is small: a peer can make the layout of one list 100 KiB large. Without this cache and those of the other
# pure functions of this package, RR1 has 18 % fewer round trips a second of processor time, and A 57 % fewer batches.
@lru_cache(maxsize=256)
def parse_columns(column_list: bytes) -> ColumnLayout:
    """Parse a list of columns. Raises MalformedPayloadError."""
    try:
        parts = column_list.decode().split(",", _MAX_COLUMNS)
    except UnicodeDecodeError as error:
        raise MalformedPayloadError("the list of columns is not UTF-8") from error
    letters, names = [part[:1] for part in parts], tuple(part[1:] for part in parts)
    if len(parts) > _MAX_COLUMNS or len(set(names)) < len(names):
        raise MalformedPayloadError(f"at most {_MAX_COLUMNS} columns, each once")
    for letter, name in zip(letters, names, strict=True):
        property_ = name.startswith(PROPERTY)
        if letter not in _ARROW or (not property_ and HEADERS.get(name) != letter):
            raise MalformedPayloadError(f"{(letter + name)[:_MAX_QUOTED]!r} is not a column of messages")
        if property_ and (letter == "u" or not is_property_name(name[1:])):
            raise MalformedPayloadError(f"{name[1:_MAX_QUOTED]!r} is not a name of a property")
    written = _LENGTH.pack(len(column_list)) + column_list
    fields = [pa.field(name, _ARROW[letter]) for letter, name in zip(letters, names, strict=True)]
    fixed = struct.Struct("<" + "".join(_STRUCT[letter] for letter in letters))
    strings = tuple(at for at, letter in enumerate(letters) if letter == "s")
    return ColumnLayout(
        written, len(written), names, pa.schema([*BODY_ONLY, *fields]), fixed, strings, len(written) + fixed.size,
        -(-len(written) // 8) * 8,
    )  # fmt: skip


@lru_cache(maxsize=256)
def layout_of_columns(names: tuple[str, ...], letters: str) -> ColumnLayout:
    return parse_columns(",".join(letter + name for letter, name in zip(letters, names, strict=True)).encode())


def encode_texts(
    body: bytes, layout: ColumnLayout, first: Mapping[str, Value], texts: Mapping[str, str], strings: Sequence[bytes]
) -> Payload:
    """Encode one message with the headers `first`, which are no strings, and the string headers `texts` (`strings`).

    Without it, `headers` has 13 % fewer messages a second of processor time (`bench/cpu_time.py OLD --key headers`).
    """
    data = b"".join((layout.written, layout.fixed.pack(*first.values(), *map(len, strings)), *strings, body))
    if len(data) <= _MAX_REMEMBERED_BYTES:
        global _last
        _last = SingleMessage({**first, **texts}, data, len(data) - len(body), body)
    return Payload(data, 1, _SINGLE_COLUMNS)


def encode_single(body: Buffer, names: tuple[str, ...], letters: str, values: Sequence[Value]) -> Payload:
    """Encode one message with these headers and properties (a property's name with a full stop in front)."""
    if not names:
        return Payload(bytes(body), 1, SINGLE)
    layout = layout_of_columns(names, letters)
    packed: list[Value] = [*values]
    strings = []
    for at in layout.strings:
        text = values[at]
        assert isinstance(text, str)
        strings.append(text.encode())
        packed[at] = len(strings[-1])
    data = b"".join((layout.written, layout.fixed.pack(*packed), *strings, body))
    # A property may decode to a value of another type, such as a shorter float.
    if names[-1][0] != PROPERTY and len(data) <= _MAX_REMEMBERED_BYTES:
        _remember(SingleMessage(dict(zip(names, values)), data, len(data) - len(body)))  # noqa: B905 as below
    return Payload(data, 1, SINGLE | COLUMNS)


class SingleMessage(NamedTuple):
    """A single message taken apart: its headers and properties, and where in its payload the body begins."""

    values: dict[str, Decoded]
    data: Buffer
    begin: int
    # The body by itself, if it was at hand.
    body_copy: bytes | None = None

    @property
    def body(self) -> memoryview:
        return memoryview(self.data)[self.begin :]

    def own_body(self) -> bytes:
        """Return a private copy of the body; make one if there is none yet."""
        return bytes(self.body) if self.body_copy is None else self.body_copy


# The one that was written or read last: the parts of a broker, and a client in its process, look at the same message
# one after the other. It is only ever replaced as a whole, so any thread may look. Without it, `bindings` has 19 %
# fewer round trips a second of processor time (`bench/cpu_time.py OLD --key bindings`).
_last = SingleMessage({}, bytearray(), 0)
_MAX_REMEMBERED_BYTES: Final = 64 * 1024


def _remember(single: SingleMessage) -> None:
    global _last
    _last = single


def decode_single(payload: Payload) -> SingleMessage:
    """Return a shared object, which callers must not change. Raises MalformedPayloadError."""
    data, _, form = payload
    if not form & COLUMNS:
        return SingleMessage({}, data, 0)
    last = _last
    if last.data is data:
        return last
    layout = _layout_of(data)
    values, begin = decode_values(data, layout)
    single = SingleMessage(dict(zip(layout.names, values)), data, begin, None)  # noqa: B905 `strict` would cost a tenth of all this
    # Only what can never change.
    if isinstance(data, bytes) and len(data) <= _MAX_REMEMBERED_BYTES:
        _remember(single)
    return single


def decode_values(data: Buffer, layout: ColumnLayout) -> tuple[Sequence[Decoded], int]:
    """The values of a single message, and the offset after them. Raises MalformedPayloadError."""
    end = layout.strings_at
    try:
        values = layout.fixed.unpack_from(data, layout.size)
        if not layout.strings:
            return values, end
        texts = [*values]
        for at in layout.strings:
            begin = end
            end += values[at]
            texts[at] = str(data[begin:end], "utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedPayloadError(f"the headers of a message cannot be read: {error}") from error
    if end > len(data):
        raise MalformedPayloadError("a header reaches beyond the end of its message")
    return texts, end


def encode_columns(bodies: pa.Array, columns: Mapping[str, pa.Array]) -> Payload:
    """Encode a batch with these columns, `bodies` of type binary. The type of an array is that of its property."""
    if not columns:
        return Payload(serialized(pa.RecordBatch.from_arrays([bodies], schema=BODY_ONLY)), len(bodies), 0)
    letters = "".join(_LETTERS[str(array.type)] for array in columns.values())
    layout = layout_of_columns(tuple(columns), letters)
    batch = pa.RecordBatch.from_arrays([bodies, *columns.values()], schema=layout.schema)
    return Payload(b"".join((layout.written.ljust(layout.batch_at, b"\0"), serialized(batch))), len(bodies), COLUMNS)


def encode_batch(bodies: Sequence[bytes], headers: Mapping[str, bytes]) -> Payload:
    """Encode a batch of messages that all have these headers, of fixed size; `headers`: the values as in memory."""
    layout, writer = _writer(tuple(headers))
    written = b"" if layout is None else layout.written.ljust(layout.batch_at, b"\0")
    parts = writer.write(bodies, offsets_of(bodies), headers.values())
    return Payload(b"".join((written, *parts)), len(bodies), COLUMNS if headers else 0)


@lru_cache(maxsize=64)
def _writer(names: tuple[str, ...]) -> tuple[ColumnLayout | None, BatchWriter]:
    if not names:
        return None, BatchWriter(BODY_ONLY)
    layout = layout_of_columns(names, "".join(HEADERS[name] for name in names))
    return layout, BatchWriter(layout.schema)


def decode_batch(payload: Payload) -> pa.RecordBatch:
    """Bodies and columns of a payload, also of a single message. Raises MalformedPayloadError."""
    if payload.form & SINGLE:
        message = decode_single(payload)
        schema = _layout_of(payload.data).schema if message.values else BODY_ONLY
        values = [bytes(message.body), *message.values.values()]
        arrays = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not payload.form & COLUMNS:
        return read_batch(payload.data, payload.rows, BODY_ONLY)
    layout = _layout_of(payload.data)
    return read_batch(memoryview(payload.data)[layout.batch_at :], payload.rows, layout.schema)


def column(payload: Payload, name: str) -> pa.Array | None:
    """One column, or None if no message of the payload has it."""
    if not has_column(payload, name):
        return None
    return decode_batch(payload).column(name)


def has_column(payload: Payload, name: str) -> bool:
    return name in column_names(payload)


def columns_of(payload: Payload) -> ColumnLayout | None:
    """The columns of a payload; None if it has only bodies."""
    return _layout_of(payload.data) if payload.form & COLUMNS else None


def column_names(payload: Payload) -> tuple[str, ...]:
    return _layout_of(payload.data).names if payload.form & COLUMNS else ()


def bodies_of(payload: Payload) -> Bodies:
    """The bodies of a payload with columns."""
    if payload.form & SINGLE:
        body = np.frombuffer(decode_single(payload).body, dtype=np.uint8)
        return Bodies(body, np.array((0, len(body)), dtype=np.int32))
    array = decode_batch(payload).column(0)
    _, offsets, data = array.buffers()
    steps = np.frombuffer(offsets, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
    values = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return Bodies(values, steps)


def take(payload: Payload, index: range | npt.NDArray[np.int64]) -> Payload:
    """These rows of a payload, as a payload. One row becomes a single message."""
    if len(index) == payload.rows:
        return payload
    batch = decode_batch(payload)
    if len(index) == 1:
        return _as_single(batch, int(index[0]))
    part = batch.slice(index[0], len(index)) if isinstance(index, range) else batch.take(pa.array(index))
    return encode_columns(part.column(0), dict(zip(part.schema.names[1:], part.columns[1:], strict=True)))


def _as_single(batch: pa.RecordBatch, row: int) -> Payload:
    names, letters, values = [], "", []
    for field, array in zip(list(batch.schema)[1:], batch.columns[1:], strict=True):
        value = array[row].as_py()
        if value is not None:
            names.append(field.name)
            letters += _LETTERS[str(field.type)]
            values.append(value)
    return encode_single(batch.column(0)[row].as_py(), tuple(names), letters, values)


def _layout_of(data: Buffer) -> ColumnLayout:
    try:
        (length,) = _LENGTH.unpack_from(data)
    except struct.error as error:
        raise MalformedPayloadError("shorter than its list of columns") from error
    end = _LENGTH.size + length
    if end > len(data):
        raise MalformedPayloadError("shorter than its list of columns")
    return parse_columns(bytes(data[_LENGTH.size : end]))
