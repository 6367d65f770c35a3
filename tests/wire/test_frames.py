"""Frames of the native protocol are decoded equally, however the bytes are split."""

import json
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqlab.json_values import JsonObject
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import COLUMNS, SINGLE
from mqlab.wire.native.frames import HEADER, HEADER_SIZE, Flag, Frame, FrameDecoder, Kind, ProtocolError
from mqlab.wire.native.payload import COALESCED

LIMIT = 100_000
Fields = tuple[int, int, int, int, int, int, bytes]

kinds = st.sampled_from([int(kind) for kind in Kind])
small = st.binary(max_size=60)
# Payloads up to and beyond the receiver's chunk of memory (64 KiB), where a frame must move to new memory.
large = st.integers(0, 70_000).map(lambda size: bytes(range(256)) * (size // 256 + 1))
frames = st.tuples(
    kinds, st.integers(0, 255), st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1), small | large,
)  # fmt: skip


def written(fields: Fields) -> bytes:
    kind, flags, session, link, first, amount, payload = fields
    head = native.header(kind, flags=flags, session=session, link=link, first=first, amount=amount, length=len(payload))
    return head + payload


def fields_of(frame: Frame) -> Fields:
    return (*frame[:6], bytes(frame.payload))


@settings(deadline=None)
@given(st.lists(frames, max_size=20), st.data())
def test_any_split_of_the_bytes_gives_the_same_frames(sent: list[Fields], data: st.DataObject) -> None:
    stream = b"".join(map(written, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12), label="cuts"))
    receiver = FrameDecoder(LIMIT)
    came: list[Frame] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        came += receiver.feed(stream[begin:end])
    # Compared only now: a payload must keep its bytes while later frames are read.
    assert [fields_of(frame) for frame in came] == sent


def test_one_byte_at_a_time_is_a_split_too() -> None:
    sent = [(int(Kind.SEND), 3, 1, 2, 3, 1, bytes([n]) * n) for n in range(40)]
    receiver = FrameDecoder(LIMIT)
    came = [frame for byte in b"".join(map(written, sent)) for frame in receiver.feed(bytes([byte]))]
    assert [fields_of(frame) for frame in came] == sent


def test_many_megabytes_in_odd_steps_keep_their_frames() -> None:
    sent = [(int(Kind.SEND), 0, 0, n, n, 1, bytes([n % 256]) * (n * 997 % 90_000)) for n in range(200)]
    stream = memoryview(b"".join(map(written, sent)))
    receiver = FrameDecoder(LIMIT)
    came: list[Frame] = []
    for begin in range(0, len(stream), 54_321):
        came += receiver.feed(stream[begin : begin + 54_321])
    assert len(stream) > 4 * 1024 * 1024
    assert [fields_of(frame) for frame in came] == sent


def test_a_frame_larger_than_the_receivers_memory_comes_whole() -> None:
    payload = bytes(range(256)) * 20_000
    receiver = FrameDecoder(len(payload))
    before, big, after = ((int(Kind.SEND), 0, 0, 1, 1, 1, body) for body in (b"a", payload, b"z"))
    came = receiver.feed(written(before) + written(big) + written(after))
    assert [fields_of(frame) for frame in came] == [before, big, after]


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT])
def test_a_frame_up_to_the_limit_passes(length: int) -> None:
    (frame,) = FrameDecoder(LIMIT).feed(native.header(Kind.SEND, length=length) + bytes(length))
    assert len(frame.payload) == length


def test_a_frame_above_the_limit_is_refused_by_its_header_alone() -> None:
    with pytest.raises(ProtocolError, match=rf"{LIMIT + 1} bytes; the limit is {LIMIT}"):
        FrameDecoder(LIMIT).feed(native.header(Kind.SEND, length=LIMIT + 1))


def test_no_memory_is_taken_for_a_length_above_the_limit() -> None:
    receiver = FrameDecoder(LIMIT)
    with pytest.raises(ProtocolError):
        receiver.feed(native.header(Kind.SEND, length=2**32 - 1))
    assert len(receiver.get_buffer()) <= 1024 * 1024


@pytest.mark.parametrize("kind", sorted(set(range(256)) - {int(kind) for kind in Kind}))
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(ProtocolError, match=f"kind {kind} "):
        FrameDecoder(LIMIT).feed(native.header(kind))


@settings(deadline=None)
@given(st.binary(max_size=400))
@example(bytes(HEADER_SIZE))
def test_random_bytes_give_frames_or_the_protocols_own_error(stream: bytes) -> None:
    receiver = FrameDecoder(LIMIT)
    try:
        came = receiver.feed(stream)
    except ProtocolError:
        return
    assert sum(HEADER_SIZE + len(frame.payload) for frame in came) <= len(stream)


