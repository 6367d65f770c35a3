"""Messages of AMQP 0-9-1: encoded and decoded by the thousand, equal or not, split anywhere."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.amqp.content import CONTENT, AmqpPublisher, AmqpReplyProperties, reply_properties
from mqlab.wire.amqp.methods import BODY, HEADER, Method, frame, method
from mqlab.wire.amqp.values import AmqpError
from wire.amqp_broker import FRAME_MAX, delivery, one_by_one, splitter

Message = tuple[int, bytes, bool, bytes, str]
messages = st.tuples(
    st.integers(1, 2), st.binary(max_size=3) | st.just(b"same size!") | st.just(bytes(5000)), st.booleans(),
    st.sampled_from([b"\0\0", b"\x10\0\x02"]), st.sampled_from(["key", "another"]),
)  # fmt: skip


def written(sent: list[Message]) -> tuple[list[list[bytes]], list[tuple[int, int, bool, bytes, bytes]]]:
    frames, expected = [], []
    tags = {1: 0, 2: 0}
    for channel, body, redelivered, properties, key in sent:
        tags[channel] += 1
        frames.append(delivery(channel, tags[channel], body, redelivered=redelivered, properties=properties, key=key))
        expected.append((channel, tags[channel], redelivered, body, properties))
    return frames, expected


@settings(deadline=None)
@given(st.lists(st.tuples(messages, st.integers(1, 30)), max_size=6), st.data())
def test_any_messages_come_out_however_they_are_torn(repeated: list[tuple[Message, int]], data: st.DataObject) -> None:
    frames, expected = written([message for message, times in repeated for _ in range(times)])
    stream = b"".join(chain.from_iterable(frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reading = splitter()
    found: list[object] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reading.feed(stream[begin:end])
    assert one_by_one(found) == expected


def test_torn_at_every_byte() -> None:
    frames, expected = written([(1, b"abc", False, b"\0\0", "key")] * 3 + [(2, b"", True, b"\0\0", "key")])
    stream = b"".join(chain.from_iterable(frames))
    for cut in range(len(stream) + 1):
        reading = splitter()
        assert one_by_one([*reading.feed(stream[:cut]), *reading.feed(stream[cut:])]) == expected
    reading = splitter()
    assert one_by_one([piece for at in range(len(stream)) for piece in reading.feed(stream[at : at + 1])]) == expected


def test_thousands_that_are_alike_are_a_few_pieces() -> None:
    frames, expected = written([(1, b"%012d" % number, False, b"\0\0", "key") for number in range(5000)])
    found = splitter().feed(b"".join(chain.from_iterable(frames)))
    assert len(found) <= 6
    assert one_by_one([*found]) == expected


def test_a_tag_that_does_not_follow_begins_a_new_piece() -> None:
    tags = [*range(1, 40), *range(50, 90)]
    found = splitter().feed(b"".join(chain.from_iterable(delivery(1, tag, b"body") for tag in tags)))
    assert [row[1] for row in one_by_one([*found])] == tags


def test_frames_of_channels_may_be_mixed() -> None:
    first, second = delivery(1, 1, bytes(9000)), delivery(2, 1, b"other")
    ack, stream = method(3, "basic.ack", 9, True), b""
    for one, other in zip(first, [*second, *[b""] * (len(first) - len(second))], strict=True):
        stream += one + other + ack
    found = splitter().feed(stream)
    assert [piece for piece in found if isinstance(piece, Method)] == [Method(3, "basic.ack", (9, True))] * len(first)
    bodies = [row[3] for row in one_by_one([piece for piece in found if not isinstance(piece, Method)])]
    assert bodies == [b"other", bytes(9000)]


def test_a_returned_message_is_its_method() -> None:
    head = frame(HEADER, 1, CONTENT.pack(60, 0, 4, 0))
    stream = method(1, "basic.return", 312, "NO_ROUTE", "", "key") + head + frame(BODY, 1, b"body")
    assert splitter().feed(stream) == [Method(1, "basic.return", (312, "NO_ROUTE", "", "key"))]


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([delivery(1, 1, b"x")[0], delivery(1, 2, b"x")[0]], "rest of a message"),
        ([delivery(1, 1, b"x")[1]], "none should come"),
        ([delivery(1, 1, b"x")[0], frame(BODY, 1, b"x")], "none should come"),
        ([*delivery(1, 1, b"xy")[:2], frame(BODY, 1, b"xyz")], "longer than its header"),
        ([delivery(1, 1, b"x")[0], frame(HEADER, 1, b"short")], "too short"),
        ([delivery(1, 1, b"x")[0], frame(HEADER, 1, CONTENT.pack(60, 0, 1 << 40, 0))], "are the most"),
        ([*delivery(1, 1, bytes(600_000))[:2], *delivery(2, 1, bytes(600_000))[:2]], "are the most"),
        ([frame(HEADER, 1, bytes(FRAME_MAX + 1))], "a frame of type 2"),
    ],
)
def test_what_breaks_the_rules_or_the_limits(frames: list[bytes], why: str) -> None:
    with pytest.raises(AmqpError, match=why):
        splitter().feed(b"".join(frames))


@given(st.integers(0, 30), st.integers(0, 9000), st.booleans())
def test_a_batch_is_the_messages_one_by_one(rows: int, size: int, persistent: bool) -> None:
    publishing = AmqpPublisher(7, "exchange", "key", persistent=persistent, frame_max=FRAME_MAX)
    bodies = np.random.default_rng(size).integers(0, 256, (rows, size), dtype=np.uint8)
    alone = [publishing.message(row.tobytes()) for row in bodies]
    assert publishing.batch(bodies) == b"".join(alone)
    assert {len(one) for one in alone} <= {publishing.row_size(size)}


def test_a_published_message_is_three_frames() -> None:
    written_out = AmqpPublisher(7, "", "key", persistent=True, frame_max=FRAME_MAX).message(b"body")
    assert written_out == (
        method(7, "basic.publish", 0, "", "key", False, False)
        + frame(HEADER, 7, CONTENT.pack(60, 0, 4, 1 << 12) + b"\x02") + frame(BODY, 7, b"body")
    )  # fmt: skip


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30), st.booleans())
def test_a_request_says_where_its_reply_goes(correlation_id: str, reply_to: str, persistent: bool) -> None:
    publishing = AmqpPublisher(7, "", "key", persistent=persistent, frame_max=FRAME_MAX)
    header = publishing.message(b"body", correlation_id, reply_to)[len(publishing.message(b"")) - 22 - persistent :]
    size = int.from_bytes(header[3:7], "big")
    assert reply_properties(header[7 + CONTENT.size - 2 : 7 + size]) == AmqpReplyProperties(correlation_id, reply_to)


def test_all_other_properties_are_passed_over() -> None:
    everything = (
        b"\xff\xfc" + b"\x01a" + b"\x01b" + b"\0\0\0\0" + b"\x02" + b"\x05" + b"\x03cor" + b"\x03rep" + b"\x01e"
        + b"\x01m" + bytes(8) + b"\x01t" + b"\x01u" + b"\x01p" + b"\x01c"
    )  # fmt: skip
    assert reply_properties(everything) == AmqpReplyProperties("cor", "rep")
    assert reply_properties(b"\0\0") == AmqpReplyProperties("", "")
    for properties, why in ((everything[:-30], "ends in the middle"), (b"\0\x01", "unknown properties")):
        with pytest.raises(AmqpError, match=why):
            reply_properties(properties)
