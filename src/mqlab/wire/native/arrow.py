"""Untrusted record batches: locates their columns, and validates them."""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from mqlab.wire.native.payload import BINARY, Buffer, MalformedPayloadError, Offsets

BODY_ONLY: Final = pa.schema([pa.field("body", BINARY, nullable=False)])

# The metadata of a record batch precedes its columns: four bytes of marker, four of length, then that many bytes.
# Batches of equal shape have equal metadata, so the layout is computed once for all of them.
_PREFIX: Final = struct.Struct("<II")
_LONG: Final = struct.Struct("<q")
_MARKER: Final = 0xFFFFFFFF
_MAX_METADATA_BYTES: Final = 16 * 1024


class Layout(NamedTuple):
    """The offsets of the column in a record batch that has only bodies."""

    rows: int
    offsets_at: int
    values_at: int
    values_size: int


def serialized(batch: pa.RecordBatch) -> memoryview:
    return memoryview(batch.serialize())


def layout_of(data: Buffer, rows: int) -> Layout:
    """The layout of a batch that has only bodies. Raises MalformedPayloadError, also for another number of rows."""
    try:
        layout = _layout(_metadata(data), len(data))
    except (struct.error, pa.ArrowException, OSError, EOFError) as error:
        raise MalformedPayloadError(f"not a record batch: {error}") from error
    if layout.rows != rows:
        raise MalformedPayloadError(f"{layout.rows} rows where the frame says {rows}")
    return layout


