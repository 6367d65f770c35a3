"""Checkpoints: the core repeats exactly the records that are still needed of the given ids."""

import pytest

from mqlab.broker.core.durability.records import Decide, Prepare, Put, Record
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.model.messages import Span
from mqlab.wire.native.bodies import decode
from recorded_calls import recording

from .commands import NOW, Driven
from .payloads import batch, single
from .reference_recovery import Replayed
from .stand_ins import Disk

ALL = [(1, 1_000_000)]
DONE = Answer(None, 1, {})


def carried(driven: Driven, intervals: dict[int, list[tuple[int, int]]], *xids: str) -> list[Record]:
    before = len(driven.records)
    driven.do(driven.core.checkpoint, intervals, xids)
    return driven.records[before:]


def messages(records: list[Record]) -> dict[tuple[int, int], bytes]:
    """By queue and id; each is said once."""
    found: dict[tuple[int, int], bytes] = {}
    for record in records:
        assert isinstance(record, Put)
        ((queue, first),) = record.targets
        for row, body in enumerate(decode(record.payload).tolist()):
            assert (queue, first + row) not in found
            found[queue, first + row] = body
    return found


def test_what_waits_and_what_a_consumer_has() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 4)
    driven.send(producer, *(b"%d" % n for n in range(1, 7)), persistent=True)
    driven.send(producer, b"7", persistent=True)
    driven.sync()
    driven.acknowledge_rows(consumer, 2)
    assert messages(carried(driven, {1: ALL})) == {(1, n): b"%d" % n for n in (1, 3, 4, 5, 6, 7)}


def test_only_the_ids_that_are_asked_for() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for first in (1, 4, 7):
        driven.send(producer, *(b"%d" % n for n in range(first, first + 3)), persistent=True)
    driven.sync()
    assert messages(carried(driven, {1: [(2, 5), (9, 10)]})) == {(1, n): b"%d" % n for n in (2, 3, 4, 9)}
    assert carried(driven, {1: [(10, 100)]}) == []
    assert carried(driven, {}) == []


def test_what_is_not_kept_is_not_said() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.send(producer, b"not kept")
    driven.send(producer, b"2", persistent=True)
    driven.sync()
    assert messages(carried(driven, {1: ALL})) == {(1, 2): b"2"}


def test_a_queue_that_is_gone_needs_nothing() -> None:
    driven = Driven()
    driven.send(driven.producer("queue:q"), b"1", persistent=True)
    driven.sync()
    driven.do(driven.core.removal.delete, driven.queue("q"))
    assert carried(driven, {1: ALL, 99: ALL}) == []


@pytest.mark.parametrize("selector", ["", "n <> 1"])
def test_a_subscription_says_where_its_messages_were_sent(selector: str) -> None:
    driven = Driven()
    driven.consumer("topic:t", 0, durable="d", selector=selector)
    driven.put(driven.producer("topic:t"), batch(*((b"%d" % n, {"n": n}) for n in range(3))), persistent=True)
    driven.sync()
    records = carried(driven, {1: ALL})
    assert {record.origin for record in records if isinstance(record, Put)} == {"topic:t"}
    wanted = [n for n in range(3) if not selector or n != 1]
    assert messages(records) == {(1, n + 1): b"%d" % n for n in wanted}


def test_delayed_messages_and_those_on_their_way_to_disk() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"1", deliver_at=NOW + 100), persistent=True)
    driven.sync()
    driven.send(producer, b"2", persistent=True)
    assert messages(carried(driven, {1: ALL})) == {(1, 1): b"1", (1, 2): b"2"}


def test_what_a_transaction_has_taken_is_needed_until_it_is_committed() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    consumer = driven.consumer("queue:q", session=session)
    driven.send(driven.producer("queue:q"), b"1", b"2", b"3", persistent=True)
    driven.sync()
    driven.acknowledge_rows(consumer, 2)
    assert messages(carried(driven, {1: ALL})) == {(1, n): b"%d" % n for n in (1, 2, 3)}
    driven.close(consumer)
    assert messages(carried(driven, {1: ALL})) == {(1, n): b"%d" % n for n in (1, 2, 3)}
    driven.commit(session)
    assert messages(carried(driven, {1: ALL})) == {(1, n): b"%d" % n for n in (1, 3)}


