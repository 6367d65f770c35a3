"""Torn tails and flipped bits: exactly the complete prefix comes back, or recovery says no. Never a wrong message."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.broker.core.durability.records import Put, Record, Remove
from mqlab.broker.store.recovery.recovery import DamagedJournalError, recover
from mqlab.broker.store.segments import segment_path
from mqlab.wire.native.bodies import encode

from .journal_state import JournalState, StatesByRecord, differences, state_of
from .journals import DECLARED, REMEMBERED, MemoryFiles, Written, recovered, workload, written

LONG = bool(os.environ.get("MQLAB_TORTURE"))
KIB = 1024


def states(journal: Written) -> dict[int, JournalState]:
    """What must be found if recovery ends with each of the records."""
    before: list[Record] = [*DECLARED, *REMEMBERED]
    said: list[tuple[int, Record]] = [(-1, record) for record in before]
    applied = StatesByRecord([*said[:-1], (0, said[-1][1]), *journal.until(len(journal.data))])
    return {lsn: applied.after(lsn) for lsn in range(len(journal.records) + 1)}


# Zeros behind what was written: as many as a broker had reserved.
_ROOM = (0, 1, 24, 25, 5000)


def test_a_tail_torn_at_any_byte_gives_exactly_the_complete_prefix(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Every offset of the last 64 KiB in the long form; in the short form all near a border, and every 97th between.

    Nothing in the torn group is proven: the file ends there, or has zeros from there on, as after a crash.
    """
    journal = written(workload(80 * KIB, body=700, batch=6))
    whole = journal.data
    first = len(whole) - 64 * KIB
    borders = [begin for begin, *_ in journal.records] + [len(whole)]
    near = {at + step for at in borders for step in range(-12, 13)}
    offsets = range(first, len(whole) + 1) if LONG else sorted(near | set(range(first, len(whole), 97)))
    expected = states(journal)
    tested = 0
    for size in offsets:
        if not first <= size <= len(whole):
            continue
        room = _ROOM[size % len(_ROOM)]
        left, gone = whole[:size] + bytes(room), whole[size : size + room]
        # A record that lacks nothing but zeros at its end is there.
        complete = journal.until(size + len(gone) - len(gone.lstrip(b"\0")))
        end = borders[len(complete)]
        found, files = recovered(tmp_path, {1: left})
        assert found.lsn == len(complete)
        assert found.torn == len(left[end:].rstrip(b"\0"))
        assert files.changes == ([("truncate", segment_path(tmp_path, 1).name, end)] if found.torn else [])
        assert not differences(state_of(found), expected[len(complete)])
        tested += 1
    record_property("offsets", tested)
    assert tested > (65_000 if LONG else 1_800)


