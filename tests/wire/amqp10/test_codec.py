"""The codec of AMQP 1.0: values survive a round trip, and bytes of any kind give a value or one error."""

import struct
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.amqp10 import sections
from mqlab.wire.amqp10.decoder import decode, decode_all, skip
from mqlab.wire.amqp10.encoder import encode, encode_symbols
from mqlab.wire.amqp10.frames import AmqpFrame, AmqpFrameDecoder, AmqpFramingError, frame
from mqlab.wire.amqp10.performatives import (
    Accepted,
    Attach,
    Disposition,
    Flow,
    Modified,
    Open,
    Rejected,
    Released,
    Source,
    Transfer,
    composite,
    encode_performative,
    parse,
    parse_as,
    read_performative,
    symbols,
)
from mqlab.wire.amqp10.sections import split_sections
from mqlab.wire.amqp10.types import AmqpDecodeError, AmqpValue, Described, Symbol, Timestamp, UByte, UInt, ULong, UShort
from mqlab.wire.amqp10.usual_frames import read_usual_disposition, read_usual_transfer

ASCII = st.text(st.characters(max_codepoint=127), max_size=300)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=300),
    st.binary(max_size=300), st.uuids(), ASCII.map(Symbol), st.integers(0, 255).map(UByte),
    st.integers(0, 65535).map(UShort), st.integers(0, 2**32 - 1).map(UInt), st.integers(0, 2**64 - 1).map(ULong),
    st.integers(0, 2**62).map(Timestamp),
)  # fmt: skip
KEYS = st.one_of(st.text(max_size=20), st.integers(0, 1000).map(ULong))
VALUES: st.SearchStrategy[AmqpValue] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(KEYS, inner, max_size=4),
        st.builds(Described, st.integers(0, 255), inner),
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_value_survives_a_round_trip(value: AmqpValue) -> None:
    data = encode(value)
    decoded, end = decode(data)
    assert decoded == value
    assert end == len(data) == skip(data, 0)


@given(st.binary(max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_values_or_one_error(data: bytes) -> None:
    for read in (decode_all, split_sections, read_performative):
        try:
            read(data)
        except AmqpDecodeError:
            continue


@given(VALUES, st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_value_gives_a_value_or_one_error(value: AmqpValue, data: st.DataObject) -> None:
    damaged = bytearray(encode(value))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(damaged))
    except AmqpDecodeError:
        return


@pytest.mark.parametrize(
    "data",
    [
        # A list of four thousand million elements in nine bytes; an array of as many nulls; lists in each other.
        b"\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        b"\xc0\xff\x01" * 200,
        b"\0" * 4000,
        # A map with a key and no value, a boolean of 2, a text that is not UTF-8, an unknown constructor.
        b"\xc1\x02\x01\x40",
        b"\x56\x02",
        b"\xa1\x01\xff",
        b"\x01",
        b"",
    ],
)
def test_malformed_value_is_refused(data: bytes) -> None:
    with pytest.raises(AmqpDecodeError):
        decode(data)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x52\x07", 7), (b"\x43", 0), (b"\x44", 0), (b"\x70\0\0\x01\0", 256), (b"\x80" + b"\xff" * 8, 2**64 - 1),
        (b"\x51\xff", -1), (b"\x54\xfe", -2), (b"\x71\xff\xff\xff\xfe", -2), (b"\x55\x80", -128),
        (b"\x72" + struct.pack(">f", 0.5), 0.5), (b"\x73\0\0\0\x41", "A"), (b"\x74abcd", b"abcd"),
        (b"\x45", []), (b"\xe0\x06\x02\xa3\x01a\x01b", ["a", "b"]), (b"\x56\x01", True),
        (b"\x98" + bytes(range(16)), UUID(bytes=bytes(range(16)))),
    ],
)  # fmt: skip
def test_every_encoding_of_the_specification_is_read(data: bytes, value: object) -> None:
    assert decode(data) == (value, len(data))


@pytest.mark.parametrize(
    "performative",
    [
        Open("c", "h", 512, 7, 1000), Flow(None, 1, 2, 3, 4, 5, 6, 7, True, False),
        Transfer(1, 2, b"tag", 0, True, False),
        Disposition(True, 1, 9, True),
    ],
)  # fmt: skip
def test_performative_survives_a_round_trip(performative: tuple[object, ...]) -> None:
    assert read_performative(encode_performative(performative) + b"rest") == (performative, b"rest")


def test_composite_values_in_a_performative_survive() -> None:
    source = Source("a", 2, Symbol("never"), capabilities=encode_symbols(["queue", "shared"]))
    attach, _ = read_performative(encode_performative(Attach("n", 0, True, source=composite(source))))
    read = parse_as(Source, attach.source)
    assert read is not None
    assert (read.address, read.durable, symbols(read.capabilities)) == ("a", 2, ["queue", "shared"])
    assert parse_as(Accepted, None) is None
    with pytest.raises(AmqpDecodeError):
        parse_as(Accepted, attach.source)


@pytest.mark.parametrize(
    "fields",
    [[], [7], ["c", "h", True], ["c", "h", -1], ["c", "h", ULong(2**40)], ["c", "h", "512"], ["c"] + [None] * 20],
)
def test_performative_with_a_wrong_field_is_refused(fields: list[AmqpValue]) -> None:
    with pytest.raises(AmqpDecodeError):
        read_performative(encode(Described(0x10, fields)))


