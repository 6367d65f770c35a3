"""Malformed payloads raise MalformedPayloadError; payloads that are valid can be decoded."""

import random
import struct

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqlab.wire.native.bodies import SINGLE, MalformedPayloadError, Payload, encode, validate

from .forged_batches import Forged, compressed, memory_of_arrow
from .payload_checks import use


def _batch(column: pa.Array, name: str = "body") -> bytes:
    return bytes(pa.RecordBatch.from_arrays([column], names=[name]).serialize())


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.integers(0, 5), st.sampled_from([0, SINGLE]))
@example(b"", 1, 0)
@example(b"", 1, SINGLE)
@example(b"\xff\xff\xff\xff\x00\x00\x00\x00", 1, 0)
def test_random_bytes(data: bytes, rows: int, form: int) -> None:
    accepted = use(Payload(data, rows, form))
    assert accepted is (form == SINGLE and rows == 1)


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
        use(Payload(bytes(data), original.rows, 0))


def test_every_single_byte_changed_to_the_values_that_hurt_most() -> None:
    for original in ORIGINALS[:1]:
        for at in range(len(original.data)):
            for value in (0x00, 0x01, 0x03, 0x7F, 0x80, 0xFF):
                data = bytearray(original.data)
                data[at] = value
                use(Payload(bytes(data), original.rows, 0))


def test_every_end_cut_off() -> None:
    original = ORIGINALS[0]
    whole = bytes(original.data)
    for size in range(len(whole)):
        # Arrow pads to 8 bytes; only that padding may be missing.
        assert not use(Payload(whole[:size], original.rows, 0)) or len(whole) - size < 8


def test_a_message_without_a_body_is_refused() -> None:
    assert not use(Payload(_batch(pa.array([b"a", None, b"c"], pa.binary())), 3, 0))


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
    use(Payload(_batch(column), 3, 0))


def test_two_columns_are_not_one() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"a", b"b"]), pa.array([b"c", b"d"])], names=["body", "more"])
    use(Payload(bytes(batch.serialize()), 2, 0))


@pytest.mark.parametrize("in_the_old_way", [False, True])
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_batch_is_refused_before_it_grows(codec: str, in_the_old_way: bool) -> None:
    """A frame of some kilobytes may not become a hundred megabytes of memory."""
    bodies = pa.array([b"\x00" * (64 * 1024 * 1024)] * 2, pa.binary())
    data = compressed({"body": bodies}, codec, in_the_old_way=in_the_old_way)
    assert len(data) < 1024 * 1024
    with memory_of_arrow() as pool:
        with pytest.raises(MalformedPayloadError, match="compressed"):
            validate(Payload(data, 2, 0))
        assert pool.max_memory() < 1024 * 1024


@pytest.mark.parametrize(
    "offsets",
    [(0, 2, 1, 3), (-1, 1, 2, 3), (0, 1, 2, 2**31 - 1), (2, 2, 2, 1), (0, 9, 9, 3), (0, -9, 2, 3), (3, 4, 5, 6)],
)
def test_offsets_that_point_elsewhere_are_refused(offsets: tuple[int, ...]) -> None:
    honest, other = struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", *offsets)
    data = bytes(encode([b"a", b"b", b"c"]).data)
    assert data.count(honest) == 1
    assert use(Payload(data, 3, 0))
    assert not use(Payload(data.replace(honest, other), 3, 0))


def test_offsets_of_a_broken_size_are_refused() -> None:
    data = bytes(encode([b"", b""]).data)
    honest, other = struct.pack("<qq", 0, 12), struct.pack("<qq", 0, 13)
    assert data.count(honest) == 1
    assert not use(Payload(data.replace(honest, other), 2, 0))


@pytest.mark.parametrize("nulls", [-1, -2, 1, 2**31, 2**63 - 1])
@pytest.mark.parametrize("rows", [2, 1_000, 2**31, 2**32 - 1])
def test_rows_and_nulls_that_are_not_there_are_not_looked_for(rows: int, nulls: int) -> None:
    """Whoever counts nulls (-1: not counted yet) in a column that is too short reads what is not the payload's."""
    forged = Forged(encode([b"a", b"b"]).data)
    forged.set_all_rows(rows, nulls)
    accepted = use(Payload(bytes(forged.data), rows, 0))
    # Two rows whose nulls nobody has counted, and where there are none, are true.
    assert not accepted or (rows, nulls) == (2, -1)


HURTING = (-(2**63), -(2**31), -8, -1, 1, 8, 64, 2**31, 2**32, 2**63 - 8, 2**63 - 1)


def test_places_and_sizes_that_are_not_true() -> None:
    data = encode([b"a", b"b" * 70, b""]).data
    for number in HURTING:
        for buffer in Forged(data).buffers:
            for at in (buffer, buffer + 8):
                forged = Forged(data)
                forged.set(at, number)
                use(Payload(bytes(forged.data), 3, 0))
