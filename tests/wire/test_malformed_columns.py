"""Malformed batches with columns raise MalformedPayloadError, and cost no more memory than their size."""

import random
import struct

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqlab.wire.native.bodies import COLUMNS, MalformedPayloadError, Payload, validate
from mqlab.wire.native.columns import decode_batch, encode_columns

from .forged_batches import Forged, batch_begin, compressed, memory_of_arrow, of_arrays, with_list
from .message_tables import EVERY_TYPE, Table
from .payload_checks import use

BODIES = pa.array([b"a", b"bc", b""], pa.binary())
SMALL = Table(
    {"correlation_id": "s", ".n": "i", ".known": "?"},
    [{"body": b"a", "correlation_id": "c-1", ".n": 1}, {"body": b"bb", ".known": True}, {"body": b"", ".n": 3}],
)
SMALL_BEGIN = batch_begin(b"scorrelation_id,i.n,?.known")


def changed(data: bytes, at: int, value: int) -> bytes:
    copy = bytearray(data)
    copy[at] = value
    return bytes(copy)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.integers(0, 5))
@example(b"", 1)
@example(b"\x00\x00", 1)
@example(b"\xff\xff", 1)
def test_random_bytes(data: bytes, rows: int) -> None:
    assert not use(Payload(data, rows, COLUMNS))
    assert not use(with_list(b"s.a,i.n", data, rows))
    assert not use(with_list(b"s.a,i.n", b"\xff\xff\xff\xff" + data, rows))


def test_every_bit_changed() -> None:
    data = bytes(SMALL.payload().data)
    accepted = [
        use(Payload(changed(data, at, data[at] ^ 1 << bit), 3, COLUMNS)) for at in range(len(data)) for bit in range(8)
    ]
    # Bits of values, bodies and padding: of these no check can know.
    assert 0 < sum(accepted) < len(accepted) / 2


def test_every_byte_changed_to_the_values_that_hurt_most() -> None:
    data = bytes(EVERY_TYPE.payload().data)
    for at in range(len(data)):
        for value in (0x00, 0x7F, 0xFF):
            if value != data[at]:
                use(Payload(changed(data, at, value), 3, COLUMNS))


@pytest.mark.parametrize("table", [SMALL, EVERY_TYPE], ids=["small", "every type"])
def test_every_end_cut_off(table: Table) -> None:
    whole = bytes(table.payload().data)
    for size in range(len(whole)):
        # Arrow pads to 8 bytes; only that padding may be missing.
        assert not use(Payload(whole[:size], 3, COLUMNS)) or len(whole) - size < 8


@settings(deadline=None, max_examples=100)
@given(st.sampled_from([SMALL, EVERY_TYPE]), st.integers(0, 2**32))
def test_changed_batches(table: Table, seed: int) -> None:
    chance, original = random.Random(seed), bytes(table.payload().data)
    for _ in range(20):
        data = bytearray(original)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        use(Payload(bytes(data), 3, COLUMNS))


HURTING = (-(2**63), -(2**31), -8, -2, -1, 0, 1, 2, 4, 8, 64, 2**31, 2**32, 2**63 - 8, 2**63 - 1)


def test_rows_nulls_places_and_sizes_that_are_not_true() -> None:
    data = SMALL.payload().data
    honest = Forged(data, SMALL_BEGIN)
    for at in [honest.rows, *(at + half for at in honest.columns + honest.buffers for half in (0, 8))]:
        for number in HURTING:
            forged = Forged(data, SMALL_BEGIN)
            forged.set(at, number)
            use(Payload(bytes(forged.data), 3, COLUMNS))


@pytest.mark.parametrize("nulls", [-1, -2, 0, 1, 2**31])
@pytest.mark.parametrize("rows", [0, 1, 4, 1_000, 2**31, 2**32 - 1])
def test_rows_that_are_not_there_are_not_looked_for(rows: int, nulls: int) -> None:
    forged = Forged(SMALL.payload().data, SMALL_BEGIN)
    forged.set_all_rows(rows, nulls)
    accepted = use(Payload(bytes(forged.data), rows, COLUMNS))
    # One row of the three is no lie that could be found out, or hurt.
    assert not accepted or rows == 1


@pytest.mark.parametrize("size", [0, 1, 7, 8])
def test_marks_for_fewer_rows_than_there_are(size: int) -> None:
    """Which rows have a value is told by a bit for each: too few bits may not be read on and on."""
    rows = 100
    numbers = pa.array([None, *range(rows - 1)], pa.int32())
    payload = encode_columns(pa.array([b""] * rows, pa.binary()), {".n": numbers})
    forged = Forged(payload.data, batch_begin(b"i.n"))
    marks = forged.buffers[3]
    place, honest = forged.get(marks)
    assert honest >= 13
    forged.set(marks, place, size)
    assert not use(Payload(bytes(forged.data), rows, COLUMNS))


@pytest.mark.parametrize("rows", [0, 1, 2, 4, 2**32 - 1])
def test_the_frame_and_the_batch_must_agree_on_the_rows(rows: int) -> None:
    assert not use(Payload(SMALL.payload().data, rows, COLUMNS))


def test_a_batch_without_messages_is_refused() -> None:
    empty = encode_columns(pa.array([], pa.binary()), {".n": pa.array([], pa.int32())})
    assert empty.rows == 0
    assert not use(empty)


def test_a_message_without_a_body_is_refused() -> None:
    assert not use(of_arrays(b"i.n", [pa.array([b"a", None], pa.binary()), pa.array([1, 2], pa.int32())]))