@given(st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=40)), max_size=8), st.data())
@settings(max_examples=60, deadline=None)
def test_frames_are_found_wherever_the_bytes_are_cut(frames: list[tuple[int, bytes]], data: st.DataObject) -> None:
    written = b"".join(frame(channel, body) for channel, body in frames)
    decoder, found, at = AmqpFrameDecoder(512), list[AmqpFrame](), 0
    while at < len(written):
        size = data.draw(st.integers(1, 30))
        decoder.feed(written[at : at + size])
        found += decoder.take_frames()
        at += size
    assert [(channel, body) for _, channel, body in found] == frames
    assert decoder.unfinished == 0


@pytest.mark.parametrize("head", [b"\xff\xff\xff\xff\x02\0\0\0", b"\0\0\0\x08\x01\0\0\0", b"\0\0\0\x08\x03\0\0\0"])
def test_frame_that_cannot_be_is_refused_after_earlier_frames(head: bytes) -> None:
    decoder = AmqpFrameDecoder(512)
    decoder.feed(frame(3, b"x") + head)
    assert decoder.take_frames() == [AmqpFrame(0, 3, b"x")]
    with pytest.raises(AmqpFramingError):
        decoder.take_frames()


def section(code: int, value: AmqpValue) -> bytes:
    return bytes((0, 0x53, code)) + encode(value)


def test_sections_are_split_in_order() -> None:
    data = section(sections.HEADER, [True]) + section(sections.DATA, b"a") + section(sections.DATA, b"b")
    assert [part.code for part in split_sections(data)] == [sections.HEADER, sections.DATA, sections.DATA]
    named = b"\0" + encode(Symbol("amqp:data:binary")) + encode(b"x")
    assert [part.code for part in split_sections(named)] == [sections.DATA]


@pytest.mark.parametrize(
    "data",
    [
        section(sections.DATA, b"a") + section(sections.HEADER, [True]),
        section(sections.VALUE, 1) + section(sections.VALUE, 2),
        section(sections.DATA, b"a") + section(sections.VALUE, 2),
        section(0x10, []),
        b"\xa0\x01x",
        b"\0\x53",
    ],
)
def test_sections_in_a_wrong_order_are_refused(data: bytes) -> None:
    with pytest.raises(AmqpDecodeError):
        split_sections(data)


FLAGS = st.sampled_from([None, True, False])
TRANSFERS = st.builds(
    Transfer, st.integers(0, 2**32 - 1), st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    st.one_of(st.none(), st.binary(max_size=40)), st.sampled_from([None, 0, 7, 2**32 - 1]), FLAGS, FLAGS,
    st.sampled_from([None, 0, 1]), st.sampled_from([None, composite(Accepted())]), FLAGS, FLAGS, FLAGS,
)  # fmt: skip


DISPOSITIONS = st.builds(
    Disposition, st.booleans(), st.integers(0, 2**32 - 1), st.one_of(st.none(), st.integers(0, 2**32 - 1)), FLAGS,
    st.sampled_from([None, *map(composite, (Accepted(), Released(), Rejected(), Modified(True)))]), FLAGS,
)  # fmt: skip


def read_by_the_general_decoder(body: bytes) -> object:
    try:
        value, at = decode(body)
        return parse(value), body[at:]
    except AmqpDecodeError:
        return "error"


def read(body: bytes) -> object:
    try:
        return read_performative(body)
    except AmqpDecodeError:
        return "error"


def types_of(result: object) -> object:
    """Whether a field is a bool or a number: True is equal to 1."""
    return [type(field) for field in result[0]] if isinstance(result, tuple) else result


@given(TRANSFERS, st.binary(max_size=20), st.integers(0, 60), st.integers(0, 255))
@settings(max_examples=400, deadline=None)
def test_transfers_are_read_as_other_performatives_are(
    transfer: Transfer, payload: bytes, at: int, changed: int
) -> None:
    body = encode_performative(transfer) + payload
    damaged = body[:at] + bytes((changed,)) + body[at + 1 :]
    for data in (body, damaged, body[:at]):
        expected = read_by_the_general_decoder(data)
        assert read(data) == expected
        assert types_of(read(data)) == types_of(expected)


def test_most_transfers_are_read_the_quick_way() -> None:
    body = encode_performative(Transfer(0, 70000, b"tag", 0, False, False))
    assert read_usual_transfer(body + b"payload") == (0, 70000, b"tag", b"\x43\x42\x42", 3, len(body))
    assert read_usual_transfer(encode_performative(Flow(0, 1, 0, 1))) is None


@given(DISPOSITIONS, st.binary(max_size=3), st.integers(0, 40), st.integers(0, 255))
@settings(max_examples=400, deadline=None)
def test_dispositions_are_read_as_other_performatives_are(
    disposition: Disposition, payload: bytes, at: int, changed: int
) -> None:
    body = encode_performative(disposition)
    damaged = body[:at] + bytes((changed,)) + body[at + 1 :]
    for data in (body, body + payload, damaged, body[:at]):
        expected = read_by_the_general_decoder(data)
        assert read(data) == expected
        assert types_of(read(data)) == types_of(expected)


def test_most_dispositions_are_read_the_quick_way() -> None:
    for last in (None, 70000):
        body = encode_performative(Disposition(True, 300, last, True, composite(Accepted())))
        assert read_usual_disposition(body) == (True, 300, last, b"\x41" + composite(Accepted()).data, 2)
    assert read_usual_disposition(encode_performative(Flow(0, 1, 0, 1))) is None


def test_an_outcome_that_was_read_twice_has_the_same_fields() -> None:
    body = encode_performative(Disposition(True, 1, None, True, composite(Modified(True))))
    for _ in range(2):
        assert parse(read_performative(body)[0].state) == Modified(True)
