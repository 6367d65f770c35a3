"""Malformed single messages and lists of columns raise MalformedPayloadError."""

import random
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqlab.wire.native.bodies import COLUMNS, SINGLE, MalformedPayloadError, Payload, validate
from mqlab.wire.native.columns import decode_single, parse_columns

from .forged_batches import with_list
from .message_tables import EVERY_TYPE, Table
from .payload_checks import use

FORM = SINGLE | COLUMNS


def single(said: bytes, rest: bytes, rows: int = 1) -> Payload:
    return Payload(struct.pack("<H", len(said)) + said + rest, rows, FORM)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 3))
@example(b"", 1)
@example(b"\x00\x00", 1)
@example(b"\xff\xff", 1)
@example(b"\x01", 1)
def test_random_bytes(data: bytes, rows: int) -> None:
    use(Payload(data, rows, FORM))
    use(single(b"s.a,i.n,s.b", data, rows))


def test_every_bit_changed() -> None:
    for row in range(3):
        data = bytes(EVERY_TYPE.single(row).data)
        for at in range(len(data)):
            for bit in range(8):
                copy = bytearray(data)
                copy[at] ^= 1 << bit
                use(Payload(bytes(copy), 1, EVERY_TYPE.single(row).form))


def test_every_end_cut_off() -> None:
    row = EVERY_TYPE.rows[2]
    whole = bytes(EVERY_TYPE.single(2).data)
    headers = len(whole) - len(row["body"])
    assert [size for size in range(len(whole) + 1) if use(Payload(whole[:size], 1, FORM))] == [
        *range(headers, len(whole) + 1)
    ]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32))
def test_changed_messages(seed: int) -> None:
    chance, original = random.Random(seed), bytes(EVERY_TYPE.single(2).data)
    for _ in range(20):
        data = bytearray(original)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        use(Payload(bytes(data), 1, FORM))


@pytest.mark.parametrize("rows", [0, 2, -1, 2**32 - 1])
def test_a_single_message_is_one_message(rows: int) -> None:
    assert not use(Payload(EVERY_TYPE.single(0).data, rows, FORM))


@pytest.mark.parametrize(
    "lengths", [(4, 0), (0, 4), (2, 2), (2**32 - 1, 0), (0, 2**32 - 1), (2**32 - 1, 2**32 - 1), (2**31, 2**31)]
)
def test_texts_that_reach_beyond_the_end_are_refused(lengths: tuple[int, int]) -> None:
    assert use(single(b"s.a,s.b", struct.pack("<II", 1, 2) + b"xyz"))
    assert not use(single(b"s.a,s.b", struct.pack("<II", *lengths) + b"xyz"))


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_texts_that_are_not_utf8_are_refused(text: bytes) -> None:
    assert not use(single(b"s.a", struct.pack("<I", len(text)) + text + b"body"))
    # The body may be anything.
    assert use(single(b"s.a", struct.pack("<I", 0) + text))


def test_texts_that_are_utf8_only_together_are_refused() -> None:
    assert not use(single(b"s.a,s.b", struct.pack("<II", 1, 1) + "ü".encode()))


LISTS: dict[str, bytes] = {
    "empty": b"",
    "an empty entry": b"s.a,",
    "an empty entry in front": b",s.a",
    "an empty entry between": b"s.a,,s.b",
    "only commas": b",,,",
    "a letter alone": b"s",
    "an unknown letter": b"x.a",
    "a capital letter": b"S.a",
    "a letter of structs that is no type": b"P.a",
    "a letter of two bytes": "é.a".encode(),
    "an unknown header": b"sdestination",
    "the body": b"sbody",
    "a header with a wrong type": b"qcorrelation_id",
    "a header with a smaller type": b"itimestamp",
    "an id that is a text": b"sid",
    "a header twice": b"stype,stype",
    "a property twice": b"s.a,s.a",
    "a property twice with two types": b"s.a,i.a",
    "a property without a name": b"s.",
    "a property of the type of ids": b"u.a",
    "a name with a space": b"s.a b",
    "a name with a space behind": b"s.a ",
    "a name with a full stop": b"s.a.b",
    "a name that is a number": b"s.1",
    "a name with a line break": b"s.a\nb",
    "a name with NUL": b"s.a\0",
    "a name with a hyphen": b"s.a-b",
    "a name that is too long": b"s." + b"a" * 256,
    "not UTF-8": b"s.\xff",
    "half of a character": b"s.\xc3",
    "half of a pair": b"s.\xed\xa0\x80",
    "101 columns": b",".join(b"b.p%d" % number for number in range(101)),
    "as many commas as fit": b"," * 65_535,
    "one name as long as fits": b"s." + b"a" * 65_533,
    "one header as long as fits": b"s" + b"a" * 65_534,
    "line breaks as many as fit": b"s" + b"\n" * 65_534,
}


@pytest.mark.parametrize("said", LISTS.values(), ids=LISTS)
def test_lists_that_are_none(said: bytes) -> None:
    with pytest.raises(MalformedPayloadError):
        parse_columns(said)
    # Enough for whatever it might be.
    assert not use(single(said, bytes(4_000)))
    good = bytes(EVERY_TYPE.payload().data)
    assert not use(with_list(said, good, 3))


@pytest.mark.parametrize("said", [b"s.a", b"uid,qtimestamp", "d.straße,s.$".encode(), b"bpriority,b.priority"])
def test_lists_that_are_some(said: bytes) -> None:
    assert use(single(said, bytes(100)))


@settings(deadline=None)
@given(st.lists(st.text(max_size=4), max_size=4).map(",".join) | st.text(alphabet="s.,aidq\0 ", max_size=20))
def test_any_text_is_a_list_or_the_parsers_own_error(text: str) -> None:
    use(single(text.encode(), bytes(200)))


def peak(call: Callable[[], object]) -> int:
    """Bytes that Python and numpy take for it."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "payload",
    [
        single(b"s.a,s.b", struct.pack("<II", 2**32 - 1, 2**32 - 1)),
        single(b"," * 65_535, b""),
        Payload(b"\xff\xff" + bytes(100), 1, FORM),
        with_list(b"s.a", b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(100), 2**32 - 1),
        with_list(b"s.a", b"\xff\xff\xff\xff\x00\x40\x00\x00" + b"\xff" * 100, 2**32 - 1),
        with_list(b"s.a", b"\xff\xff\xff\xff\x40\x00\x00\x00" + struct.pack("<I", 4) * 40, 1),
    ],
    ids=["texts", "commas", "list", "metadata", "metadata within the limit", "metadata in circles"],
)
def test_what_is_announced_takes_no_memory(payload: Payload) -> None:
    assert peak(lambda: use(payload)) < 8 * len(payload.data) + 200_000
    assert not use(payload)


def test_taking_apart_a_large_single_message_copies_no_body() -> None:
    body = bytes(8 * 1024 * 1024)
    payload = Table({"type": "s"}, [{"body": body, "type": "large"}]).single(0)
    assert peak(lambda: validate(payload)) < 100_000
    assert peak(lambda: decode_single(payload)) < 100_000
    assert len(decode_single(payload).body) == len(body)
