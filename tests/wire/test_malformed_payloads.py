"""Payloads that no honest client writes: only MalformedPayloadError comes out; what passes the check is harmless."""

import random
import struct

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqlab.wire.bodies import MalformedPayloadError, Payload, check, cut, decode, encode

SCHEMA = pa.schema([pa.field("body", pa.binary())])


def use(payload: Payload) -> bool:
    """All that broker and client do with a payload. True if it was accepted."""
    try:
        check(payload)
    except MalformedPayloadError:
        return False
    bodies = decode(payload)
    taken = bodies.tolist()
    assert len(taken) == payload.rows
    assert sum(map(len, taken)) == bodies.nbytes <= len(payload.data)
    assert all(isinstance(body, bytes) for body in taken)
    for start in range(0, payload.rows, max(1, payload.rows // 4)):
        assert decode(cut(payload, start, 1)).tolist() == taken[start : start + 1]
    table = bodies.table()
    assert table is None or [row.tobytes() for row in table] == taken
    return True


def _batch(column: pa.Array, name: str = "body") -> bytes:
    return bytes(pa.RecordBatch.from_arrays([column], names=[name]).serialize())


def _compressed(column: pa.Array, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column], schema=SCHEMA))
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()  # the schema
    return reader.read_next_message().serialize().to_pybytes()


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.integers(0, 5), st.booleans())
@example(b"", 1, False)
@example(b"\xff\xff\xff\xff\x00\x00\x00\x00", 1, False)
def test_random_bytes(data: bytes, rows: int, lone: bool) -> None:
    accepted = use(Payload(data, rows, lone))
    assert accepted is (lone and rows == 1)


ORIGINALS = [
    encode([b"", b"a", b"bc" * 20]),
    encode([b"\x00" * 12] * 50),
    encode([b"", b""]),
]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2), st.integers(0, 2**32))
def test_changed_batches(which: int, seed: int) -> None:
    """Many changes an example: most die in the first check of Arrow, the rare ones are those of interest."""
    original, chance = ORIGINALS[which], random.Random(seed)
    for _ in range(20):
        data = bytearray(original.data)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        use(Payload(bytes(data), original.rows, False))


def test_every_single_byte_changed_to_the_values_that_hurt_most() -> None:
    for original in ORIGINALS[:1]:
        for at in range(len(original.data)):
            for value in (0x00, 0x01, 0x03, 0x7F, 0x80, 0xFF):
                data = bytearray(original.data)
                data[at] = value
                use(Payload(bytes(data), original.rows, False))


def test_every_end_cut_off() -> None:
    original = ORIGINALS[0]
    whole = bytes(original.data)
    for size in range(len(whole)):
        # Arrow pads to 8 bytes; only that padding may be missing.
        assert not use(Payload(whole[:size], original.rows, False)) or len(whole) - size < 8


def test_a_message_without_a_body_is_refused() -> None:
    assert not use(Payload(_batch(pa.array([b"a", None, b"c"], pa.binary())), 3, False))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2, 3], pa.int64()),
        pa.array([b"abc", b"def", b"ghi"], pa.binary(3)),
        pa.array([[1], [2], [3]], pa.list_(pa.int64())),
        pa.array([None, None, None], pa.null()),
    ],
    ids=str,
)
def test_a_column_of_another_type_never_reads_memory_that_is_not_the_payloads(column: pa.Array) -> None:
    use(Payload(_batch(column), 3, False))


def test_two_columns_are_not_one() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"a", b"b"]), pa.array([b"c", b"d"])], names=["body", "more"])
    use(Payload(bytes(batch.serialize()), 2, False))


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_batch_is_refused_before_it_grows(codec: str) -> None:
    """A frame of some kilobytes may not become a hundred megabytes of memory."""
    data = _compressed(pa.array([b"\x00" * (64 * 1024 * 1024)] * 2, pa.binary()), codec)
    assert len(data) < 1024 * 1024
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(MalformedPayloadError):
            check(Payload(data, 2, False))
        assert pool.max_memory() < 1024 * 1024
    finally:
        pa.set_memory_pool(usual)


@pytest.mark.parametrize(
    "offsets",
    [(0, 2, 1, 3), (-1, 1, 2, 3), (0, 1, 2, 2**31 - 1), (2, 2, 2, 1), (0, 9, 9, 3), (0, -9, 2, 3), (3, 4, 5, 6)],
)
def test_offsets_that_point_elsewhere_are_refused(offsets: tuple[int, ...]) -> None:
    honest, other = struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", *offsets)
    data = bytes(encode([b"a", b"b", b"c"]).data)
    assert data.count(honest) == 1
    assert use(Payload(data, 3, False))
    assert not use(Payload(data.replace(honest, other), 3, False))


def test_offsets_of_a_broken_size_are_refused() -> None:
    data = bytes(encode([b"", b""]).data)
    honest, other = struct.pack("<qq", 0, 12), struct.pack("<qq", 0, 13)
    assert data.count(honest) == 1
    assert not use(Payload(data.replace(honest, other), 2, False))
