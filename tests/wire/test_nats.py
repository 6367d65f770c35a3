import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire import nats
from mqlab.wire.native.payload import Bytes

MOST = 1000
Message = tuple[bytes, bytes, bytes, bytes]

words = st.sampled_from([b"a", b"topic.x", b"_INBOX.1.2", b"$JS.ACK.s.c.1.2"])
messages = st.lists(
    st.tuples(st.sampled_from([b"1", b"20"]), words, st.one_of(st.just(b""), words), st.binary(max_size=30)),
    max_size=12,
)


def array(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def framed(sid: bytes, subject: bytes, reply: bytes, body: bytes) -> bytes:
    where = b"%s %s %s " % (subject, sid, reply) if reply else b"%s %s " % (subject, sid)
    return b"MSG %s%d\r\n%s\r\n" % (where, len(body), body)


def found(split: nats.ParsedNats) -> dict[bytes, list[Message]]:
    return {
        one.sid: [(one.sid, *row) for row in zip(one.subjects, one.replies, one.bodies.tolist(), strict=True)]
        for one in split.delivered
    }


def by_sid(some: list[Message]) -> dict[bytes, list[Message]]:
    return {sid: [one for one in some if one[0] == sid] for sid in {one[0] for one in some}}


@settings(deadline=None)
@given(messages)
def test_messages_come_out_by_subscription_and_in_order(some: list[Message]) -> None:
    data = b"".join(framed(*one) for one in some)
    split = nats.parse(array(data), MOST)
    assert found(split) == by_sid(some)
    assert (split.consumed, split.needed, split.others) == (len(data), 0, [])


@settings(deadline=None)
@given(messages.filter(bool), st.data())
def test_what_is_torn_waits_for_its_rest(some: list[Message], data: st.DataObject) -> None:
    frames = [framed(*one) for one in some]
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    split = nats.parse(array(whole[:cut]), MOST)
    first = nats.parse(array(whole[: split.consumed]), MOST)
    rest = nats.parse(array(whole[split.consumed :]), MOST)
    assert len(whole[split.consumed : cut]) < max(map(len, frames))
    assert split.needed == 0 or cut - split.consumed < split.needed <= max(map(len, frames))
    again = {
        sid: found(first).get(sid, []) + found(rest).get(sid, []) for sid in found(first).keys() | found(rest).keys()
    }
    assert again == by_sid(some)


def test_many_equal_messages_and_one_that_is_not() -> None:
    equal = [(b"1", b"t", b"", b"%012d" % n) for n in range(500)]
    some = [*equal, (b"1", b"t", b"", b"longer than the others"), *equal]
    assert found(nats.parse(array(b"".join(framed(*one) for one in some)), MOST)) == {b"1": some}


def test_bodies_may_look_like_frames() -> None:
    bodies = [b"MSG t 1 2\r\nab\r\n", b"\r\n", b"PING\r\n", bytes(range(256))]
    some = [(b"1", b"t", b"", body) for body in bodies]
    assert [one[3] for one in found(nats.parse(array(b"".join(framed(*one) for one in some)), MOST))[b"1"]] == bodies


@pytest.mark.parametrize("body", [b"", b"hello"])
def test_what_the_server_says_beside_messages(body: bytes) -> None:
    headers = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\n\r\n"
    headed = b"HMSG in 7 re %d %d\r\n%s%s\r\n" % (len(headers), len(headers) + len(body), headers, body)
    data = b"INFO {\"jetstream\":true}\r\nPING\r\nPONG\r\n+OK\r\n-ERR 'Slow Consumer'\r\n" + headed
    *said, message = nats.parse(array(data), MOST).others
    assert said == [
        nats.ControlLine("INFO", '{"jetstream":true}'), nats.ControlLine("PING", ""), nats.ControlLine("PONG", ""),
        nats.ControlLine("+OK", ""), nats.ControlLine("-ERR", "'Slow Consumer'"),
    ]  # fmt: skip
    pending = {"Nats-Pending-Messages": "3"}
    assert message == nats.HeaderMessage(b"7", b"in", b"re", 408, "Request Timeout", pending, body)
    for cut in range(len(data)):
        split = nats.parse(array(data[:cut]), MOST)
        assert split.others == [*said, message][: len(split.others)]
        assert split.needed <= len(headed)


@pytest.mark.parametrize(
    "data",
    [
        b"HELLO\r\n", b"X", b"MSG t 1\r\n", b"MSG t 1 -3\r\n", b"MSG t 1 1001\r\n", b"MSG t 1 2\r\nabc\r\n",
        b"HMSG t 1 5 4\r\n", b"HMSG t 1 12 2000\r\n", b"HMSG t 1 4 4\r\nabcd\r\n", b"HMSG t 1 2 2\r\nabxx",
        b"INFO " + bytes(70_000).replace(b"\0", b"x"), b"MSG " + b"x" * 70_000,
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused(data: bytes) -> None:
    with pytest.raises(nats.MalformedNatsError):
        nats.parse(array(data), MOST)


def test_commands() -> None:
    assert nats.subscribe("a.b", b"7") == b"SUB a.b 7\r\n"
    assert nats.subscribe("a.b", b"7", "all") == b"SUB a.b all 7\r\n"
    assert nats.unsubscribe(b"7") == b"UNSUB 7\r\n"
    assert nats.connect({"verbose": False}) == b'CONNECT {"verbose": false}\r\n'
    assert nats.publish(b"s", b"body") == b"PUB s 4\r\nbody\r\n"
    assert nats.publish(b"s", b"body", b"re") == b"PUB s re 4\r\nbody\r\n"
    assert nats.publish_same([b"x", b"y"], b"+ACK") == b"PUB x 4\r\n+ACK\r\nPUB y 4\r\n+ACK\r\n"
    both = nats.template(b"s", 2, b"re").filled(array(b"abcd").reshape(2, 2))
    assert both == nats.publish(b"s", b"ab", b"re") + nats.publish(b"s", b"cd", b"re")
