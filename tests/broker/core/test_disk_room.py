"""The core asks the journal for room before it takes a message, and merges records of consumption on a full disk."""

import pytest

from mqlab.broker.core import admin
from mqlab.broker.core.durability.pending_records import merged
from mqlab.broker.core.durability.records import Remove
from mqlab.broker.core.effects import Append
from mqlab.broker.core.errors import CommandError

from .commands import Driven


def with_room(size: int) -> Driven:
    driven = Driven()
    driven.core.records.free_bytes, driven.core.records.request_space = 0, lambda _: size
    return driven


def test_a_send_without_room_is_refused_with_its_size_and_a_smaller_one_is_not() -> None:
    driven = with_room(1000)
    producer = driven.producer("queue:q")
    with pytest.raises(CommandError, match="no space for"):
        driven.send(producer, b"." * 2000, persistent=True)
    driven.send(producer, b"." * 100, persistent=True)
    driven.send(producer, b"." * 2000)
    driven.sync()
    assert driven.queue("q").messages == 2


def test_what_is_granted_is_used_up() -> None:
    driven = with_room(1000)
    producer = driven.producer("queue:q")
    driven.send(producer, b"." * 700, persistent=True)
    driven.core.records.request_space = lambda _: 200
    with pytest.raises(CommandError, match="no space for"):
        driven.send(producer, b"." * 300, persistent=True)


def test_a_commit_without_room_can_be_rolled_back_and_the_session_goes_on() -> None:
    driven = with_room(1000)
    session = driven.session(transacted=True)
    producer = driven.producer("queue:q", session=session)
    for _ in range(3):
        driven.send(producer, b"." * 500, persistent=True)
    for _ in range(2):
        with pytest.raises(CommandError, match="can only be rolled back: the disk has no space"):
            driven.core.commit(session)
    driven.core.rollback(session)
    driven.send(producer, b"." * 500, persistent=True)
    driven.core.commit(session)
    driven.sync()
    assert driven.queue("q").messages == 1


def test_messages_are_not_moved_where_there_is_no_room() -> None:
    driven = with_room(5000)
    producer = driven.producer("queue:q")
    driven.send(producer, b"." * 500, persistent=True)
    driven.sync()
    driven.core.records.free_bytes, driven.core.records.request_space = 0, lambda _: 0
    with pytest.raises(CommandError, match="no space"):
        admin.move(driven.core, "queue:q", "queue:r")
    assert driven.queue("q").messages == 1


def test_on_a_full_disk_neighbours_that_were_consumed_share_a_record() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for _ in range(4):
        driven.send(producer, b"1", persistent=True)
    driven.sync()
    driven.core.records.merges_removals = True
    first = next(driven.queue("q").spans()).first_id
    admin.purge(driven.core, "queue:q")
    assert not [effect for effect in driven.core.effects if isinstance(effect, Append)]
    driven.core.records.append_merged_removals()
    (effect,) = [effect for effect in driven.core.effects if isinstance(effect, Append)]
    assert effect.record == Remove(driven.queue("q").number, ((first, 4),))


def test_ranges_are_merged_with_their_neighbours() -> None:
    assert merged([(5, 2), (1, 1), (2, 3), (9, 1)]) == ((1, 6), (9, 1))
