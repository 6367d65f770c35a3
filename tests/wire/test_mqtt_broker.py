"""The codec of a broker: packets of clients, and what it sends to them."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.wire.mqtt.from_broker import acknowledgements, publish, publish_table
from mqlab.wire.mqtt.from_client import (
    AcknowledgementRun,
    ClientPacket,
    ClientPacketDecoder,
    ConnectPacket,
    PublishRun,
)
from mqlab.wire.mqtt.packets import Connect, MqttError, subscribe, text, unsubscribe
from mqlab.wire.mqtt.properties import IN_PUBLISH, Property, decode_properties, encode_fields
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        int(Property.PAYLOAD_FORMAT): st.integers(0, 1),
        int(Property.MESSAGE_EXPIRY): st.integers(0, 2**32 - 1),
        int(Property.CONTENT_TYPE): TEXTS,
        int(Property.RESPONSE_TOPIC): TEXTS,
        int(Property.CORRELATION_DATA): st.binary(max_size=20),
        int(Property.TOPIC_ALIAS): st.integers(0, 2**16 - 1),
        int(Property.USER_PROPERTY): st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5),
    },
)
BODIES = st.lists(st.binary(max_size=5), max_size=30)


@given(MESSAGES)
def test_properties_are_read_as_they_were_written(values: dict[int, object]) -> None:
    assert decode_properties(encode_fields(values), IN_PUBLISH) == values


def _messages(decoded: list[ClientPacket]) -> list[tuple[bytes, int, bytes]]:
    messages = []
    for run in decoded:
        if isinstance(run, PublishRun):
            size = len(run.bodies) // run.rows
            bodies = [run.bodies[at * size : (at + 1) * size] for at in range(run.rows)]
            messages += [(run.topic, *pair) for pair in zip(run.ids or [0] * run.rows, bodies, strict=True)]
    return messages


@given(BODIES, st.integers(0, 2), st.lists(st.integers(1, 40), max_size=5), st.sampled_from((4, 5)))
def test_messages_cut_anywhere_are_the_same(bodies: list[bytes], qos: int, cuts: list[int], version: int) -> None:
    ids = [number + 1 if qos else 0 for number in range(len(bodies))]
    none = b"\0" if version == 5 else b""
    data = Connect("c", 5 if version == 5 else 4).packet() + b"".join(
        publish(0x30 | qos << 1, text("t"), number, none, body) for number, body in zip(ids, bodies, strict=True)
    )
    decoder, decoded = ClientPacketDecoder(1000), []
    for size in cuts:
        decoded += [*decoder.feed(data[:size])]
        data = data[size:]
    decoded += [*decoder.feed(data)]
    assert isinstance(decoded[0], ConnectPacket)
    assert _messages(decoded) == [(b"t", *pair) for pair in zip(ids, bodies, strict=True)]
    assert not decoder.unfinished


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_packets_or_an_error_of_the_protocol(data: bytes, connected: bool) -> None:
    decoder = ClientPacketDecoder(100)
    start = Connect("c").packet() if connected else b""
    with suppress(MqttError):
        assert all(decoder.feed(start + data))


@given(st.integers(1, 30), st.integers(0, 5), st.booleans())
def test_a_table_of_messages_is_the_same_as_each_alone(rows: int, size: int, has_ids: bool) -> None:
    bodies = np.arange(rows * size, dtype=np.uint8).reshape(rows, size)
    ids = [*range(1, rows + 1)] if has_ids else []
    each = [publish(0x32, text("topic"), number, b"\0", bytes(body)) for number, body in zip(ids, bodies, strict=False)]
    table = publish_table(0x32, text("topic"), ids, b"\0", bodies)
    assert table == b"".join(each) if has_ids else len(table) == rows * (10 + size)


@given(st.lists(st.integers(1, 65535), min_size=1, max_size=50))
def test_acknowledgements_are_read_as_they_were_written(ids: list[int]) -> None:
    decoder = ClientPacketDecoder(100)
    decoded = [*decoder.feed(Connect("c").packet() + acknowledgements(6, ids))][1:]
    assert [number for run in decoded if isinstance(run, AcknowledgementRun) for number in run.ids] == ids


def test_a_packet_that_is_too_long_is_refused_by_its_head() -> None:
    decoder = ClientPacketDecoder(100)
    assert len([*decoder.feed(Connect("c").packet() + subscribe(5, 1, "t", 1) + unsubscribe(5, 2, "t"))]) == 3
    assert [*decoder.feed(b"\x30\x64")] == []
    with pytest.raises(MqttViolationError) as caught:
        [*ClientPacketDecoder(100).feed(b"\x10\x65")]
    assert caught.value.reason is Reason.PACKET_TOO_LARGE
