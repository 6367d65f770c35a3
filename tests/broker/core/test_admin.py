"""Administration: what is there, and purge, move and delete with all that the journal must know of it."""

from functools import partial

import pytest

from broker.core.commands import NOW, Driven
from broker.core.payloads import batch, single
from mqlab.broker import limits
from mqlab.broker.core import admin
from mqlab.broker.core.durability.records import Commit, Forget, Remove
from mqlab.broker.core.effects import Answer, Append
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.broker.core.selectors import BadSelectorError
from mqlab.wire.native.bodies import decode

DONE = Answer(None, 1, {})


def numbered(driven: Driven, count: int = 6, *, persistent: bool = True) -> None:
    producer = driven.producer("queue:q")
    driven.put(producer, batch(*((b"%d" % n, {"n": n}) for n in range(count - 1))), persistent=persistent)
    driven.put(producer, single(b"%d" % (count - 1), n=count - 1), persistent=persistent)
    driven.sync()
    driven.records.clear()


# Purge


def test_a_purged_queue_is_empty_and_its_messages_are_removed() -> None:
    driven = Driven()
    numbered(driven)
    assert driven.do(admin.purge, driven.core, "queue:q") == 6
    assert driven.records == [Remove(1, ((1, 5), (6, 1)))]
    assert (driven.left("q"), driven.queue("q").messages, driven.memory) == ([], 0, 0)


def test_what_a_consumer_has_in_hand_stays() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", 2)
    numbered(driven)
    assert driven.do(admin.purge, driven.core, "queue:q") == 4
    assert driven.queue("q").messages == 2
    driven.acknowledge(consumer, 2)
    assert driven.memory == 0


@pytest.mark.parametrize("selector", ["n = 1 OR n = 3 OR n = 5", "n < 2", "n > 99"])
def test_only_what_a_selector_chooses(selector: str) -> None:
    driven = Driven()
    numbered(driven)
    chosen = {"n = 1 OR n = 3 OR n = 5": [1, 3, 5], "n < 2": [0, 1], "n > 99": []}[selector]
    assert driven.do(admin.purge, driven.core, "queue:q", selector) == len(chosen)
    assert driven.left("q") == [b"%d" % n for n in range(6) if n not in chosen]
    removed = [
        one for record in driven.said(Remove) for first, rows in record.ranges for one in range(first, first + rows)
    ]
    assert sorted(removed) == [n + 1 for n in chosen]


def test_purge_lets_producers_go_on() -> None:
    driven = Driven(queue_limit=100, producer_window=100)
    producer = driven.producer("queue:q")
    driven.send(producer, b"x" * 100)
    assert driven.core.flow.held.keys() == {producer}
    driven.do(admin.purge, driven.core, "queue:q")
    assert driven.core.flow.held == {}


def test_delayed_messages_are_purged_too() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), single(b"1", deliver_at=NOW + 5), persistent=True)
    driven.sync()
    assert driven.do(admin.purge, driven.core, "queue:q") == 1
    driven.tick(5)
    assert (driven.left("q"), driven.memory) == ([], 0)


# Move


@pytest.mark.parametrize("persistent", [True, False])
def test_messages_are_moved_in_order_each_in_one_step(persistent: bool) -> None:
    driven = Driven()
    numbered(driven, persistent=persistent)
    assert driven.do(admin.move, driven.core, "queue:q", "queue:r") == 6
    if persistent:
        commits = driven.said(Commit)
        assert [[put.targets for put in one.puts] for one in commits] == [[((2, 1),)], [((2, 6),)]]
        assert [one.removes for one in commits] == [(Remove(1, ((1, 5),)),), (Remove(1, ((6, 1),)),)]
        assert driven.left("r") == []
        driven.sync()
    assert (driven.left("q"), driven.left("r")) == ([], [b"%d" % n for n in range(6)])
    assert {span.origin for span in driven.queue("r").spans()} == {"queue:q"}
    assert (driven.queue("q").size, driven.queue("q").in_memory, driven.queue("r").in_memory) == (0, 0, driven.memory)


