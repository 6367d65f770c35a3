"""Forged record batches, as an attacker would send them."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from mqlab.wire.native.bodies import COLUMNS, Payload


class Forged:
    """The bytes of a record batch (from `begin` on), and where its metadata, a flatbuffer, says what of it."""

    def __init__(self, data: bytes | bytearray | memoryview, begin: int = 0) -> None:
        self.data = bytearray(data)
        self.message = begin + 8 + self._number("<I", begin + 8)
        header = self.field(self.message, 2)
        self.batch = header + self._number("<I", header)
        # How many rows the batch has; rows and nulls of each column; place and size of each buffer.
        self.rows = self.field(self.batch, 0)
        self.columns = self._vector(1)
        self.buffers = self._vector(2)
        self.body = begin + 8 + self._number("<I", begin + 4)

    def set(self, at: int, *numbers: int) -> None:
        struct.pack_into(f"<{len(numbers)}q", self.data, at, *numbers)

    def get(self, at: int, count: int = 2) -> tuple[int, ...]:
        return struct.unpack_from(f"<{count}q", self.data, at)

    def set_all_rows(self, rows: int, nulls: int) -> None:
        self.set(self.rows, rows)
        for column in self.columns:
            self.set(column, rows, nulls)

    def field(self, table: int, slot: int) -> int:
        """Where a field of a table is, or 0."""
        entry = self._entry(table, slot)
        offset = self._number("<H", entry) if entry else 0
        return table + offset if offset else 0

    def forget(self, table: int, slot: int) -> None:
        struct.pack_into("<H", self.data, self._entry(table, slot), 0)

    def _entry(self, table: int, slot: int) -> int:
        fields = table - self._number("<i", table)
        return fields + 4 + 2 * slot if 4 + 2 * slot < self._number("<H", fields) else 0

    def _vector(self, slot: int) -> list[int]:
        """Where the entries, of 16 bytes each, of a vector of the batch are."""
        at = self.field(self.batch, slot)
        at += self._number("<I", at)
        return [at + 4 + 16 * entry for entry in range(self._number("<I", at))]

    def _number(self, form: str, at: int) -> int:
        found: int = struct.unpack_from(form, self.data, at)[0]
        return found


def batch_begin(said: bytes) -> int:
    """Where the record batch begins after such a list of columns."""
    return -(-(2 + len(said)) // 8) * 8


def with_list(said: bytes, batch: bytes | bytearray | memoryview, rows: int) -> Payload:
    """Any bytes as a batch with columns, whatever its list says."""
    head = struct.pack("<H", len(said)) + said
    return Payload(head.ljust(batch_begin(said), b"\0") + bytes(batch), rows, COLUMNS)


def of_arrays(said: bytes, arrays: list[pa.Array]) -> Payload:
    """Bodies and columns of any types, behind that list."""
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(number) for number in range(len(arrays))])
    return with_list(said, bytes(batch.serialize()), batch.num_rows)


def compressed(arrays: Mapping[str, pa.Array], codec: str, *, in_the_old_way: bool = False) -> bytes:
    """A compressed batch; in the old way, it is said in the metadata of the message, and only there."""
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    version = pa.ipc.MetadataVersion.V4 if in_the_old_way else pa.ipc.MetadataVersion.V5
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec, metadata_version=version)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        more = {"ARROW:experimental_compression": codec} if in_the_old_way else None
        writer.write_batch(batch, custom_metadata=more)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()  # the schema
    data = bytes(reader.read_next_message().serialize())
    if not in_the_old_way:
        return data
    forged = Forged(data)
    forged.forget(forged.batch, 3)
    return bytes(forged.data)


@contextmanager
def memory_of_arrow() -> Iterator[pa.MemoryPool]:
    """Counts what Arrow takes."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(usual)