def flip(journal: Written, bit: int) -> bytes:
    data = bytearray(journal.data)
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def refused_or_cut(folder: Path, journal: Written, bit: int, expected: dict[int, JournalState]) -> bool:
    """Every flip is found. True if it was refused, False if an end that nothing proves was cut off."""
    lsn, proven = journal.at(bit // 8)
    try:
        found, files = recovered(folder, {1: flip(journal, bit)})
    except DamagedJournalError:
        return True
    assert lsn, f"bit {bit}: a flip in the head was not refused"
    assert proven < lsn, f"bit {bit}: record {lsn} was durable and is silently gone"
    assert found.torn > 0, f"bit {bit}: not found at all"
    assert found.lsn == lsn - 1
    assert not differences(state_of(found), expected[lsn - 1])
    assert files.changes
    return False


def test_every_bit_of_a_small_journal(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """One in seven in the short form, and so every position in a byte."""
    journal = written(workload(1600, body=4, batch=2))
    assert len({type(record) for *_, record in journal.records}) == 8
    expected = states(journal)
    bits = range(0, len(journal.data) * 8, 1 if LONG else 7)
    outcomes = [refused_or_cut(tmp_path, journal, bit, expected) for bit in bits]
    record_property("bits", len(outcomes))
    assert len(outcomes) > 3 * KIB
    assert {True, False} == set(outcomes)


@pytest.mark.parametrize("part", range(16) if LONG else [3])
def test_bits_of_a_large_journal(tmp_path: Path, part: int, record_property: Callable[[str, object], None]) -> None:
    """All of them in the long form; in the short form one in so many, and every position in a byte is met."""
    journal = written(workload(64 * KIB, body=700, batch=6))
    expected = states(journal)
    bits = range(part, len(journal.data) * 8, 16 if LONG else 499)
    outcomes = [refused_or_cut(tmp_path, journal, bit, expected) for bit in bits]
    record_property("bits", len(outcomes))
    assert outcomes.count(True) > len(outcomes) * 0.9


def test_after_a_stop_in_good_order_every_flip_is_refused(tmp_path: Path) -> None:
    """All of it was on disk, and the file says so: nothing of it can be a torn tail, but for that last word itself."""
    records = workload(300, body=10, batch=2)
    journal = written(records, shut=True)
    shut = journal.records[-1][0]
    for bit in range(0, shut * 8, 1 if LONG else 3):
        with pytest.raises(DamagedJournalError):
            recovered(tmp_path, {1: flip(journal, bit)})


def test_a_flip_in_the_file_header_is_refused_however_many_records_were_written_before(tmp_path: Path) -> None:
    """The first file there is may begin with any number: those before it were consumed and removed."""
    for first_lsn in (1, 1000, 10**9, 2**40):
        journal = written(workload(300, body=10), number=7, first_lsn=first_lsn, group=1)
        for bit in range(0, journal.head_size * 8, 3):
            with pytest.raises(DamagedJournalError):
                recovered(tmp_path, {7: flip(journal, bit)})


@pytest.mark.parametrize("room", _ROOM)
def test_zeros_after_a_record_are_unused_space(tmp_path: Path, room: int) -> None:
    journal = written(workload(2 * KIB, body=100), group=1000)
    last, *_ = journal.records[-1]
    for data, complete in ((journal.data, len(journal.records)), (journal.data[:last], len(journal.records) - 1)):
        found, files = recovered(tmp_path, {1: data + bytes(room)})
        assert (found.lsn, found.torn, files.changes) == (complete, 0, [])


@pytest.mark.parametrize("room", _ROOM)
def test_a_broker_may_end_before_it_gives_back_the_room_of_a_file_that_is_not_the_last(
    tmp_path: Path, room: int
) -> None:
    one = written(workload(300, body=10), number=1, group=1)
    two = written(workload(300, body=10), number=2, first_lsn=1 + len(one.records), group=1)
    found, _ = recovered(tmp_path, {1: one.data + bytes(room), 2: two.data + bytes(room)})
    assert (found.lsn, found.torn) == (len(one.records) + len(two.records), 0)


@pytest.mark.parametrize("records", [0, 300])
def test_zeros_in_place_of_the_last_record_before_another_file_are_damage(tmp_path: Path, records: int) -> None:
    one = written(workload(300, body=10), number=1, group=1)
    last, *_ = one.records[-1]
    two = written(workload(records, body=10) if records else [], number=2, first_lsn=1 + len(one.records), group=1)
    contents = {1: one.data[:last] + bytes(len(one.data) - last), 2: two.data}
    with pytest.raises(DamagedJournalError, match=f"begins with record {1 + len(one.records)} instead of"):
        recovered(tmp_path, contents)


def test_records_behind_zeros_that_were_never_confirmed_are_torn(tmp_path: Path) -> None:
    """The disk may write a later block before an earlier one: nobody was told of either."""
    journal = written(workload(2 * KIB, body=100), group=1000)
    (begin, *_), (end, *_) = journal.records[-3:-1]
    found, _ = recovered(tmp_path, {1: journal.data[:begin] + bytes(end - begin) + journal.data[end:] + bytes(3000)})
    assert (found.lsn, found.torn) == (len(journal.records) - 3, len(journal.data.rstrip(b"\0")) - begin)


@pytest.mark.parametrize("missing", [2, 3, 4])
def test_a_missing_file_is_refused_by_its_name(tmp_path: Path, missing: int) -> None:
    contents, lsn = {}, 1
    for number in range(1, 6):
        records = workload(300, body=10)
        contents[number] = written(records, number=number, first_lsn=lsn, group=1).data
        lsn += len(records)
    del contents[missing]
    with pytest.raises(DamagedJournalError, match=segment_path(tmp_path, missing).name):
        recovered(tmp_path, contents)


def test_a_file_under_the_name_of_another_is_refused(tmp_path: Path) -> None:
    one = written(workload(300, body=10), number=1, group=1)
    two = written(workload(300, body=10), number=2, first_lsn=1 + len(one.records), group=1)
    recovered(tmp_path, {1: one.data, 2: two.data})
    with pytest.raises(DamagedJournalError):
        recovered(tmp_path, {1: two.data, 2: one.data})


def test_refusal_leaves_the_files_as_they_are(tmp_path: Path) -> None:
    journal = written(workload(2 * KIB, body=100), group=1)
    path = segment_path(tmp_path, 1)
    path.touch()
    files = MemoryFiles({path.name: flip(journal, journal.records[3][0] * 8 + 200)})
    with pytest.raises(DamagedJournalError, match=rf"{path.name}: byte \d+"):
        recover(tmp_path, files, 0)
    assert files.changes == []


def test_a_torn_tail_in_the_only_file_left_goes_on_after_it(tmp_path: Path) -> None:
    """Files before it were consumed: the next file must not get the number of one of them."""
    journal = written(workload(2 * KIB, body=100), number=5, first_lsn=400, group=1000)
    found, _ = recovered(tmp_path, {5: journal.data[:-1]})
    assert found.next_file == 6
    assert found.lsn == 400 + len(journal.records) - 2


def test_parts_of_batches_that_were_consumed_do_not_come_back(tmp_path: Path) -> None:
    bodies = [b"%d" % n for n in range(10)]
    records: list[Record] = [
        Put(((1, 1),), encode(bodies)),
        Remove(1, ((1, 2),)),
        Remove(1, ((5, 1), (8, 1))),
        Put(((1, 11),), encode([b"single"])),
        Remove(1, ((3, 1),)),
    ]
    found, _ = recovered(tmp_path, {1: written(records).data})
    orders = found.queues[1]
    assert [span.ranges() for span in orders.spans()] == [[(4, 1), (6, 2), (9, 2)], [(11, 1)]]
    left = {n + 1: body for n, body in enumerate(bodies) if n + 1 in (4, 6, 7, 9, 10)}
    assert state_of(found).live == {1: {**left, 11: b"single"}}
    assert orders.next_id == 12