def test_some_of_them() -> None:
    driven = Driven()
    numbered(driven)
    assert driven.do(admin.move, driven.core, "queue:q", "queue:r", "n >= 2", 3) == 3
    driven.sync()
    assert (driven.left("q"), driven.left("r")) == ([b"0", b"1", b"5"], [b"2", b"3", b"4"])
    assert driven.do(admin.move, driven.core, "queue:q", "queue:r", most=1) == 1
    driven.sync()
    assert driven.left("r") == [b"2", b"3", b"4", b"0"]


def test_dead_letters_go_back() -> None:
    driven = Driven(redelivery_limit=1)
    numbered(driven, 2)
    driven.close(driven.consumer("queue:q"))
    driven.sync()
    assert driven.left("dead-letters") == [b"0", b"1"]
    driven.do(admin.move, driven.core, "queue:dead-letters", "queue:q")
    driven.sync()
    consumer = driven.consumer("queue:q")
    assert driven.delivered[consumer] == [(b"0", False), (b"1", False)]


def test_where_messages_cannot_be_moved() -> None:
    driven = Driven()
    numbered(driven)
    queues = {*driven.core.destinations.queues}
    for to in ("queue:q", "topic:t", "queue:temporary.1.1"):
        with pytest.raises(CommandError):
            admin.move(driven.core, "queue:q", to)
    with pytest.raises(BadSelectorError):
        admin.move(driven.core, "queue:q", "queue:r", "n >")
    assert {*driven.core.destinations.queues} == queues
    assert (len(driven.left("q")), driven.records) == (6, [])


def test_a_subscription_can_be_moved_from() -> None:
    driven = Driven()
    driven.close(driven.consumer("topic:t", durable="d"))
    driven.send(driven.producer("topic:t"), b"1", persistent=True)
    driven.sync()
    driven.do(admin.move, driven.core, "subscription:d", "queue:q")
    driven.sync()
    assert driven.left("q") == [b"1"]
    assert [span.origin for span in driven.queue("q").spans()] == ["topic:t"]


# Delete


def test_a_deleted_queue_is_gone_with_all_on_it() -> None:
    driven = Driven()
    numbered(driven)
    driven.do(admin.delete, driven.core, "queue:q")
    # The journal forgets the messages with their queue.
    assert driven.records == [Forget(1)]
    assert (driven.memory, driven.core.destinations.queues, driven.core.destinations.numbered) == (0, {}, {})


def test_a_queue_in_use_is_not_deleted() -> None:
    driven = Driven()
    numbered(driven)
    driven.consumer("queue:q", 0)
    with pytest.raises(CommandError, match="1 consumers"):
        admin.delete(driven.core, "queue:q")
    assert len(driven.left("q")) == 6


def test_its_producers_are_told() -> None:
    driven = Driven(queue_limit=100, producer_window=100)
    producer = driven.producer("queue:q")
    driven.send(producer, b"x" * 100)
    driven.do(admin.delete, driven.core, "queue:q")
    assert driven.core.flow.held == {}
    with pytest.raises(CommandError, match="gone"):
        driven.send(producer, b"1")


def test_a_new_queue_of_the_name_is_another() -> None:
    driven = Driven()
    numbered(driven)
    driven.do(admin.delete, driven.core, "queue:q")
    driven.send(driven.producer("queue:q"), b"new", persistent=True)
    driven.sync()
    assert driven.queue("q").number == 2
    assert driven.left("q") == [b"new"]