def prepared(driven: Driven) -> None:
    """Takes message 1 of queue 1, sends one to queue 2."""
    driven.send(driven.producer("queue:in"), b"in", persistent=True)
    driven.sync()
    session = driven.session(transacted=True)
    driven.acknowledge(driven.consumer("queue:in", session=session), 1)
    driven.send(driven.producer("queue:out", session), b"out", persistent=True)
    driven.do(driven.core.prepare, session, "x", DONE)
    driven.sync()


def test_a_prepared_transaction_is_said_again_as_one() -> None:
    """Its sends are on no queue yet: as plain records they would be, after a restart."""
    driven = Driven()
    prepared(driven)
    (original,) = driven.said(Prepare)
    taken, again = carried(driven, {1: ALL, 2: ALL}, "x")
    assert messages([taken]) == {(1, 1): b"in"}
    assert again == original
    assert carried(driven, {}, "unknown") == []


@pytest.mark.parametrize("commit", [True, False])
def test_one_that_is_being_decided(commit: bool) -> None:
    """Before the decision is durable, and after."""
    driven = Driven()
    prepared(driven)
    driven.do(driven.core.decide, "x", DONE, commit=commit)
    right = {(2, 1): b"out"} if commit else {(1, 1): b"in"}
    assert messages(carried(driven, {1: ALL, 2: ALL}, "x")) == right
    driven.sync()
    assert messages(carried(driven, {1: ALL, 2: ALL}, "x")) == right


def test_a_journal_without_its_old_files_comes_to_the_same() -> None:
    """The records before the checkpoint are gone, but for the names of the queues."""
    driven = Driven()
    session = driven.session(transacted=True)
    producer = driven.producer("queue:q")
    consumer = driven.consumer("queue:q", 3, session)
    driven.consumer("topic:t", 0, durable="d", selector="n > 0")
    driven.put(driven.producer("topic:t"), batch(*((b"%d" % n, {"n": n}) for n in range(3))), persistent=True)
    for number in range(5):
        driven.send(producer, b"%d" % number, b"%d too" % number, persistent=True)
    driven.sync()
    driven.acknowledge(consumer, 2)
    driven.commit(session)
    prepared(driven)
    driven.sync()
    before = Replayed(driven.records)
    heads: list[Record] = [*driven.core.destinations.declarations()]
    numbers = dict.fromkeys(driven.core.destinations.numbered, ALL)
    driven.send(producer, b"meanwhile", persistent=True)
    meanwhile = driven.records[-1]
    after = Replayed([*heads, meanwhile, *carried(driven, numbers, "x")])
    assert {key: kept.body for key, kept in after.messages.items()} == {
        **{key: kept.body for key, kept in before.messages.items()}, (1, 11): b"meanwhile",
    }  # fmt: skip
    assert after.prepared == before.prepared
    assert (after.names, after.options) == (before.names, before.options)
    assert all(after.next_ids[number] >= next_id for number, next_id in before.next_ids.items())


def test_decided_ones_leave_no_trace() -> None:
    driven = Driven()
    prepared(driven)
    driven.do(driven.core.decide, "x", DONE, commit=True)
    driven.sync()
    assert driven.said(Decide) == [Decide("x", True)]
    records = carried(driven, {1: ALL, 2: ALL}, "x")
    assert not any(isinstance(record, Prepare) for record in records)


def test_messages_on_disk_are_said_from_there() -> None:
    driven = Driven(save_extent=10)
    disk = Disk(driven)
    producer = driven.producer("queue:q")
    for _ in range(3):
        driven.send(producer, b"x" * 300_000, persistent=True)
    driven.sync()
    assert disk.pages
    assert len(messages(carried(driven, {1: ALL}))) == 3


def test_what_lies_behind_these_ids_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue may have a million messages, and everybody waits meanwhile."""
    driven = Driven()
    producer = driven.producer("queue:q")
    for number in range(300):
        driven.send(producer, b"%d" % number, persistent=True)
    driven.sync()
    looks: list[object] = []
    monkeypatch.setattr(Span, "within", recording(Span.within, looks))
    assert len(messages(carried(driven, {1: [(11, 21)]}))) == 10
    assert len(looks) == 10