@pytest.mark.parametrize(
    "offsets",
    [(0, 2, 1, 3), (-1, 1, 2, 3), (0, 1, 2, 2**31 - 1), (2, 2, 2, 1), (0, 9, 9, 3), (0, -9, 2, 3), (3, 4, 5, 6)],
)
@pytest.mark.parametrize("which", [0, 1])
def test_offsets_that_point_elsewhere_are_refused(which: int, offsets: tuple[int, ...]) -> None:
    """Of the bodies, and of a column of texts."""
    texts = pa.array(["x", "y", "z"])
    payload = encode_columns(pa.array([b"a", b"b", b"c"], pa.binary()), {".s": texts})
    assert use(payload)
    forged = Forged(payload.data, batch_begin(b"s.s"))
    place, size = forged.get(forged.buffers[3 * which + 1])
    assert forged.data[forged.body + place :][:16] == struct.pack("<4i", 0, 1, 2, 3)
    assert size >= 16
    struct.pack_into("<4i", forged.data, forged.body + place, *offsets)
    assert not use(Payload(bytes(forged.data), 3, COLUMNS))


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_texts_that_are_not_utf8_are_refused(text: bytes) -> None:
    assert not use(of_arrays(b"s.s", [BODIES, pa.array([b"ok", text, None], pa.binary())]))


def test_texts_that_are_utf8_only_together_are_refused() -> None:
    assert not use(of_arrays(b"s.s", [BODIES, pa.array([b"\xc3", b"\xbc", b""], pa.binary())]))


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array([[1], [2, 3], None], pa.list_(pa.int32())),
        pa.array([{"a": 1}, {"a": 2}, None]),
        pa.array([[1], [2], [3]], pa.list_(pa.int32(), 1)),
        pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int32())),
        pa.array(["a", "b", None], pa.string_view()),
        pa.array(["a", "b", None], pa.large_string()),
        pa.array([None] * 3, pa.null()),
        pa.array([1, 2, None], pa.int64()),
        pa.array([True, None, False]),
        pa.array([1, 1, 2]),
        pa.RunEndEncodedArray.from_arrays([1, 3], [5, 6]),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("said", [b"s.p", b"i.p", b"?.p", b"uid", b"d.p", b"qtimestamp,s.p"])
def test_a_column_of_another_type_never_reads_memory_that_is_not_the_payloads(said: bytes, array: pa.Array) -> None:
    use(of_arrays(said, [BODIES, array]))
    use(of_arrays(said, [array, BODIES]))


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_more_or_fewer_columns_than_the_list_says(columns: int) -> None:
    payload = of_arrays(b"s.a,s.b", [BODIES, *[pa.array(["x", None, "z"])] * columns])
    assert use(payload) is (columns > 2)


def test_a_message_that_is_no_batch_is_refused() -> None:
    schema = pa.schema([("body", pa.binary())])
    assert not use(with_list(b"s.a", bytes(schema.serialize()), 1))


@pytest.mark.parametrize("in_the_old_way", [False, True])
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_batch_is_refused_before_it_grows(codec: str, in_the_old_way: bool) -> None:
    large = "x" * (32 * 1024 * 1024)
    arrays = {"body": pa.array([b"", b""], pa.binary()), ".s": pa.array([large, large])}
    payload = with_list(b"s.s", compressed(arrays, codec, in_the_old_way=in_the_old_way), 2)
    assert len(payload.data) < 1024 * 1024
    for parse in (validate, decode_batch):
        with memory_of_arrow() as pool:
            with pytest.raises(MalformedPayloadError, match="compressed"):
                parse(payload)
            assert pool.max_memory() < 1024 * 1024


@pytest.mark.parametrize("hidden", [False, True])
def test_columns_that_lie_in_the_same_place_are_refused(hidden: bool) -> None:
    """A cut copies each of them: a hundred columns in the place of one would make a hundred megabytes of one."""
    rows, names = 100, [f".p{number}" for number in range(100)]
    texts, nothing = pa.array(["t" * 10_000] * rows), pa.array([""] * rows)
    said = ",".join("s" + name for name in names).encode()
    # One column more than the list says: nobody reads it, so its sizes can be anything that makes the sum look right.
    arrays = [pa.array([b""] * rows, pa.binary()), texts, *[nothing] * 99, nothing]
    forged, begin = Forged(of_arrays(said, arrays).data, batch_begin(said)), batch_begin(said)
    for number in range(2, 101):
        for part in range(3):
            forged.set(forged.buffers[3 * number + part], *forged.get(forged.buffers[3 + part]))
    if hidden:
        forged.set(forged.buffers[-1] + 8, -(2**40))
    schema = pa.schema([("body", pa.binary()), *((name, pa.string()) for name in names)])
    batch = pa.ipc.read_record_batch(pa.py_buffer(forged.data[begin:]), schema)
    batch.validate(full=True)
    assert batch.nbytes > 50 * len(forged.data)
    with pytest.raises(MalformedPayloadError, match="overlap"):
        validate(Payload(bytes(forged.data), rows, COLUMNS))


def test_a_check_takes_little_memory() -> None:
    texts = pa.array(["text " * 20] * 20_000)
    payload = encode_columns(pa.array([b"b" * 50] * 20_000, pa.binary()), {".s": texts})
    with memory_of_arrow() as pool:
        validate(payload)
        assert pool.max_memory() < len(payload.data)