def test_sends_on_their_way_when_a_queue_is_deleted() -> None:
    """To disk, or committed: they are confirmed, go nowhere, and the journal knows no such queue."""
    driven = Driven()
    producer = driven.producer("queue:q")
    early = driven.session(transacted=True)
    driven.send(producer, b"1", persistent=True, confirm=True)
    driven.send(driven.producer("queue:q", early), b"2", persistent=True)
    driven.send(driven.producer("queue:other", early), b"3", persistent=True)
    driven.commit(early)
    driven.do(admin.delete, driven.core, "queue:q")
    forgotten = driven.records.index(Forget(1))
    for record in driven.records[forgotten + 1 :]:
        puts = getattr(record, "puts", ())
        assert all(number != 1 for put in puts for number, _ in put.targets)
    driven.sync()
    assert (driven.confirmed, len(driven.answers)) == ([(producer, 1)], 1)
    assert (driven.left("other"), driven.memory) == ([b"3"], driven.queue("other").in_memory)
    after = driven.restarted()
    assert {*after.core.destinations.queues} == {"other"}
    assert after.left("other") == [b"3"]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("prepares", [True, False])
def test_a_transaction_that_sent_to_a_queue_that_is_deleted_can_only_be_rolled_back(
    closed: bool, prepares: bool
) -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    consumer = driven.consumer("queue:in", session=session)
    driven.send(driven.producer("queue:in"), b"in")
    driven.acknowledge(consumer, 1)
    producer, other = driven.producer("queue:q", session), driven.producer("queue:other", session)
    driven.send(producer, b"1", persistent=True)
    driven.send(other, b"2", persistent=True)
    if closed:
        driven.do(driven.core.finish_producer, producer)
    driven.do(admin.delete, driven.core, "queue:q")
    end = partial(driven.core.prepare, session, "x", DONE) if prepares else partial(driven.core.commit, session)
    with pytest.raises(CommandError, match=r"only be rolled back: queue:q is gone"):
        end()
    driven.rollback(session)
    assert (driven.left("in"), driven.left("other"), driven.queue("other").messages) == ([b"in"], [], 0)
    driven.send(other, b"3", persistent=True)
    driven.commit(session)
    driven.sync()
    assert driven.left("other") == [b"3"]


def test_what_a_transaction_has_taken_from_a_queue_that_is_deleted() -> None:
    for commit in (True, False):
        driven = Driven()
        session = driven.session(transacted=True)
        consumer = driven.consumer("queue:q", session=session)
        driven.send(driven.producer("queue:q"), *(b"%d" % n for n in range(6)), persistent=True)
        driven.sync()
        driven.acknowledge(consumer, 3)
        driven.close(consumer)
        driven.do(admin.delete, driven.core, "queue:q")
        driven.do(driven.core.commit if commit else driven.core.rollback, session)
        driven.sync()
        assert driven.memory == 0
        assert driven.restarted().core.destinations.queues == {}


# What is there


def test_the_list() -> None:
    driven = Driven()
    numbered(driven)
    consumer = driven.consumer("topic:t.*", 0, driven.session(client="me"), durable="d", selector="n > 1")
    driven.producer("topic:t.a")
    driven.core.destinations.temporary_queue(driven)
    queue, temporary, subscription = admin.list_queues(driven.core)
    watched = queue.pop("monitoring")
    assert watched["last_get_ms"] is None
    assert queue.pop("counters")["put"] == 6
    assert queue == {
        "name": "queue:q",
        "messages": 6,
        "bytes": driven.queue("q").size,
        "consumers": 0,
        "producers": 1,
        "temporary": False,
    }
    assert temporary["temporary"]
    assert subscription["name"] == consumer.queue.full_name == "subscription:me/d"
    assert (subscription["topic"], subscription["selector"]) == ("topic:t.*", "n > 1")
    assert (subscription["durable"], subscription["shared"]) == (True, False)
    assert (subscription["consumers"], subscription["producers"]) == (1, 1)


