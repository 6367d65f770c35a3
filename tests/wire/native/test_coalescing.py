"""Coalesced single messages: which can be, and that the batch holds the same messages in order."""

from typing import TypedDict, Unpack

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.client.headers import Byte, Float, Headers, Int, MessageEncoder, ProducerDefaults, Short
from mqlab.wire.native.bodies import Payload, decode, encode, select_rows, validate
from mqlab.wire.native.coalescing import coalescible_runs, join_singles, split_batch
from mqlab.wire.native.columns import Value, columns_of, decode_single, encode_columns
from mqlab.wire.native.frames import Flag, Frame, Kind
from mqlab.wire.native.payload import COALESCED

BODIES = [b"", b"x", bytes(range(256)) * 8, "größe".encode()]
EVERY_TYPE: dict[str, Value] = {
    "flag": True, "byte": Byte(-1), "short": Short(2), "int": Int(3), "long": 2**62, "float": Float(0.5),
    "double": -1e300, "text": "größe",
}  # fmt: skip
EVERY_HEADER: Headers = {
    "correlation_id": "c", "reply_to": "queue:r", "type": "t", "group": "g", "duplicate_id": "d", "priority": 9,
    "time_to_live": 1000, "delay": 5,
}  # fmt: skip


@pytest.mark.parametrize("properties", [{}, EVERY_TYPE])
@pytest.mark.parametrize("headers", [{}, EVERY_HEADER])
@pytest.mark.parametrize("standing", [ProducerDefaults(), ProducerDefaults(ids=False, timestamps=False)])
def test_each_message_is_found_again(
    standing: ProducerDefaults, headers: Headers, properties: dict[str, Value]
) -> None:
    stamp = MessageEncoder(standing)
    single = [stamp.message(body, headers, properties) for body in BODIES]
    joined = join_singles(single)
    validate(joined)
    assert joined.rows == len(single)
    assert decode(joined).tolist() == BODIES
    for row, one in enumerate(single):
        # A row that is cut out is a single message again, byte by byte.
        assert _told(select_rows(joined, range(row, row + 1))) == _told(one)
    # As are all, if it is taken apart.
    assert [_told(one) for one in split_batch(joined)] == [_told(one) for one in single]
    assert {one.rows for one in split_batch(joined)} == {1}


def test_a_message_taken_from_a_batch_has_only_its_own_headers() -> None:
    kinds = pa.array(["a", None, "c"]), pa.array([None, 2, 3], pa.int64())
    batch = encode_columns(pa.array([b"1", b"2", b"3"], pa.binary()), dict(zip(("type", ".n"), kinds, strict=True)))
    told = [({"type": "a"}, b"1"), ({".n": 2}, b"2"), ({"type": "c", ".n": 3}, b"3")]
    assert [_told(one) for one in split_batch(batch)] == told
    assert [_told(one) for one in split_batch(encode(BODIES))] == [({}, body) for body in BODIES]


@pytest.mark.parametrize("bodies", [BODIES, [b"", b""], [b"same", b"size"]])
def test_bodies_alone_become_a_plain_batch(bodies: list[bytes]) -> None:
    joined, plain = join_singles([encode([body]) for body in bodies]), encode(bodies)
    assert (bytes(joined.data), *joined[1:]) == (bytes(plain.data), plain.rows, plain.form | COALESCED)


def test_messages_with_the_same_columns_can_be_known_by_their_list() -> None:
    stamp = MessageEncoder(ProducerDefaults())
    plain, told, other = (stamp.message(b"x", {}, more) for more in ({}, {"a": 1}, {"a": 2}))
    lists = [columns_of(one) for one in (plain, told, other)]
    assert lists[1] == lists[2] != lists[0]
    assert columns_of(encode([b"x"])) is None


def _told(payload: Payload) -> tuple[dict[str, object], bytes]:
    single = decode_single(payload)
    return single.values, bytes(single.body)


class FrameFields(TypedDict, total=False):
    kind: int
    flags: int
    session: int
    link: int
    first: int
    amount: int
    payload: bytes | bytearray | memoryview


def _frame(number: int, **other: Unpack[FrameFields]) -> Frame:
    """The send of a single message, all alike but for their numbers and what is said otherwise."""
    return Frame(Kind.SEND, Flag.SINGLE, session=1, link=1, first=number, amount=1, payload=b"body")._replace(**other)


def _sizes(frames: list[Frame]) -> list[int]:
    """Of the runs. All frames are in them, in their order."""
    found = [*coalescible_runs(frames, 100)]
    assert [frame for run in found for frame in run] == frames
    return [len(run) for run in found]


def test_sends_that_follow_one_another_are_a_run() -> None:
    assert _sizes([]) == []
    assert _sizes([_frame(number) for number in range(5, 12)]) == [7]
    assert _sizes([_frame(number, payload=b"x" * number) for number in range(9)]) == [9]
    marked = Flag.SINGLE | Flag.PERSISTENT | Flag.CONFIRM
    assert _sizes([_frame(number, flags=marked) for number in range(3)]) == [3]


@pytest.mark.parametrize(
    "other",
    [
        {"kind": Kind.ACKNOWLEDGE}, {"flags": Flag.NONE}, {"flags": Flag.SINGLE | Flag.PERSISTENT}, {"link": 2},
        {"flags": Flag.SINGLE | Flag.CONFIRM}, {"session": 2}, {"amount": 2}, {"first": 7}, {"payload": b"x" * 100},
        {"flags": Flag.SINGLE | Flag.COLUMNS},
    ],
)  # fmt: skip
def test_what_is_not_alike_stands_by_itself(other: FrameFields) -> None:
    frames = [_frame(number) for number in range(9)]
    frames[4] = frames[4]._replace(**other)
    assert _sizes(frames) == [4, 1, 4]
    assert _sizes([frames[4]] * 3) == [1, 1, 1]


def test_messages_with_headers_are_a_run_as_long_as_they_have_the_same() -> None:
    stamp, flags = MessageEncoder(ProducerDefaults()), Flag.SINGLE | Flag.COLUMNS
    kinds: list[Headers] = [{"type": "a"}, {"type": "bb"}, {"type": ""}, {}, {}, {"type": "a", "group": "g"}]
    frames = [_frame(at, flags=flags, payload=stamp.message(b"x", one, {}).data) for at, one in enumerate(kinds)]
    assert _sizes(frames) == [3, 2, 1]
    # What cannot be read is nobody's companion; it is refused when it is looked at.
    for malformed in (b"", b"\7", b"\7\0broken"):
        broken = [*frames[:2], _frame(2, flags=flags, payload=malformed), *frames[3:]]
        assert _sizes(broken) == [2, 1, 2, 1]


@given(st.lists(st.tuples(st.integers(1, 2), st.sampled_from([0, 1, 17, 21]), st.integers(0, 3)), max_size=40))
def test_runs_are_all_frames_in_their_order(some: list[tuple[int, int, int]]) -> None:
    frames = [
        _frame(at % 7, link=link, flags=flags, payload=b"x" * size) for at, (link, flags, size) in enumerate(some)
    ]
    for run in coalescible_runs(frames, 3):
        if len(run) > 1:
            assert len({frame[:4] for frame in run}) == 1
            assert [frame.first - run[0].first for frame in run] == [*range(len(run))]
    assert sum(_sizes(frames)) == len(frames)