def read_batch(data: Buffer, rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """A batch whose columns are not validated yet, see `check_batch`. Raises MalformedPayloadError."""
    try:
        _refuse_growing(_metadata(data), len(data))
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
    except (struct.error, pa.ArrowException, OSError, EOFError) as error:
        raise MalformedPayloadError(f"not a record batch: {error}") from error
    if batch.num_rows != rows or rows < 1:
        raise MalformedPayloadError(f"{batch.num_rows} rows where the frame says {rows}")
    return batch


def check_batch(batch: pa.RecordBatch) -> None:
    """Validate the columns. Raises MalformedPayloadError."""
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise MalformedPayloadError(f"a column cannot be read: {error}") from error
    # Only now: counting the nulls of an invalid column may read beyond its end.
    if batch.column(0).null_count:
        raise MalformedPayloadError("a message without a body")


def _metadata(data: Buffer) -> bytes:
    marker, length = _PREFIX.unpack_from(data)
    if marker != _MARKER or length > _MAX_METADATA_BYTES:
        raise MalformedPayloadError("not a record batch")
    return bytes(data[: _PREFIX.size + length])


@lru_cache(maxsize=256)
def _layout(metadata: bytes, size: int) -> Layout:
    """Arrow computes it by reading a batch with this metadata and zeros for its columns."""
    _refuse_growing(metadata, size)
    blank = pa.py_buffer(metadata + bytes(size - len(metadata)))
    batch = pa.ipc.read_record_batch(blank, BODY_ONLY)
    column, rows = batch.column(0), batch.num_rows
    try:
        column.validate()
    except pa.ArrowException as error:
        raise MalformedPayloadError(f"a column cannot be read: {error}") from error
    if column.null_count or column.offset:
        raise MalformedPayloadError("a message without a body")
    _, offsets, values = column.buffers()
    if rows < 1 or offsets.size < 4 * (rows + 1) or offsets.size % 4:
        raise MalformedPayloadError("fewer offsets than messages")
    values_size = 0 if values is None else values.size
    # If all bodies are empty, Arrow's pointer is arbitrary.
    values_at = values.address - blank.address if values_size else 0
    layout = Layout(rows, offsets.address - blank.address, values_at, values_size)
    for begin, length in ((layout.offsets_at, offsets.size), (values_at, values_size)):
        if begin < 0 or begin + length > size:
            raise MalformedPayloadError("its columns reach beyond its end")
    return layout


def _refuse_growing(metadata: bytes, size: int) -> None:
    """A copy of the columns must not need more memory than the batch has."""
    if _announced_bytes(metadata) > size:
        raise MalformedPayloadError("its columns overlap, or reach beyond its end")


@lru_cache(maxsize=256)
def _announced_bytes(metadata: bytes) -> int:
    """The size of all columns together, by the metadata (a flatbuffer: a Message with a RecordBatch).

    Raises MalformedPayloadError for a compressed batch, struct.error for invalid metadata.
    """
    message = _Metadata(metadata)
    # Old writers announce compression in custom metadata of the message, which new writers do not have.
    if message.field(message.table, 4) or message.field(message.batch, 3):
        raise MalformedPayloadError("a compressed batch: its size in memory would be the sender's choice")
    buffers = message.vector(2)
    # Each buffer has an offset and a size.
    offsets_and_sizes = struct.unpack_from(f"<{2 * message.number('<I', buffers)}q", metadata, buffers + 4)
    return sum(max(0, size) for size in offsets_and_sizes[1::2])


class _Metadata:
    """Finds the fields in the metadata of a record batch. Raises struct.error for invalid metadata."""

    def __init__(self, data: Buffer) -> None:
        self._data = data
        self.table = _PREFIX.size + self.number("<I", _PREFIX.size)
        header = self.field(self.table, 2)
        self.batch = header + self.number("<I", header)

    def number(self, form: str, at: int) -> int:
        value: int = struct.unpack_from(form, self._data, at)[0]
        return value

    def field(self, table: int, slot: int) -> int:
        """The offset of a field of a table, or 0."""
        fields = table - self.number("<i", table)
        within = 4 + 2 * slot
        offset = self.number("<H", fields + within) if within < self.number("<H", fields) else 0
        return table + offset if offset else 0

    def vector(self, slot: int) -> int:
        """The offset of a vector of the batch: its length, then its elements."""
        at = self.field(self.batch, slot)
        return at + self.number("<I", at)


class BatchWriter:
    """Writes record batches of one schema, of bodies and columns of fixed size without nulls, as Arrow would.

    Only a few numbers in the metadata change from batch to batch. Without it, `plain_64` has 24 % fewer messages a
    second of processor time (`bench/cpu_time.py OLD --key plain_64`).
    """

    def __init__(self, schema: pa.Schema) -> None:
        values = (0 if pa.types.is_integer(field.type) else bytes(16) for field in schema)
        example = map(pa.array, ([value] for value in values), schema.types)
        self._metadata = _metadata(serialized(pa.RecordBatch.from_arrays([*example], schema=schema)))
        message = _Metadata(self._metadata)
        self._length_at, self._rows_at = message.field(message.table, 3), message.field(message.batch, 0)
        self._nodes_at, self._buffers_at = message.vector(1) + 4, message.vector(2) + 4
        self._nodes = struct.Struct(f"<{2 * len(schema)}q")
        self._buffers = struct.Struct(f"<{2 * message.number('<I', self._buffers_at - 4)}q")

    def write(self, bodies: Sequence[Buffer], offsets: Offsets, columns: Iterable[Buffer]) -> list[Buffer]:
        """The batch in parts: the offsets, each body, and the values of each column."""
        parts: list[Buffer] = [b""]
        # The buffers: for each column one for nulls, which is empty, and its own.
        places = [0, 0]
        end, rows = 0, len(bodies)
        body_column = (((offsets.data.cast("B"),), offsets.nbytes), (bodies, int(offsets[-1])))
        for column in (body_column, *((((values,), len(values)),) for values in columns)):
            for pieces, size in column:
                places += (end, size)
                padding = -size % 8
                parts += pieces
                parts.append(bytes(padding))
                end += size + padding
            places += (end, 0)
        metadata = bytearray(self._metadata)
        _LONG.pack_into(metadata, self._length_at, end)
        _LONG.pack_into(metadata, self._rows_at, rows)
        self._nodes.pack_into(metadata, self._nodes_at, *(rows, 0) * (self._nodes.size // 16))
        self._buffers.pack_into(metadata, self._buffers_at, *places[:-2])
        parts[0] = metadata
        return parts
