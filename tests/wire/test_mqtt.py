"""Packets of MQTT 3.1.1 and 5 other than messages."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.wire.mqtt.decoder import MqttDecoder, Packet, PubackBatch
from mqlab.wire.mqtt.packets import (
    CONNACK,
    PINGRESP,
    SUBACK,
    Connect,
    MqttError,
    Version,
    disconnect,
    properties,
    read_properties,
    read_varint,
    refusal,
    subscribe,
    text,
    unsubscribe,
    varint,
)


@given(st.integers(0, 2**28 - 1))
def test_lengths(number: int) -> None:
    written = varint(number)
    assert read_varint(b"." + written, 1) == (number, 1 + len(written))
    assert read_varint(written[:-1], 0) == (-1, 0)


def test_lengths_have_four_bytes_at_most() -> None:
    with pytest.raises(MqttError, match="longer than MQTT allows"):
        varint(2**28)
    with pytest.raises(MqttError, match="four bytes"):
        read_varint(b"\xff\xff\xff\xff\x01", 0)
    with pytest.raises(MqttError, match="65,535"):
        text("x" * 65_536)


@pytest.mark.parametrize(
    ("connect", "written"),
    [
        (Connect("me", 4), "10 0e 0004 4d515454 04 02 0000 0002 6d65"),
        (Connect("me", 4, keep_session=True, clean_start=False), "10 0e 0004 4d515454 04 00 0000 0002 6d65"),
        (Connect("me", 4, "u", "p"), "10 14 0004 4d515454 04 c2 0000 0002 6d65 0001 75 0001 70"),
        (
            Connect("me", 5, receive_maximum=10),
            "10 17 0004 4d515454 05 02 0000 08 11 00000000 21 000a 0002 6d65",
        ),
        (
            Connect("me", 5, keep_session=True, clean_start=False),
            "10 17 0004 4d515454 05 00 0000 08 11 ffffffff 21 ffff 0002 6d65",
        ),
    ],
)
def test_how_a_session_begins(connect: Connect, written: str) -> None:
    assert connect.packet() == bytes.fromhex(written)


def test_subscriptions() -> None:
    assert subscribe(4, 7, "a/b", 1) == bytes.fromhex("82 08 0007 0003 612f62 01")
    assert subscribe(5, 7, "a/b", 1) == bytes.fromhex("82 09 0007 00 0003 612f62 01")
    assert unsubscribe(4, 7, "a/b") == bytes.fromhex("a2 07 0007 0003 612f62")
    assert unsubscribe(5, 7, "a/b") == bytes.fromhex("a2 08 0007 00 0003 612f62")
    assert disconnect() == b"\xe0\0"


def test_properties_of_every_kind() -> None:
    written = properties(
        (0x01, b"\1"), (0x21, b"\0\5"), (0x11, b"\0\0\0\1"), (0x0B, b"\x80\1"), (0x26, text("name") + text("value")),
        (0x09, b"\0\2\0\1"), (0x08, text("topic")),
    )  # fmt: skip
    size, at = read_varint(written, 0)
    assert at + size == len(written)
    assert read_properties(written[at:]) == {
        0x01: b"\1", 0x21: b"\0\5", 0x11: b"\0\0\0\1", 0x0B: b"\x80\1", 0x26: text("name") + text("value"),
        0x09: b"\0\1", 0x08: b"topic",
    }  # fmt: skip


@given(st.binary(max_size=40))
def test_properties_that_are_rubbish_are_one_kind_of_error(rubbish: bytes) -> None:
    with suppress(MqttError):
        assert sum(len(value) for value in read_properties(rubbish).values()) < max(1, len(rubbish))


@pytest.mark.parametrize(
    ("rubbish", "why"),
    [
        (b"\0", "unknown property"),
        (b"\x21\0", "incomplete"),
        (b"\x08\0\5ab", "incomplete"),
        (b"\x0b\x80", "incomplete"),
    ],
)
def test_properties_that_cannot_be_read(rubbish: bytes, why: str) -> None:
    with pytest.raises(MqttError, match=why):
        read_properties(rubbish)


@pytest.mark.parametrize(
    ("version", "code", "found", "words"),
    [(4, 5, {}, "not authorised"), (5, 0x87, {}, "reason 0x87"), (5, 0x87, {0x1F: b"go away"}, "go away")],
)
def test_why_a_session_is_refused(version: Version, code: int, found: dict[int, bytes], words: str) -> None:
    assert refusal(version, code, found) == words


def test_packets_torn_at_every_byte() -> None:
    stream = b"\x20\2\0\0" + b"\x40\2\0\1" * 3 + b"\x90\4\0\7\0\1" + b"\x40\3\0\4\x10" + b"\xd0\0" + b"\x40\2\0\5"
    for cut in range(len(stream) + 1):
        reading = MqttDecoder(5)
        found = [*reading.feed(stream[:cut]), *reading.feed(stream[cut:])]
        packets = [one for one in found if isinstance(one, Packet)]
        acknowledged = [one for one in found if isinstance(one, PubackBatch)]
        assert packets == [Packet(CONNACK, b"\0\0"), Packet(SUBACK, b"\0\7\0\1"), Packet(PINGRESP, b"")]
        assert sum(one.rows for one in acknowledged) == 5
        assert [one.reason for one in acknowledged if one.reason] == [0x10]


def test_thousands_of_acknowledgements_are_one() -> None:
    stream = b"".join(b"\x40\2" + number.to_bytes(2, "big") for number in range(1, 5001))
    assert MqttDecoder(5).feed(stream + b"\xd0\0") == [PubackBatch(5000, 0), Packet(PINGRESP, b"")]


@pytest.mark.parametrize(
    ("rubbish", "why"),
    [
        (b"\x10\0", "type 1"), (b"\x50\2\0\1", "type 5"), (b"\x40\1\0", "without an id"),
        (b"\x30\xff\xff\xff\xff\1", "four bytes"), (b"\x30\xff\xff\xff\x7f", "are the most"),
        (b"\x34\7\0\1a\0\1\0x", "QoS 2"), (b"\x30\2\0\5", "before its body"), (b"\x32\3\0\1a", "before its body"),
        (b"\x30\4\0\1a\5", "before its body"), (b"\x30\3\0\1a", "before its body"), (b"\x30\0", "before its body"),
    ],
)  # fmt: skip
def test_what_breaks_the_rules_or_the_limits(rubbish: bytes, why: str) -> None:
    with pytest.raises(MqttError, match=why):
        MqttDecoder(5, max_packet=1 << 20).feed(rubbish)