@settings(deadline=None)
@given(st.lists(frames.map(written), min_size=1, max_size=4), st.data())
def test_changed_frames_give_frames_or_the_protocols_own_error(sent: list[bytes], data: st.DataObject) -> None:
    stream = bytearray(b"".join(sent))
    for _ in range(data.draw(st.integers(1, 8))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        for frame in FrameDecoder(LIMIT).feed(stream):
            assert frame.kind in {int(kind) for kind in Kind}
            assert len(frame.payload) <= LIMIT


objects = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=5)


@given(objects)
def test_a_control_frame_carries_a_json_object(value: JsonObject) -> None:
    (frame,) = FrameDecoder(LIMIT).feed(native.frame(Kind.ERROR, value, session=1, link=2, first=3, amount=4))
    assert frame.json() == value
    assert frame[:6] == (Kind.ERROR, 0, 1, 2, 3, 4)


def _control(payload: bytes) -> Frame:
    (frame,) = FrameDecoder(LIMIT).feed(native.header(Kind.HELLO, length=len(payload)) + payload)
    return frame


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"{", b"[]", b"1", b"null", b'"text"', b"\xff\xfe\x00", b"\x80", b'{"a": 1} {}',
        b"[" * 50_000, b'{"a":' * 50_000, b'{"a": ' + b"9" * 5_000 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_json_object_gives_the_protocols_own_error(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        _control(payload).json()


@given(st.binary(max_size=200) | objects.map(lambda value: json.dumps(value).encode()[:-1] + b"\x00"))
def test_any_payload_is_a_json_object_or_the_protocols_own_error(payload: bytes) -> None:
    with suppress(ProtocolError):
        assert isinstance(_control(payload).json(), dict)


def test_the_header_has_the_size_that_is_written_down() -> None:
    """Other clients rely on it: 24 bytes, little-endian, in this order."""
    assert native.header(
        Kind.SEND, flags=Flag.SINGLE | Flag.PERSISTENT, session=0x0102, link=0x03040506, first=0x0708090A0B0C0D0E,
        amount=0x0F101112, length=0x13141516,
    ) == bytes.fromhex("16151413 0d 03 0201 06050403 0e0d0c0b0a090807 1211100f")  # fmt: skip
    assert HEADER.size == HEADER_SIZE == 24


def test_the_form_of_a_payload_is_among_the_flags() -> None:
    """A payload's form goes into the flags of its frame as it is, and comes out as it was."""
    assert (Flag.SINGLE, Flag.COLUMNS, Flag.COALESCED) == (SINGLE, COLUMNS, COALESCED)
    assert native.FORM == SINGLE | COLUMNS | COALESCED
    assert not native.FORM & (Flag.PERSISTENT | Flag.CONFIRM | Flag.REDELIVERED)


@pytest.mark.parametrize("size", [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 200_000])
def test_a_receiver_that_has_failed_has_room_and_fails_again(size: int) -> None:
    receiver = FrameDecoder(LIMIT)
    with pytest.raises(ProtocolError):
        receiver.feed(b"\xff" * size)
    for _ in range(3):
        room = receiver.get_buffer()
        assert len(room) > 0
        # Also if what follows looks like a frame.
        room[:HEADER_SIZE] = native.header(Kind.CLOSE)
        with pytest.raises(ProtocolError):
            receiver.buffer_updated(len(room))


@pytest.mark.parametrize(("length", "fits"), [(64 * 1024 - 24, True), (64 * 1024, True), (64 * 1024 + 1, False)])
def test_only_some_kinds_may_be_longer_than_a_chunk(length: int, fits: bool) -> None:
    receiver = FrameDecoder(LIMIT, frozenset((int(Kind.SEND),)))
    assert len(receiver.feed(written((Kind.SEND, 0, 0, 0, 0, 0, bytes(length))))) == 1
    asked = written((Kind.ASK, 0, 0, 0, 0, 0, bytes(length)))
    if fits:
        assert len(receiver.feed(asked)) == 1
    else:
        with pytest.raises(ProtocolError, match="65536"):
            receiver.feed(asked[:100])


def test_a_decoder_that_is_closed_has_room_and_fails() -> None:
    decoder = FrameDecoder(1000)
    decoder.close()
    assert 0 < len(decoder.get_buffer()) <= HEADER_SIZE
    for _ in range(3):
        with pytest.raises(ProtocolError, match="the connection has ended"):
            decoder.buffer_updated(1)
