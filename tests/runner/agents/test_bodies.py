import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.runner.agents.bodies import BodyMaker, ForeignMessageError, message_id, message_ranges
from mqlab.wire.native.bodies import Bodies, decode, encode, encode_equal

BORDER = 2**32
Message = tuple[int, int, int]  # producer, sequence number, size

producers = st.integers(0, 2**31 - 1)
# Mostly where something can go wrong: at the border of the halves, and at the start.
firsts = st.one_of(
    st.integers(0, 300), st.integers(BORDER - 300, BORDER + 300), st.integers(3 * BORDER - 50, 3 * BORDER + 50),
    st.integers(0, 2**62),
)  # fmt: skip


def body(producer: int, seq: int, size: int) -> bytes:
    return struct.pack("<IQ", producer, seq) + b"." * (size - 12)


def read(one: bytes) -> tuple[int, int]:
    producer, seq = struct.unpack_from("<IQ", one)
    return producer, seq


def as_arrived(messages: list[Message]) -> Bodies:
    return decode(encode([body(*message) for message in messages]))


def expected(messages: list[Message]) -> list[tuple[int, int, int, int]]:
    """The slow and simple way."""
    found: list[list[int]] = []
    for producer, seq, size in messages:
        last = found[-1] if found else None
        if last is not None and last[0] == producer and last[1] + last[2] == seq:
            last[2] += 1
            last[3] += size
        else:
            found.append([producer, seq, 1, size])
    return [(producer, first, count, size) for producer, first, count, size in found]


@settings(deadline=None)
@given(producer=producers, size=st.integers(12, 80), first=firsts, rows=st.integers(1, 200), again=firsts)
def test_bodies_say_who_sent_them_and_which_they_are(
    producer: int, size: int, first: int, rows: int, again: int
) -> None:
    maker = BodyMaker(producer, size, max_count=200)
    # The maker reuses its memory: what an earlier batch left must not shine through.
    for start, number in ((again, 200), (first, rows), (first + rows, 200), (again, rows)):
        made = maker.make(start, number)
        assert made.shape == (number, size)
        assert [read(row.tobytes()) for row in made] == [(producer, start + n) for n in range(number)]


@settings(deadline=None)
@given(first=firsts, rows=st.integers(2, 200))
def test_only_the_sequence_number_tells_two_bodies_apart(first: int, rows: int) -> None:
    made = BodyMaker(7, 60, max_count=200).make(first, rows)
    assert len({row.tobytes()[12:] for row in made}) == 1
    assert len(set(made[0].tobytes()[12:])) == 48, "filler that does not compress to nothing"


@settings(deadline=None)
@given(producer=producers, size=st.integers(12, 80), first=firsts, rows=st.integers(1, 200))
def test_what_was_made_together_is_one_range(producer: int, size: int, first: int, rows: int) -> None:
    made = BodyMaker(producer, size, max_count=200).make(first, rows)
    arrived = decode(encode_equal(made.reshape(-1), rows))
    assert message_ranges(arrived) == [(producer, first, rows, rows * size)]


# Few producers and short steps, so that runs, gaps, repetitions and steps back all occur.
steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([1, 1, 1, 1, 0, -1, 2, 5]), st.sampled_from([12, 12, 12, 13, 40])),
    min_size=1, max_size=60,
)  # fmt: skip


@st.composite
def arrivals(draw: st.DrawFn) -> list[Message]:
    base = draw(st.one_of(st.just(10), st.just(BORDER - 4), st.just(5 * BORDER + 100)))
    equal = draw(st.booleans())
    at = dict.fromkeys(range(3), base)
    messages = []
    for producer, step, size in draw(steps):
        at[producer] += step
        messages.append((producer, at[producer], 12 if equal else size))
    return messages


@settings(deadline=None)
@given(arrivals())
def test_ranges_cover_each_message_once_and_in_order(messages: list[Message]) -> None:
    found = message_ranges(as_arrived(messages))
    assert [(p, first + n) for p, first, count, _ in found for n in range(count)] == [(p, s) for p, s, _ in messages]
    assert sum(size for *_, size in found) == sum(size for *_, size in messages)


@settings(deadline=None)
@given(arrivals())
def test_ranges_are_as_long_as_they_can_be(messages: list[Message]) -> None:
    assert message_ranges(as_arrived(messages)) == expected(messages)


@settings(deadline=None)
@given(arrivals(), st.data())
def test_a_part_of_a_batch_has_ranges_of_its_own(messages: list[Message], data: st.DataObject) -> None:
    """Offsets of a part do not begin at zero."""
    begin = data.draw(st.integers(0, len(messages) - 1))
    end = data.draw(st.integers(begin + 1, len(messages)))
    raw = b"".join(body(*message) for message in messages)
    edges = np.cumsum([0, *(size for *_, size in messages)], dtype=np.int32)
    part = Bodies(np.frombuffer(raw, dtype=np.uint8), edges[begin : end + 1])
    assert message_ranges(part) == expected(messages[begin:end])


@pytest.mark.parametrize("seq", [0, BORDER - 1, BORDER, 2**62])
@pytest.mark.parametrize("size", [12, 1024])
def test_a_single_message(seq: int, size: int) -> None:
    assert message_ranges(as_arrived([(5, seq, size)])) == [(5, seq, 1, size)]


def test_two_producers_that_take_turns() -> None:
    messages = [(n % 2, n // 2, 12) for n in range(6)]
    assert message_ranges(as_arrived(messages)) == [(p, s, 1, 12) for p, s, _ in messages]


def test_the_lower_half_running_over_is_not_a_step_of_one_unless_the_upper_half_goes_on() -> None:
    wrapped = [(1, BORDER - 1, 12), (1, 0, 12)]
    assert message_ranges(as_arrived(wrapped)) == [(1, BORDER - 1, 1, 12), (1, 0, 1, 12)]
    onward = [(1, BORDER - 1, 12), (1, BORDER, 12)]
    assert message_ranges(as_arrived(onward)) == [(1, BORDER - 1, 2, 24)]


@pytest.mark.parametrize(("odd", "place"), [((2, 3, 12), 3), ((1, 3 + BORDER, 12), 3), ((1, 9, 12), 3)])
def test_one_odd_message_in_the_middle_is_found(odd: Message, place: int) -> None:
    messages = [(1, n, 12) for n in range(8)]
    messages[place] = odd
    assert message_ranges(as_arrived(messages)) == [(1, 0, 3, 36), (*odd[:2], 1, 12), (1, 4, 4, 48)]


@pytest.mark.parametrize(
    "strange", [[b"hello"], [b"hello", b"world"], [body(1, 2, 12), b""], [b"", body(1, 2, 12)], [b""]]
)
def test_what_is_none_of_ours_is_no_number(strange: list[bytes]) -> None:
    """Shorter than a number, a body must not be read together with its neighbour."""
    with pytest.raises(ForeignMessageError):
        message_ranges(decode(encode(strange)))


@settings(deadline=None)
@given(producer=producers, seq=firsts, size=st.integers(12, 100))
def test_a_body_alone_is_like_one_of_a_batch(producer: int, seq: int, size: int) -> None:
    maker = BodyMaker(producer, size, 3)
    assert maker.make_single(seq) == maker.make(seq, 1)[0].tobytes()
    assert message_id(maker.make_single(seq)) == (producer, seq)


def test_a_body_that_is_too_short_is_none_of_ours() -> None:
    with pytest.raises(ForeignMessageError):
        message_id(b"12345678901")
