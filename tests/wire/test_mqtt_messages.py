"""Messages of MQTT: encoded and decoded by the thousand, equal or not, split anywhere."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.mqtt.decoder import Incoming, MqttDecoder, MqttReplyProperties, PublishBatch, reply_properties
from mqlab.wire.mqtt.messages import MqttPublisher, acknowledgements
from mqlab.wire.mqtt.packets import Version


class Row(NamedTuple):
    body: bytes
    packet_id: int
    redelivered: bool


versions = st.sampled_from([4, 5])
message = st.tuples(st.sampled_from(["a", "topic/b"]), st.integers(0, 1), st.booleans(),
                    st.binary(max_size=3) | st.just(b"same size!") | st.just(bytes(3000)))  # fmt: skip


def one_by_one(found: list[Incoming]) -> list[Row]:
    rows = []
    for piece in found:
        assert isinstance(piece, PublishBatch)
        size = len(piece.data) // piece.rows
        assert len(piece.ids) in (0, 2 * piece.rows)
        for row in range(piece.rows):
            number = int.from_bytes(piece.ids[2 * row : 2 * row + 2], "big")
            rows.append(Row(piece.data[row * size : (row + 1) * size], number, piece.redelivered))
    return rows


@settings(deadline=None)
@given(versions, st.lists(st.tuples(message, st.integers(1, 30)), max_size=6), st.data())
def test_any_messages_come_out_however_they_are_torn(
    version: Version, repeated: list[tuple[tuple[str, int, bool, bytes], int]], data: st.DataObject
) -> None:
    stream = b""
    expected: list[Row] = []
    for (topic, qos, again, body), times in repeated:
        for _ in range(times):
            number = len(expected) * 251 + 1 if qos else 0
            packet = bytearray(MqttPublisher(version, topic, qos=qos).message(body, number))
            packet[0] |= again << 3
            stream += packet
            expected.append(Row(body, number, again))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reading = MqttDecoder(version)
    found: list[Incoming] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reading.feed(stream[begin:end])
    assert one_by_one(found) == expected


@pytest.mark.parametrize("version", [4, 5])
def test_torn_at_every_byte(version: Version) -> None:
    publishing = MqttPublisher(version, "topic", qos=1)
    stream = b"".join(publishing.message(b"body%d" % number, number) for number in range(1, 4)) + publishing.message(
        b"", 9
    )
    expected = [Row(b"body%d" % number, number, False) for number in range(1, 4)] + [Row(b"", 9, False)]
    for cut in range(len(stream) + 1):
        reading = MqttDecoder(version)
        assert one_by_one([*reading.feed(stream[:cut]), *reading.feed(stream[cut:])]) == expected
    reading = MqttDecoder(version)
    assert one_by_one([piece for at in range(len(stream)) for piece in reading.feed(stream[at : at + 1])]) == expected


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("version", [4, 5])
def test_thousands_that_are_alike_are_a_few_pieces(version: Version, qos: int) -> None:
    bodies = np.arange(5000 * 12, dtype=np.uint32).astype(np.uint8).reshape(5000, 12)
    ids = np.arange(1, 5001, dtype=np.uint16)
    found = MqttDecoder(version).feed(MqttPublisher(version, "topic", qos=qos).batch(bodies, ids if qos else None))
    assert len(found) <= 6
    rows = one_by_one(found)
    assert [row.body for row in rows] == [row.tobytes() for row in bodies]
    assert [row.packet_id for row in rows] == (ids.tolist() if qos else [0] * 5000)


@given(versions, st.integers(0, 1), st.integers(0, 30), st.integers(0, 9000))
def test_a_batch_is_the_messages_one_by_one(version: Version, qos: int, rows: int, size: int) -> None:
    publishing = MqttPublisher(version, "topic/é", qos=qos)
    bodies = np.random.default_rng(size).integers(0, 256, (rows, size), dtype=np.uint8)
    ids = np.arange(65_500, 65_500 + rows, dtype=np.uint16)
    alone = [publishing.message(row.tobytes(), int(number)) for row, number in zip(bodies, ids, strict=True)]
    assert publishing.batch(bodies, ids) == b"".join(alone)
    assert {len(one) for one in alone} <= {publishing.row_size(size)}


def test_a_message_as_the_specification_writes_it() -> None:
    assert MqttPublisher(4, "a/b", qos=0).message(b"xy") == bytes.fromhex("30 07 0003 612f62 7879")
    assert MqttPublisher(4, "a/b", qos=1).message(b"xy", 10) == bytes.fromhex("32 09 0003 612f62 000a 7879")
    assert MqttPublisher(5, "a/b", qos=1).message(b"xy", 10) == bytes.fromhex("32 0a 0003 612f62 000a 00 7879")


@given(st.binary(min_size=1, max_size=40), st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_a_request_says_where_its_reply_goes(correlation: bytes, response_topic: str) -> None:
    packet = MqttPublisher(5, "topic", qos=0).message(b"body", 0, correlation, response_topic)
    (found,) = MqttDecoder(5).feed(packet)
    assert isinstance(found, PublishBatch)
    assert (found.data, reply_properties(found.properties)) == (
        b"body",
        MqttReplyProperties(correlation, response_topic),
    )


def test_requests_that_differ_in_their_properties_are_not_one_piece() -> None:
    publishing = MqttPublisher(5, "topic", qos=0)
    found = MqttDecoder(5).feed(b"".join(publishing.message(b"body", 0, b"%02d" % number, "r") for number in range(50)))
    assert [reply_properties(one.properties).correlation for one in found if isinstance(one, PublishBatch)] == [
        b"%02d" % number for number in range(50)
    ]


def test_a_long_message_is_not_looked_at_before_it_is_whole() -> None:
    packet = MqttPublisher(5, "topic", qos=0).message(bytes(300_000))
    reading = MqttDecoder(5)
    for begin in range(0, 300_000, 1000):
        assert reading.feed(packet[begin : begin + 1000]) == []
    found = reading.feed(packet[300_000:])
    assert [row.body for row in one_by_one(found)] == [bytes(300_000)]


def test_acknowledgements() -> None:
    assert acknowledgements(b"\0\5") == b"\x40\2\0\5"
    assert acknowledgements(b"\0\5\0\6\1\0") == b"\x40\2\0\5\x40\2\0\6\x40\2\1\0"
