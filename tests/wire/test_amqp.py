"""Methods and tables of AMQP 0-9-1, and the handshake."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.wire.amqp.decoder import AmqpDecoder
from mqlab.wire.amqp.handshake import AmqpHandshake
from mqlab.wire.amqp.methods import METHOD, Method, frame, method, method_payload, read_method
from mqlab.wire.amqp.values import MAX_DEPTH, AmqpError, Value, ValueReader, long, short, table

names = st.text(max_size=40)
values: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | names
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: _depth(value) < MAX_DEPTH)  # fmt: skip
tables = st.dictionaries(names, values, max_size=4)


def _depth(value: object) -> int:
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return 1 + max((_depth(one) for one in inner), default=0)


@given(tables)
def test_a_table_is_read_as_it_was_written(fields: dict[str, Value]) -> None:
    assert ValueReader(table(fields)).table() == fields


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"b\xff", -1), (b"B\xff", 255), (b"s\xff\xff", -1), (b"u\xff\xff", 65535), (b"I\xff\xff\xff\xff", -1),
        (b"i\0\0\0\x05", 5), (b"f\x3f\x80\0\0", 1.0), (b"T\0\0\0\0\0\0\0\x07", 7), (b"D\x02\0\0\0\x05", [2, 5]),
    ],
)  # fmt: skip
def test_values_that_only_a_broker_writes(written: bytes, read: object) -> None:
    assert ValueReader(long(short("n") + written)).table() == {"n": read}


@given(st.tuples(st.integers(0, 2**64 - 1), st.booleans(), names, names, names))
def test_a_method_is_read_as_it_was_written(said: tuple[int, bool, str, str, str]) -> None:
    tag, redelivered, consumer, exchange, key = said
    arguments = (consumer, tag, redelivered, exchange, key)
    assert read_method(3, method_payload("basic.deliver", *arguments)) == Method(3, "basic.deliver", arguments)


@given(st.lists(st.booleans(), min_size=5, max_size=5), tables)
def test_bits_share_a_byte(bits: list[bool], fields: dict[str, Value]) -> None:
    arguments = (0, "queue", *bits, fields)
    payload = method_payload("queue.declare", *arguments)
    assert len(payload) == 4 + 2 + 6 + 1 + len(table(fields))
    assert read_method(1, payload).arguments == arguments


def test_a_method_as_the_specification_writes_it() -> None:
    assert method(1, "basic.ack", 5, True).hex(" ") == "01 00 01 00 00 00 0d 00 3c 00 50 00 00 00 00 00 00 00 05 01 ce"


@given(st.binary(max_size=60))
def test_rubbish_is_one_kind_of_error(rubbish: bytes) -> None:
    for name in ("connection.start", "basic.deliver", "queue.declare-ok", "connection.close"):
        with suppress(AmqpError):
            assert read_method(1, _ids(name) + rubbish).name == name


def _ids(name: str) -> bytes:
    blank = {"connection.start": (0, 9, {}, b"", b""), "basic.deliver": ("", 0, False, "", ""),
             "queue.declare-ok": ("", 0, 0), "connection.close": (0, "", 0, 0)}  # fmt: skip
    return method_payload(name, *blank[name])[:4]


def test_what_cannot_be_read() -> None:
    with pytest.raises(AmqpError, match="unknown method"):
        read_method(1, b"\0\x63\0\x63")
    with pytest.raises(AmqpError, match="ends in the middle"):
        read_method(1, method_payload("basic.ack", 5, True)[:-3])
    with pytest.raises(AmqpError, match="unknown type 'Z'"):
        ValueReader(long(short("n") + b"Z")).table()
    nested: dict[str, Value] = {}
    for _ in range(MAX_DEPTH + 1):
        nested = {"n": nested}
    with pytest.raises(AmqpError, match="deep"):
        ValueReader(table(nested)).table()
    with pytest.raises(AmqpError, match="255 are the most"):
        short("x" * 256)


def _start(mechanisms: bytes) -> Method:
    return Method(0, "connection.start", (0, 9, {}, mechanisms, b"en_US"))


def test_a_connection_is_opened() -> None:
    handshake = AmqpHandshake("me", "secret", "/lab", "Producer0")
    (start_ok,) = AmqpDecoder().feed(handshake.answer(_start(b"AMQPLAIN PLAIN")))
    assert isinstance(start_ok, Method)
    properties, mechanism, login, _ = start_ok.arguments
    assert (mechanism, login, properties["connection_name"]) == ("PLAIN", b"\0me\0secret", "Producer0")
    answers = AmqpDecoder().feed(handshake.answer(Method(0, "connection.tune", (2047, 131072, 60))))
    assert [(said.name, said.arguments) for said in answers if isinstance(said, Method)] == [
        ("connection.tune-ok", (2047, 131072, 0)), ("connection.open", ("/lab", "", False)),
    ]  # fmt: skip
    assert not handshake.done
    assert handshake.answer(Method(0, "connection.open-ok", ("",))) == b""
    assert (handshake.done, handshake.frame_max, handshake.channel_max) == (True, 131072, 2047)


def test_a_broker_that_refuses_is_quoted() -> None:
    handshake = AmqpHandshake("me", "wrong")
    with pytest.raises(AmqpError, match="mechanism PLAIN"):
        handshake.answer(_start(b"EXTERNAL"))
    with pytest.raises(AmqpError, match="ACCESS_REFUSED - Login was refused"):
        handshake.answer(Method(0, "connection.close", (403, "ACCESS_REFUSED - Login was refused", 0, 0)))
    with pytest.raises(AmqpError, match=r"basic\.ack before"):
        handshake.answer(Method(0, "basic.ack", (1, False)))


def test_frames_that_no_client_gets() -> None:
    with pytest.raises(AmqpError, match="type 7"):
        AmqpDecoder().feed(b"\x07\0\0\0\0\0\0\xce")
    with pytest.raises(AmqpError, match="does not end"):
        AmqpDecoder().feed(method(1, "basic.ack", 5, True)[:-1] + b"\0")
    with pytest.raises(AmqpError, match="4,294,967,295 bytes"):
        AmqpDecoder().feed(b"\x01\0\0\xff\xff\xff\xff\0")
    assert AmqpDecoder().feed(b"\x08\0\0\0\0\0\0\xce") == []
    assert frame(METHOD, 1, b"") == b"\x01\0\x01\0\0\0\0\xce"
