import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire import resp
from mqlab.wire.native.payload import Bytes

MOST = 1000

numbers = st.integers(-(2**63), 2**63 - 1)
scalars = st.one_of(numbers, st.binary(max_size=20), st.none(), st.just(resp.ErrorReply("ERR no")))
nested = st.lists(st.one_of(scalars, st.lists(scalars, max_size=3)), max_size=4)
values = st.lists(st.one_of(scalars, nested), max_size=8)


def array(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def said(value: object) -> bytes:
    match value:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(value), value)
        case resp.ErrorReply(words):
            return b"-%s\r\n" % words.encode()
        case list():
            return b"*%d\r\n" % len(value) + b"".join(map(said, value))
    raise AssertionError(value)


def published(channel: bytes, body: bytes) -> bytes:
    return said([b"message", channel, body])


def entry(number: bytes, body: bytes, reply: bytes = b"") -> list[object]:
    return [number, [b"r", reply, b"b", body] if reply else [b"b", body]]


@settings(deadline=None)
@given(values)
def test_replies_come_out_in_order(some: list[resp.Value]) -> None:
    data = b"".join(map(said, some))
    assert resp.parse(array(data), MOST) == resp.ParsedResp([], some, len(data), 0)


@settings(deadline=None)
@given(values, st.data())
def test_what_is_torn_waits_for_its_rest(some: list[object], data: st.DataObject) -> None:
    whole = b"".join(map(said, some))
    cut = data.draw(st.integers(0, len(whole)))
    first = resp.parse(array(whole[:cut]), MOST)
    second = resp.parse(array(whole[first.consumed :]), MOST)
    assert [*first.values, *second.values] == some
    assert first.needed <= len(whole) - first.consumed


@pytest.mark.parametrize("rows", [1, 2, 17, 1000])
def test_many_equal_replies(rows: int) -> None:
    data = b":1\r\n" * rows + b"+QUEUED\r\n" * rows + b":2\r\n"
    values: list[resp.Value] = [*[1] * rows, *[b"QUEUED"] * rows, 2]
    assert resp.parse(array(data + b":1"), MOST) == resp.ParsedResp([], values, len(data), 0)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=30), st.data())
def test_what_was_published(bodies: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(published(b"topic:x", body) for body in bodies)
    cut = data.draw(st.integers(0, len(whole)))
    first = resp.parse(array(whole[:cut]), MOST)
    second = resp.parse(array(whole[first.consumed :]), MOST)
    got = [body for some in (*first.published, *second.published) for body in some.tolist()]
    assert (got, first.values, second.values) == (bodies, [], [])


@pytest.mark.parametrize("wrapped", [True, False])
def test_entries_of_a_stream(wrapped: bool) -> None:
    bodies = [b"a", b"", b"\r\n$1\r\n", bytes(range(200))]
    entries = [entry(b"17-%d" % n, body, b"to me" if n % 2 else b"") for n, body in enumerate(bodies)]
    data = said([[b"queue:q", entries]] if wrapped else entries)
    (found,) = resp.parse(array(data), MOST).values
    assert isinstance(found, resp.StreamEntries)
    assert found.ids == [b"17-0", b"17-1", b"17-2", b"17-3"]
    assert found.replies == [b"", b"to me", b"", b"to me"]
    assert found.bodies.tolist() == bodies
    for cut in range(len(data)):
        assert resp.parse(array(data[:cut]), MOST).values == []


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n", b"x", b":one\r\n", b"$abc\r\n", b"$1001\r\n", b"$2\r\nabc\r\n", b"*1001\r\n",
        b"*1\r\n" * 20 + b":1\r\n", b"+" + b"x" * 70_000,
        b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5000\r\n", b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nabc\r\n",
        b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nz\r\n$1\r\na\r\n",
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused(data: bytes) -> None:
    with pytest.raises(resp.MalformedRespError):
        resp.parse(array(data), MOST)


def test_commands() -> None:
    assert resp.command(b"GET", b"k") == b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
    both = resp.template(b"PUBLISH", b"c", size=2).filled(array(b"abcd").reshape(2, 2))
    assert both == resp.command(b"PUBLISH", b"c", b"ab") + resp.command(b"PUBLISH", b"c", b"cd")
