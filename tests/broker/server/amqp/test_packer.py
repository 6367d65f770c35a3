"""Messages with the same header and properties are read once, with the same result."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.server.amqp.messages import packer
from mqlab.broker.server.amqp.messages.packer import MessagePacker
from mqlab.broker.server.amqp.messages.packing import MessageRow, pack_message
from mqlab.wire.amqp10.encoder import encode, encode_described
from mqlab.wire.amqp10.sections import APPLICATION_PROPERTIES, DATA, FOOTER, HEADER, PROPERTIES, VALUE, section_head
from mqlab.wire.amqp10.types import AmqpDecodeError, UByte, UInt

NOW = 1_700_000_000_000


def data_section(body: bytes) -> bytes:
    return section_head(DATA, len(body)) + body


def map_section(code: int, text: str | bytes) -> bytes:
    return bytes((0, 0x53, code)) + encode({"colour": text})


DURABLE = encode_described(HEADER, [True, UByte(7)])
EXPIRING = encode_described(HEADER, [True, None, UInt(1000)])
NAMED = encode_described(PROPERTIES, ["id", None, "queue"])
# A property and a footer that end as the head of a data section does.
FORGED = map_section(APPLICATION_PROPERTIES, data_section(b"12"))
PREFIXES = st.sampled_from([
    b"", DURABLE, EXPIRING, NAMED, DURABLE + NAMED, FORGED, map_section(APPLICATION_PROPERTIES, "red"),
])  # fmt: skip
BODIES = st.one_of(
    st.sampled_from([b"", b"12", bytes(255), bytes(256), data_section(b"12")]).map(data_section),
    st.text(max_size=9).map(lambda text: section_head(VALUE, len(text.encode())) + text.encode()),
    st.sampled_from([data_section(b"1") + data_section(b"2"), b"", b"\0\x53\x75\xa0\x05x", b"\0\x53\x75\xb0\0\0\0\1x"]),
)
FOOTERS = st.sampled_from([b"", b"", b"", map_section(FOOTER, data_section(b"12"))])


def outcome(pack: object, data: bytes) -> MessageRow | str:
    try:
        return pack(data, NOW)  # type: ignore[operator, no-any-return]
    except AmqpDecodeError:
        return "error"


@given(st.lists(st.tuples(PREFIXES, BODIES, FOOTERS).map(b"".join), max_size=12))
@settings(max_examples=300, deadline=None)
def test_it_packs_each_message_as_if_it_were_alone(messages: list[bytes]) -> None:
    packer = MessagePacker()
    for message in messages:
        for _ in range(3):
            assert outcome(packer.pack, message) == outcome(pack_message, message)


@pytest.mark.parametrize(("prefix", "reads"), [(b"", 2), (DURABLE + NAMED, 2), (EXPIRING, 5)])
def test_a_prefix_is_read_until_it_has_come_twice(prefix: bytes, reads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def pack_and_note(data: bytes, now_ms: int) -> MessageRow:
        read.append(data)
        return pack_message(data, now_ms)

    monkeypatch.setattr(packer, "pack_message", pack_and_note)
    own = MessagePacker()
    for number in range(5):
        assert own.pack(prefix + data_section(b"%d" % number), NOW).body == b"%d" % number
    assert len(read) == reads


def test_an_expiring_message_expires_by_the_time_when_it_came() -> None:
    own, data = MessagePacker(), EXPIRING + data_section(b"x")
    rows = [own.pack(data, NOW + number) for number in range(4)]
    assert [row.values[row.names.index("expiration")] for row in rows] == [NOW + 1000 + number for number in range(4)]
