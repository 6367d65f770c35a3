"""The form of the journal on disk: what was written is read, and anything else is found to be damaged."""

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.durability.records import (
    Commit,
    Decide,
    Declare,
    Forget,
    Prepare,
    Put,
    Record,
    Remember,
    Remove,
    Shut,
)
from mqlab.broker.store import journal_format
from mqlab.broker.store.encoding import encode, encode_file_header
from mqlab.broker.store.recovery.decoding import OtherVersionError, UnreadableRecordError, decode, decode_file_header
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.bodies import encode as encode_bodies

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
text = st.text(max_size=30, alphabet=st.characters(exclude_categories=["Cs"]))
forms = st.integers(0, 255)
buffers = st.sampled_from([bytes, bytearray, memoryview])
data = st.builds(lambda kind, said: kind(said), buffers, st.binary(max_size=40))
payloads = st.builds(Payload, data, u32, forms)
targets = st.lists(st.tuples(u32, u64), min_size=1, max_size=3).map(tuple)
puts = st.builds(Put, targets, payloads, st.one_of(st.just(""), text))
removes = st.builds(Remove, u32, st.lists(st.tuples(u64, u32), max_size=4).map(tuple))
options = st.dictionaries(text, st.one_of(text, st.integers(), st.booleans(), st.none(), st.lists(text)), max_size=3)
declares = st.builds(Declare, u32, text, u64, options)
remembers = st.builds(Remember, text, st.lists(text, max_size=4).map(tuple))
several_puts, several_removes = st.lists(puts, max_size=4).map(tuple), st.lists(removes, max_size=4).map(tuple)
KINDS: dict[type[Record], st.SearchStrategy[Record]] = {
    Declare: declares, Forget: st.builds(Forget, u32), Put: puts, Remove: removes,
    Commit: st.builds(Commit, several_puts, several_removes),
    Prepare: st.builds(Prepare, text, several_puts, several_removes),
    Decide: st.builds(Decide, text, st.booleans()), Remember: remembers, Shut: st.just(Shut()),
}  # fmt: skip
records = st.one_of(*KINDS.values())
EXAMPLES: list[Record] = [
    Put(((1, 2),), Payload(b"body", 1, SINGLE)),
    Put(((1, 2), (7, 1)), encode_bodies([b"one", b"two"]), "topic:t"),
    Remove(1, ((2, 3),)),
    Remove(1, ((2, 3), (9, 1))),
    Declare(1, "q", 1, {"topic": "a.*"}),
    Forget(3),
    Commit((Put(((1, 2),), Payload(b"body", 1, SINGLE)),), (Remove(1, ((2, 3),)),)),
    Prepare("xid", (Put(((1, 2),), Payload(b"body", 1, SINGLE)),), (Remove(1, ((2, 3),)),)),
    Decide("xid", True),
    Remember("queue:q", ("a", "b")),
    Shut(),
]


def plain_put(put: Put) -> Put:
    return put._replace(payload=put.payload._replace(data=bytes(put.payload.data)))


def plain(record: Record) -> Record:
    """Comparable: a payload may be any kind of buffer."""
    if isinstance(record, Put):
        return plain_put(record)
    if isinstance(record, Commit | Prepare):
        return record._replace(puts=tuple(map(plain_put, record.puts)))
    return record


def test_there_is_an_example_of_every_kind() -> None:
    assert {type(record) for record in EXAMPLES} == set(KINDS) == set(Record.__args__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(deadline=None)
@given(data=st.data(), lsn=u64, durable=u64)
def test_a_record_of_every_kind_comes_back(kind: type[Record], data: st.DataObject, lsn: int, durable: int) -> None:
    record = data.draw(KINDS[kind])
    found = decode(b"before" + encode(record, lsn, durable), len(b"before"))
    assert plain(found.record) == plain(record)
    assert type(found.record) is kind
    assert (found.lsn, found.durable) == (lsn, durable)


@settings(deadline=None)
@given(st.lists(st.tuples(records, u64, u64), max_size=6))
def test_records_come_back_in_their_order(written: list[tuple[Record, int, int]]) -> None:
    data = b"".join(encode(*one) for one in written)
    at, read = 0, []
    while at < len(data):
        found = decode(data, at)
        read.append((plain(found.record), found.lsn, found.durable))
        at = found.end
    assert read == [(plain(record), lsn, durable) for record, lsn, durable in written]


@given(st.integers(1, 2**64 - 1), u64, st.lists(declares, max_size=5), st.lists(remembers, max_size=3), u32)
def test_a_file_header_comes_back(
    number: int, first_lsn: int, declared: list[Declare], remembered: list[Remember], last_queue: int
) -> None:
    data = encode_file_header(number, first_lsn, declared, remembered, last_queue)
    header = decode_file_header(data + b"what follows")
    assert (header.number, header.first_lsn, header.last_queue, header.size) == (
        number,
        first_lsn,
        last_queue,
        len(data),
    )
    assert ([*header.declarations], [*header.remembered]) == (declared, remembered)


@settings(deadline=None)
@given(records, u64, u64, st.data())
def test_any_changed_bit_is_found(record: Record, lsn: int, durable: int, data: st.DataObject) -> None:
    whole = bytearray(encode(record, lsn, durable))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(UnreadableRecordError):
        decode(bytes(whole), 0)


@given(st.lists(declares, max_size=3), st.lists(remembers, max_size=2), st.data())
def test_any_changed_bit_of_a_file_header_is_found(
    declared: list[Declare], remembered: list[Remember], data: st.DataObject
) -> None:
    whole = bytearray(encode_file_header(3, 77, declared, remembered, 5))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(UnreadableRecordError):
        decode_file_header(bytes(whole))


def test_every_end_cut_off_is_found() -> None:
    for record in EXAMPLES:
        whole = encode(record, 5, 4)
        for size in range(len(whole)):
            with pytest.raises(UnreadableRecordError):
                decode(whole[:size], 0)
    header = encode_file_header(1, 1, [Declare(1, "q", 1)], [Remember("queue:q", ("a",))], 1)
    for size in range(len(header)):
        with pytest.raises(UnreadableRecordError):
            decode_file_header(header[:size])


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        decode(data, 0)
    with pytest.raises(UnreadableRecordError):
        decode_file_header(data)


def test_zeros_are_damage() -> None:
    """What a file system leaves of blocks that were never written."""
    with pytest.raises(UnreadableRecordError):
        decode(bytes(4096), 0)
    with pytest.raises(UnreadableRecordError):
        decode_file_header(bytes(4096))


def test_a_kind_that_is_not_known_is_damage() -> None:
    """As a newer broker might write it."""
    monkey = bytearray(encode(Shut(), 5, 4))
    monkey[journal_format.RECORD_HEADER.size - 1] = 99
    again = google_crc32c.value(bytes(monkey[journal_format.RECORD_PREFIX.size :]))
    journal_format.RECORD_PREFIX.pack_into(monkey, 0, 0, again)
    with pytest.raises(UnreadableRecordError, match="kind 99"):
        decode(bytes(monkey), 0)


def test_another_version_of_the_format_is_named() -> None:
    header = encode_file_header(1, 1, [], [], 0)
    with pytest.raises(OtherVersionError, match="mqlabJ01"):
        decode_file_header(header.replace(journal_format.MAGIC, b"mqlabJ01"))
    with pytest.raises(UnreadableRecordError) as raised:
        decode_file_header(header.replace(journal_format.MAGIC, b"mqlabJ\0\0"))
    assert not isinstance(raised.value, OtherVersionError)