def test_one_in_full() -> None:
    driven = Driven()
    numbered(driven)
    consumer = driven.consumer("queue:q", 3)
    driven.acknowledge(consumer, 1)
    driven.close(consumer)
    about = admin.describe(driven.core, "queue:q")
    assert (about["messages"], about["full"], about["oldest_id"]) == (5, False, 2)
    # Four messages of a batch of five are left, and a single one.
    assert about["in_memory"] == about["bytes"] + FOOTPRINT * 4 // 5 + FOOTPRINT
    wanted = {
        "put": 6,
        "delivered": 3,
        "acknowledged": 1,
        "redelivered": 2,
        "expired": 0,
        "dead": 0,
        "dropped": 0,
        "saved": 0,
    }
    assert about["counters"] == wanted
    assert about["policy"]["redelivery_limit"] == 10


def test_totals() -> None:
    driven = Driven()
    numbered(driven)
    driven.consumer("topic:t")
    session = driven.session(transacted=True)
    driven.send(driven.producer("queue:q", session), b"1")
    driven.do(driven.core.prepare, session, "x", DONE)
    totals = admin.totals(driven.core)
    wanted = {
        "messages": 7,
        "queues": 1,
        "topics": 1,
        "subscriptions": 1,
        "prepared": 1,
        "held_producers": 0,
        "disk_full": "",
    }
    assert {name: totals[name] for name in wanted} == wanted
    queues = [*driven.core.destinations.all_queues()]
    assert (totals["bytes"], totals["memory"]) == (sum(queue.size for queue in queues), driven.memory)
    assert driven.memory == sum(queue.in_memory for queue in queues) > totals["bytes"]
    assert admin.list_prepared(driven.core) == [{"xid": "x", "sent": 1, "received": 0}]


@pytest.mark.parametrize("name", ["queue:none", "topic:t", "subscription:none", "q", ""])
def test_what_there_is_not(name: str) -> None:
    driven = Driven()
    driven.producer("topic:t")
    for command in (admin.describe, admin.purge, admin.delete):
        with pytest.raises(CommandError, match="there is no"):
            command(driven.core, name)


def test_a_disk_that_is_full_takes_nothing_persistent() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.core.disk_full = "no space left"
    with pytest.raises(CommandError, match="no space left"):
        driven.send(producer, b"1", persistent=True)
    driven.send(producer, b"2")
    driven.core.disk_full = ""
    driven.send(producer, b"3", persistent=True)
    driven.sync()
    assert [decode(span.encoded()).tolist() for span in driven.queue("q").spans()] == [[b"2"], [b"3"]]


@pytest.mark.parametrize("what", ["purge", "move", "delete", "unsubscribe"])
def test_what_is_done_is_answered_when_it_is_durable(what: str) -> None:
    driven = Driven()
    numbered(driven, persistent=True)
    driven.close(driven.consumer("topic:t", session=driven.session(client="me"), durable="d"))
    driven.sync()
    begun = driven.core.records.lsn
    if what == "unsubscribe":
        driven.core.unsubscribe("me", "d")
    else:
        getattr(admin, what)(driven.core, "queue:q", *(["queue:r"] if what == "move" else []))
    driven.do(driven.core.answer_when_durable, begun, DONE)
    assert driven.answers == []
    driven.sync()
    assert driven.answers == [DONE]
    assert (
        driven.left("r") == [b"%d" % n for n in range(6)]
        if what == "move"
        else "r" not in driven.core.destinations.queues
    )


def test_the_last_record_of_what_is_done_is_waited_for() -> None:
    """Without anybody who waits, the journal would be in no hurry to sync it."""
    driven = Driven()
    numbered(driven, persistent=True)
    driven.sync()
    begun = driven.core.records.lsn
    admin.delete(driven.core, "queue:q")
    driven.core.answer_when_durable(begun, DONE)
    appended = [effect for effect in driven.core.effects if isinstance(effect, Append)]
    assert [(type(one.record), one.waiter) for one in appended] == [(Forget, DONE.owner)]


def test_what_needs_no_record_is_answered_at_once() -> None:
    driven = Driven(stored=False)
    numbered(driven, persistent=False)
    begun = driven.core.records.lsn
    admin.purge(driven.core, "queue:q")
    driven.do(driven.core.answer_when_durable, begun, DONE)
    assert driven.answers == [DONE]


