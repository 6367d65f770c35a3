import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.stomp.batch_encoder import decimals, equal_widths, paste
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompError, StompFrame, encode, encode_head
from mqlab.wire.stomp.runs import FrameRun

_VARYING = frozenset(("message-id", "ack"))


def expanded(found: "list[StompFrame | FrameRun]") -> list[tuple[str, dict[str, str], bytes]]:
    frames = [frame for item in found for frame in (item.frames() if isinstance(item, FrameRun) else [item])]
    return [(frame.command, dict(frame.headers), frame.body) for frame in frames]


def message(number: int, body: bytes = b"\0\n12", **headers: str) -> bytes:
    return (
        encode(StompFrame("MESSAGE", {"message-id": f"ID:{number}", "subscription": "0", **headers}, body), "1.2")
        + b"\n"
    )


def split(data: bytes, version: str = "1.2") -> "list[StompFrame | FrameRun]":
    return list(StompFrameDecoder(Limits(), version, _VARYING).feed_runs(data))


def test_a_batch_is_what_frames_alone_would_be() -> None:
    bodies = np.arange(40, dtype=np.uint8).reshape(10, 4)
    head = encode_head("SEND", {"destination": "/queue/a:b"}, "1.2")
    batch = paste(len(bodies), (head, b"content-length:4\n\n", bodies, b"\0"))
    assert batch == b"".join(
        encode(StompFrame("SEND", {"destination": "/queue/a:b"}, bytes(row)), "1.2") for row in bodies
    )


