"""Untrusted record batches: locates their columns, and validates them."""

import struct
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from mqlab.wire.native.payload import BINARY, Buffer, MalformedPayloadError

BODY_ONLY: Final = pa.schema([pa.field("body", BINARY, nullable=False)])

# The metadata of a record batch precedes its columns: four bytes of marker, four of length, then that many bytes.
# Batches of equal shape have equal metadata, so the layout is computed once for all of them.
_PREFIX: Final = struct.Struct("<II")
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

    def number(form: str, at: int) -> int:
        value: int = struct.unpack_from(form, metadata, at)[0]
        return value

    def field(table: int, slot: int) -> int:
        """The offset of a field of a table, or 0."""
        fields = table - number("<i", table)
        within = 4 + 2 * slot
        offset = number("<H", fields + within) if within < number("<H", fields) else 0
        return table + offset if offset else 0

    message = _PREFIX.size + number("<I", _PREFIX.size)
    header = field(message, 2)
    batch = header + number("<I", header)
    # Old writers announce compression in custom metadata of the message, which new writers do not have.
    if field(message, 4) or field(batch, 3):
        raise MalformedPayloadError("a compressed batch: its size in memory would be the sender's choice")
    buffers = field(batch, 2)
    buffers += number("<I", buffers)
    # Each buffer has an offset and a size.
    offsets_and_sizes = struct.unpack_from(f"<{2 * number('<I', buffers)}q", metadata, buffers + 4)
    return sum(max(0, size) for size in offsets_and_sizes[1::2])