def delayed(driven: Driven, *, persistent: bool = False) -> None:
    """0, 2 and 4 wait until NOW + 100, the others do not; 5 is alone, and waits until NOW + 50."""
    producer = driven.producer("queue:q")
    rows = [(b"%d" % n, {"n": n} if n % 2 else {"n": n, "deliver_at": NOW + 100}) for n in range(5)]
    driven.put(producer, batch(*rows), persistent=persistent)
    driven.put(producer, single(b"5", n=5, deliver_at=NOW + 50), persistent=persistent)
    driven.sync()


def test_messages_that_are_not_due_are_purged_like_others() -> None:
    driven = Driven()
    delayed(driven)
    assert driven.do(admin.purge, driven.core, "queue:q", "n > 2") == 3
    assert driven.queue("q").messages == 3
    driven.tick(100)
    assert driven.left("q") == [b"0", b"1", b"2"]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("selector", ["", "n <> 2"])
def test_messages_that_are_not_due_are_moved_and_wait_where_they_are_then(selector: str, persistent: bool) -> None:
    driven = Driven()
    delayed(driven, persistent=persistent)
    there = {0, 1, 3, 4, 5} if selector else {*range(6)}
    assert driven.do(admin.move, driven.core, "queue:q", "queue:r", selector) == len(there)
    driven.sync()
    after = driven.restarted() if persistent else driven
    assert after.left("r") == [b"1", b"3"]
    after.tick(50)
    assert {*after.left("r")} == {b"1", b"3", b"5"}
    after.tick(50)
    assert {*after.left("r")} == {b"%d" % n for n in there}
    assert after.left("q") == [b"%d" % n for n in {*range(6)} - there]


def test_no_more_than_asked_for_also_of_those_that_are_not_due() -> None:
    driven = Driven()
    delayed(driven)
    assert driven.do(admin.move, driven.core, "queue:q", "queue:r", "", 3) == 3
    assert (driven.left("q"), driven.left("r")) == ([], [b"1", b"3"])
    driven.tick(100)
    assert (driven.left("q"), driven.left("r")) == ([b"2", b"4", b"5"], [b"1", b"3", b"0"])


def test_a_deep_queue_is_purged_moved_and_deleted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes meanwhile stays; what consumers take meanwhile is theirs."""
    monkeypatch.setattr(limits, "SLICE", 16)
    driven = Driven()
    producer = driven.producer("queue:q")
    for n in range(100):
        driven.put(producer, single(b"%d" % n, n=n))
    work = admin.move_slices(driven.core, "queue:q", "queue:r")
    driven.do(next, work)
    assert driven.left("r") == [b"%d" % n for n in range(16)]
    consumer = driven.consumer("queue:q", 4)
    driven.put(producer, single(b"new", n=100))
    driven.close(consumer, 0)
    slices = 1
    for _ in work:
        driven.take()
        slices += 1
    assert slices == 100 // 16 + 1
    driven.take()
    assert driven.left("r") == [b"%d" % n for n in range(100)]
    assert driven.left("q") == [b"new"]
    assert driven.do(admin.purge, driven.core, "queue:r", "n >= 50") == 50
    driven.do(admin.delete, driven.core, "queue:r")
    assert "r" not in driven.core.destinations.queues
    assert driven.go_on() >= 50 // 16
    assert driven.memory == driven.queue("q").in_memory


def test_a_target_that_is_deleted_meanwhile_gets_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICE", 2)
    driven = Driven()
    driven.send(driven.producer("queue:q"), b"1")
    for n in range(3):
        driven.put(driven.producer("queue:q"), single(b"%d" % n))
    work = admin.move_slices(driven.core, "queue:q", "queue:r")
    driven.do(next, work)
    driven.do(admin.delete, driven.core, "queue:r")
    with pytest.raises(CommandError, match="deleted when 2 messages"):
        next(work)
    assert driven.queue("q").messages == 2