@settings(deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=30))
def test_numbers_are_written_as_text(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    written = [paste(end - begin, (decimals(array[begin:end]), b" ")) for begin, end in equal_widths(array)]
    assert b"".join(written) == b"".join(b"%d " % value for value in values)


def test_widths_of_several_columns_break_together() -> None:
    stretches = equal_widths(np.array([8, 9, 10, 11]), np.array([1, 1, 1, 100]))
    assert list(stretches) == [(0, 2), (2, 3), (3, 4)]


def test_equal_frames_become_one_run() -> None:
    [run] = split(b"".join(message(number) for number in range(100, 200)))
    assert isinstance(run, FrameRun)
    assert run.rows == 100
    assert run.values("message-id") == [f"ID:{number}" for number in range(100, 200)]
    assert run.values("subscription") == ["0"] * 100
    assert run.written("message-id")[-1].tobytes() == b"ID\\c199"
    assert run.bodies().tobytes() == b"\0\n12" * 100


def test_a_run_ends_where_frames_get_longer_and_another_begins() -> None:
    found = split(b"".join(message(number) for number in range(80, 120)))
    assert [item.rows for item in found if isinstance(item, FrameRun)] == [20, 20]
    assert [headers["message-id"] for _, headers, _ in expanded(found)] == [f"ID:{number}" for number in range(80, 120)]


@pytest.mark.parametrize("odd", [
    message(150, b"other"),
    message(150, subscription="1"),
    message(150, more="x"),
    message(150).replace(b"message-id", b"message-xd"),
    message(150).replace(b"ID\\c150", b"ID\\n150"),
    message(150).replace(b"ID\\c150", b"I\\c\\c50"),
    message(150).replace(b"150", "1é".encode()),
    message(150).replace(b"MESSAGE", b"RECEIPT").replace(b"content-length:4\n\n\0\n12", b"content-length:0\n\n"),
    b"\n" + message(150),
])  # fmt: skip
def test_an_odd_frame_is_read_as_if_it_were_alone(odd: bytes) -> None:
    data = b"".join([message(number) for number in range(100, 150)] + [odd] + [message(n) for n in range(151, 200)])
    found = split(data)
    assert any(isinstance(item, FrameRun) for item in found)
    alone = [(f.command, dict(f.headers), f.body) for f in StompFrameDecoder(Limits(), "1.2").feed(data)]
    assert expanded(found) == alone
    assert len(alone) == 100


@pytest.mark.parametrize("bad", [b"1\\t0", b"15\xff", b"1\\"])
def test_a_bad_value_in_the_midst_of_equal_frames_is_found(bad: bytes) -> None:
    data = b"".join([message(n) for n in range(1000, 1050)] + [message(1050).replace(b"1050", bad.ljust(4, b"x"))])
    with pytest.raises(StompError):
        split(data + b"".join(message(n) for n in range(1051, 1100)))


def test_a_body_that_lies_about_its_length_is_found() -> None:
    data = message(1).replace(b"content-length:4", b"content-length:3") * 20
    with pytest.raises(StompError, match="no NUL"):
        split(data)


@pytest.mark.parametrize("frames", [
    b"".join(message(number, b"x" * (number % 5)) for number in range(200)),
    b"SEND\nfoo:1\n\nabc\0" * 50,
    b"SEND\nfoo:1\nfoo:2\ncontent-length:1\n\na\0" * 50,
    b"SEND\r\nfoo:1\r\ncontent-length:1\r\n\r\na\0" * 50,
    b"ACK\ncontent-length:0\nack:1\n\n\0" * 50,
    b"ACK\nid:1\n\n\0" * 50,
    b"SEND\nmessage-id:\ncontent-length:0\n\n\0" * 50,
])  # fmt: skip
def test_runs_or_not_the_frames_are_the_same(frames: bytes) -> None:
    alone = [(f.command, dict(f.headers), f.body) for f in StompFrameDecoder(Limits(), "1.2").feed(frames)]
    assert expanded(split(frames)) == alone
    splitter = StompFrameDecoder(Limits(), "1.2", _VARYING)
    torn = [item for at in range(0, len(frames), 333) for item in splitter.feed_runs(frames[at : at + 333])]
    assert expanded(torn) == alone


def test_1_0_has_no_runs_since_blanks_around_values_are_not_meant() -> None:
    found = split(b"SEND\nmessage-id: 1\ncontent-length:0\n\n\0" * 20, "1.0")
    assert [isinstance(item, StompFrame) and item.headers["message-id"] for item in found] == ["1"] * 20


def test_a_repeated_header_ends_no_run() -> None:
    [run] = split(b"MESSAGE\nfoo:1\nack:7\nfoo:2\ncontent-length:1\nack:8\n\na\0" * 50)
    assert isinstance(run, FrameRun)
    assert run.headers == {"foo": "1", "ack": "7", "content-length": "1"}
    assert run.values("ack") == ["7"] * 50


def test_frames_without_bodies_become_runs_too() -> None:
    [run] = split(b"".join(b"ACK\nack:%d\n\n\0" % number for number in range(100, 120)))
    assert isinstance(run, FrameRun)
    assert run.values("ack") == [str(number) for number in range(100, 120)]


@settings(deadline=None)
@given(st.data())
def test_any_stream_is_read_alike(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.sampled_from((1, 22, 23, 333)), max_size=40))
    body = data.draw(st.binary(max_size=4))
    stream = b"".join(message(number, body) * 3 for number in numbers)
    cut = data.draw(st.integers(0, len(stream)))
    splitter = StompFrameDecoder(Limits(), "1.2", _VARYING)
    found = [*splitter.feed_runs(stream[:cut]), *splitter.feed_runs(stream[cut:])]
    assert expanded(found) == [
        (f.command, dict(f.headers), f.body) for f in StompFrameDecoder(Limits(), "1.2").feed(stream)
    ]


def test_a_body_of_line_ends_is_ignored_and_any_other_is_refused() -> None:
    """Of commands that have no body: also where many of them follow one another."""
    splitter = StompFrameDecoder(Limits(), "1.2", varying=frozenset(("id",)))
    written = b"".join(b"ACK\nid:%03d\n\n\n\0" % number for number in range(200))
    found = expanded(list(splitter.feed_runs(written)))
    assert found == [("ACK", {"id": f"{number:03d}"}, b"") for number in range(200)]
    with pytest.raises(StompError, match="ACK cannot have a body"):
        list(splitter.feed_runs(written + b"ACK\nid:200\n\nx\0" + written))
