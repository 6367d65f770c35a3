"""The form of the journal on disk: what was written is read, and anything else is found to be damaged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.records import Commit, Declare, Put, Record, Remove, Shut
from mqlab.broker.store.records import Damaged, decode, decode_head, encode, encode_head
from mqlab.wire.bodies import Payload
from mqlab.wire.bodies import encode as encode_bodies

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
payloads = st.lists(st.binary(max_size=20), min_size=1, max_size=5).map(encode_bodies)
names = st.text(min_size=1, max_size=30, alphabet=st.characters(exclude_categories=["Cs"]))
puts = st.builds(Put, u32, u64, payloads)
removes = st.builds(Remove, u32, st.lists(st.tuples(u64, u32), max_size=4).map(tuple))
declares = st.builds(Declare, u32, names, u64)
commits = st.builds(Commit, st.lists(puts, max_size=4).map(tuple), st.lists(removes, max_size=4).map(tuple))
records = st.one_of(puts, removes, declares, commits, st.just(Shut()))


def plain(record: Record) -> object:
    """Comparable: a payload may be any kind of buffer."""
    if isinstance(record, Put):
        data = record.payload
        return (record.queue, record.first_id, bytes(data.data), data.rows, data.lone)
    if isinstance(record, Commit):
        return ([plain(put) for put in record.puts], record.removes)
    return record


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


@given(st.integers(1, 2**64 - 1), u64, st.lists(declares, max_size=5))
def test_a_head_comes_back(number: int, first_lsn: int, declared: list[Declare]) -> None:
    data = encode_head(number, first_lsn, declared)
    head = decode_head(data + b"what follows")
    assert (head.number, head.first_lsn, list(head.declarations), head.size) == (number, first_lsn, declared, len(data))


@settings(deadline=None)
@given(records, u64, u64, st.data())
def test_any_changed_bit_is_found(record: Record, lsn: int, durable: int, data: st.DataObject) -> None:
    whole = bytearray(encode(record, lsn, durable))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Damaged):
        decode(bytes(whole), 0)


@given(st.lists(declares, max_size=3), st.data())
def test_any_changed_bit_of_a_head_is_found(declared: list[Declare], data: st.DataObject) -> None:
    whole = bytearray(encode_head(3, 77, declared))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Damaged):
        decode_head(bytes(whole))


def test_every_end_cut_off_is_found() -> None:
    for record in (
        Put(1, 2, Payload(b"body", 1, True)),
        Remove(1, ((2, 3),)),
        Declare(1, "q", 1),
        Commit((), ()),
        Shut(),
    ):
        whole = encode(record, 5, 4)
        for size in range(len(whole)):
            with pytest.raises(Damaged):
                decode(whole[:size], 0)
    head = encode_head(1, 1, [Declare(1, "q", 1)])
    for size in range(len(head)):
        with pytest.raises(Damaged):
            decode_head(head[:size])


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(Damaged):
        decode(data, 0)
    with pytest.raises(Damaged):
        decode_head(data)


def test_zeros_are_damage() -> None:
    """What a file system leaves of blocks that were never written."""
    with pytest.raises(Damaged):
        decode(bytes(4096), 0)
    with pytest.raises(Damaged):
        decode_head(bytes(4096))
