"""Which files are needed: what puts a message there, takes it away, or carries it forward."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.broker.core.durability.records import Commit, Decide, Forget, Prepare, Put, Record, Remove
from mqlab.broker.store.message_locations import MessageLocations
from mqlab.broker.store.segments import Segments
from mqlab.wire.native.bodies import encode


def put(first_id: int, rows: int = 1, queue: int = 1) -> Put:
    return Put(((queue, first_id),), encode([b"x" * 50] * rows))


class Written:
    """Notes records, one after the other, each of 100 bytes."""

    def __init__(self, files: int = 3) -> None:
        self.segments = Segments()
        for number in range(1, files + 1):
            self.segments.begin(number)
        self.lsn = 0

    def note(self, record: Record, number: int) -> int:
        self.lsn += 1
        self.segments.append(record, self.lsn, number, 100)
        return self.lsn

    def durable(self) -> list[int]:
        """Everything is; returns the files that can go."""
        self.segments.on_durable(self.lsn)
        return self.take()

    def take(self) -> list[int]:
        found = []
        while (number := self.segments.removable) is not None:
            self.segments.remove(number)
            found.append(number)
        return found


def test_a_file_goes_only_when_its_consumption_is_durable() -> None:
    """Until then a crash brings the messages back, and they must be somewhere."""
    written = Written(files=2)
    written.note(put(1, rows=3), 1)
    first = written.note(Remove(1, ((1, 2),)), 2)
    second = written.note(Remove(1, ((3, 1),)), 2)
    written.segments.on_durable(first)
    assert written.take() == []
    written.segments.on_durable(second)
    assert written.take() == [1]


def test_a_file_stays_as_long_as_one_before_it_is_needed() -> None:
    """It may say what was consumed of the older one."""
    written = Written()
    for number, first_id in ((1, 1), (2, 3), (3, 5)):
        written.note(put(first_id, rows=2), number)
    written.note(Remove(1, ((3, 2), (5, 2))), 3)
    assert written.durable() == []
    written.note(Remove(1, ((1, 2),)), 3)
    # One at a time and the oldest first: if a crash undoes removals, no file between two others is missing.
    assert written.durable() == [1, 2]


def test_a_message_on_several_queues_is_needed_until_the_last_of_them() -> None:
    written = Written(files=2)
    written.note(Put(((1, 1), (2, 7)), encode([b"a", b"b"]), "topic:t"), 1)
    written.note(Remove(1, ((1, 2),)), 2)
    written.note(Remove(2, ((7, 1),)), 2)
    assert written.durable() == []
    written.note(Remove(2, ((8, 1),)), 2)
    assert written.durable() == [1]


def test_a_checkpoint_frees_the_old_file_when_it_is_durable() -> None:
    written = Written(files=2)
    written.note(put(1, rows=4), 1)
    written.note(Remove(1, ((2, 1),)), 2)
    assert written.segments.begin_checkpoint(1) == ({1: [(1, 5)]}, [])
    before = written.lsn
    written.note(put(1), 2)
    written.note(put(3, rows=2), 2)
    written.segments.end_checkpoint()
    written.segments.on_durable(before)
    assert written.take() == []
    assert written.durable() == [1]
    # Now it is the newer file that has them.
    written.segments.begin(3)
    assert written.take() == []
    written.note(Remove(1, ((1, 1), (3, 2))), 3)
    assert written.durable() == [2]


def test_a_checkpoint_of_half_frees_nothing() -> None:
    written = Written(files=2)
    written.note(put(1, rows=2), 1)
    written.segments.begin_checkpoint(1)
    written.note(put(1), 2)
    written.segments.end_checkpoint()
    assert written.durable() == []
    # The rest was consumed: then it does.
    written.note(Remove(1, ((2, 1),)), 2)
    assert written.durable() == [1]


def test_ids_that_come_again_outside_a_checkpoint_free_nothing() -> None:
    """A file too many is the lesser evil."""
    written = Written(files=2)
    written.note(put(1), 1)
    written.note(put(1), 2)
    assert written.durable() == []


def test_a_removal_of_messages_that_are_not_there_is_an_error_and_keeps_the_file() -> None:
    written = Written(files=2)
    written.note(put(1, rows=2), 1)
    written.note(Remove(1, ((1, 1),)), 1)
    written.note(Remove(1, ((1, 2),)), 1)
    with pytest.raises(AssertionError, match="remove 1 messages of queue 1 that are not in segment 1"):
        written.durable()
    assert written.take() == []


def test_a_segment_number_that_is_left_out_is_an_error() -> None:
    with pytest.raises(AssertionError):
        Written(files=2).segments.begin(4)


def test_a_prepared_transaction_keeps_its_file_until_a_later_header_knows_the_decision() -> None:
    for prepared, decided in ((put(5), (5, 1)), (None, None)):
        written = Written(files=3)
        written.note(put(1), 1)
        written.note(Prepare("x", (prepared,) if prepared else (), (Remove(1, ((1, 1),)),)), 2)
        assert written.durable() == []
        written.note(Decide("x", True), 3)
        # The message that it removed is gone; the transaction itself is still to be read.
        assert written.durable() == [1]
        if decided:
            written.note(Remove(1, (decided,)), 3)
        assert written.durable() == []
        written.segments.begin(4)
        assert written.durable() == [2, 3]


def test_what_is_rolled_back_counts_as_removed() -> None:
    written = Written(files=2)
    written.note(put(1), 1)
    written.note(Prepare("x", (put(2, rows=3),), (Remove(1, ((1, 1),)),)), 1)
    written.note(Decide("x", False), 2)
    written.segments.begin(3)
    assert written.durable() == []
    written.note(Remove(1, ((1, 1),)), 3)
    assert written.durable() == [1, 2]


def test_the_decision_about_an_unknown_transaction_changes_nothing() -> None:
    written = Written(files=2)
    written.note(put(1), 1)
    written.note(Decide("y", True), 2)
    assert written.durable() == []


def test_a_transaction_that_removes_what_is_carried_forward_is_prepared_again() -> None:
    """Or its removal would be in an older file than the put, and go first: the messages would come back."""
    written = Written(files=3)
    written.note(put(1, rows=2), 1)
    written.note(Prepare("x", (), (Remove(1, ((2, 1),)),)), 2)
    written.note(Prepare("y", (put(9),), ()), 2)
    written.segments.on_durable(written.lsn)
    assert written.segments.begin_checkpoint(1) == ({1: [(1, 9)]}, ["x"])
    written.note(put(1, rows=2), 3)
    written.note(Prepare("x", (), (Remove(1, ((2, 1),)),)), 3)
    written.segments.end_checkpoint()
    assert written.durable() == [1]
    assert written.segments.begin_checkpoint(2) == ({1: [(9, 10)]}, ["y"])
    written.note(Prepare("y", (put(9),), ()), 3)
    written.segments.end_checkpoint()
    assert written.durable() == [2]


def test_a_deleted_queue_needs_no_file() -> None:
    written = Written(files=2)
    written.note(put(1), 1)
    written.note(put(1, queue=2), 1)
    written.note(Forget(2), 2)
    written.note(Remove(1, ((1, 1),)), 2)
    assert written.durable() == [1]


def test_what_a_prepared_transaction_puts_on_a_deleted_queue_needs_no_file() -> None:
    written = Written(files=2)
    prepare = Prepare("x", (put(1, queue=2),), ())
    written.note(prepare, 1)
    written.note(Forget(2), 1)
    written.segments.on_durable(written.lsn)
    written.segments.begin_checkpoint(1)
    written.note(prepare, 2)
    written.segments.end_checkpoint()
    assert written.durable() == [1]
    written.note(Decide("x", True), 2)
    written.segments.begin(3)
    assert written.durable() == [2]


def test_needed_bytes_go_down_with_what_is_consumed() -> None:
    written = Written(files=2)
    for first_id in range(1, 11):
        written.note(put(first_id), 1)
    assert written.segments.length == 1000
    assert written.segments.needed_bytes == 1000
    assert 1000 <= written.segments.max_checkpoint_bytes(1) < 2000
    written.note(Commit((put(11),), (Remove(1, ((1, 5),)),)), 2)
    written.durable()
    assert 500 <= written.segments.max_checkpoint_bytes(1) < 1000
    written.note(Remove(1, ((6, 5),)), 2)
    assert written.segments.oldest_needed == 1
    written.segments.on_durable(written.lsn)
    assert written.segments.oldest_needed is None
    assert written.take() == [1]
    assert written.segments.length == 200


steps = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5), st.booleans(), st.integers(0, 30)), max_size=25)


@given(steps)
def test_message_locations_know_the_segment_of_each_id(taken: list[tuple[int, int, bool, int]]) -> None:
    """Against a dictionary: ids added at the end, with gaps, moved in parts, and files that go."""
    locations, expected, number = MessageLocations(), dict[int, int](), 1
    for gap, rows, moves, first_id in taken:
        if not moves:
            first_id = locations.end + gap
            locations.add(first_id, rows, number)
            expected.update(dict.fromkeys(range(first_id, first_id + rows), number))
        elif first_id + rows <= locations.end:
            locations.move(first_id, rows, number)
            expected.update(dict.fromkeys(range(first_id, first_id + rows), number))
        number += gap % 2
        for one, file in expected.items():
            assert [*locations.find(one, 1)] == [(file, 1)]
            assert any(first <= one < end for first, end in locations.intervals(file))
    for gone in sorted(set(expected.values())):
        locations.remove_segment(gone)
        expected = {one: file for one, file in expected.items() if file != gone}
        for one, file in expected.items():
            assert [*locations.find(one, 1)] == [(file, 1)]
    ids = sorted(expected)
    if ids:
        assert sum(rows for _, rows in locations.find(ids[0], ids[-1] - ids[0] + 1)) == ids[-1] - ids[0] + 1
