"""What one connection can make the broker hold beside messages on queues: counted, and bounded."""

import pytest

from mqlab.broker import limits
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.broker.core.model.sessions import CoreProducer, CoreSession
from mqlab.broker.core.routing.subscriptions import ConsumerOptions

from .commands import Driven
from .payloads import single

KIB, MIB = 1024, 1024 * 1024
MEMORY = 16 * MIB


def _senders(driven: Driven, count: int, owner: object) -> list[CoreProducer]:
    sessions = [driven.session(transacted=True, owner=owner) for _ in range(count)]
    return [driven.producer(f"queue:{n}", session) for n, session in enumerate(sessions)]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_transactions_of_a_connection_have_a_part_of_memory(more: int) -> None:
    driven, mine = Driven(memory_limit=MEMORY, producer_window=8 * MIB, queue_limit=8 * MIB), object()
    one, other = _senders(driven, 2, mine)
    share = MEMORY // limits.TRANSACTIONS_OF_A_CONNECTION
    driven.send(one, b"x" * (share - 10 * KIB))
    rest = share - driven.memory - FOOTPRINT - len(single(b"").data)
    if more <= 0:
        driven.send(other, b"x" * (rest + more))
        assert driven.memory == driven.core.destinations.accounts.bytes == share + more
        driven.commit(other.session)
    else:
        with pytest.raises(CommandError, match=str(share)):
            driven.send(other, b"x" * (rest + more))
        # The other transaction is whole, and the memory of this one is free.
        with pytest.raises(CommandError, match="only be rolled back"):
            driven.commit(other.session)
        driven.rollback(other.session)
    driven.commit(one.session)
    assert driven.core.destinations.accounts.bytes == 0
    assert driven.queue("0").messages == 1


def test_open_transactions_of_all_connections_leave_memory_for_messages() -> None:
    driven = Driven(memory_limit=MEMORY, producer_window=8 * MIB, queue_limit=8 * MIB)
    size, most = MEMORY // 5, MEMORY // limits.TRANSACTIONS_OF_ALL
    one, other, third = (_senders(driven, 1, object())[0] for _ in range(3))
    driven.send(one, b"x" * size)
    driven.send(other, b"x" * size)
    with pytest.raises(CommandError, match=f"all connections.*{most}"):
        driven.send(third, b"x" * size)
    driven.rollback(third.session)
    driven.commit(one.session)
    driven.send(third, b"x" * size)
    driven.commit(third.session)


def test_a_channel_has_room_for_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another broker: what is refused would become a dead letter there, whoever takes the memory now."""
    monkeypatch.setattr(limits, "TRANSACTIONS_OF_CHANNELS", 6 * MIB)
    driven = Driven(memory_limit=MEMORY, producer_window=8 * MIB, queue_limit=8 * MIB)
    size, most = MEMORY // 5, MEMORY // limits.TRANSACTIONS_OF_ALL + 6 * MIB
    for _ in range(2):
        driven.send(_senders(driven, 1, object())[0], b"x" * size)
    session = driven.session(transacted=True, owner=object())
    driven.consumer("queue:channel.B", session=session)
    through = driven.producer("queue:q", session)
    for _ in range(2):
        driven.send(through, b"x" * size)
    with pytest.raises(CommandError, match=f"all connections.*{most}"):
        driven.send(through, b"x" * size)
    driven.rollback(session)


def test_a_channel_may_send_what_is_longer_than_its_credit_to_a_full_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OVERDRAFT_LEAST", 0)
    driven = Driven(memory_limit=16 * KIB, producer_window=KIB, queue_limit=MIB)
    idle, producer = driven.producer("queue:idle"), driven.producer("queue:q")
    driven.send(idle, b"x" * (32 * KIB))
    with pytest.raises(CommandError, match="bytes in memory"):
        driven.send(producer, b"x" * (8 * KIB))
    session = driven.session()
    driven.consumer("queue:channel.B", session=session)
    driven.send(driven.producer("queue:q", session), b"x" * (8 * KIB))
    assert driven.queue("q").messages == 1


@pytest.mark.parametrize("end", ["commit", "rollback", "lose"])
def test_an_ended_transaction_is_charged_nothing(end: str) -> None:
    driven = Driven()
    (producer,) = _senders(driven, 1, object())
    driven.send(producer, b"x" * 1000)
    assert driven.memory > 1000
    getattr(driven, end)(producer.session)
    assert driven.core.destinations.accounts.bytes == 0
    assert driven.memory == driven.queue("0").in_memory


def test_what_follows_a_refused_send_is_not_kept() -> None:
    driven = Driven(stored=False)
    (producer,) = _senders(driven, 1, object())
    driven.send(producer, b"1")
    with pytest.raises(CommandError):
        driven.send(producer, b"2", persistent=True)
    driven.send(producer, b"x" * 1000)
    assert driven.memory == 0
    assert not producer.session.transaction.sends


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_sends_of_a_transaction_are_bounded(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRANSACTION_SENDS", 4)
    driven = Driven()
    (producer,) = _senders(driven, 1, object())
    for n in range(3 + more):
        driven.send(producer, b"%d" % n, b"batch")
    if more > 0:
        with pytest.raises(CommandError, match="at most 4 messages or batches"):
            driven.send(producer, b"last")
    else:
        driven.send(producer, b"last")
        driven.commit(producer.session)
        assert driven.queue("0").messages == 2 * (3 + more) + 1


def test_many_single_messages_of_a_transaction_become_few_batches() -> None:
    """In their order, with their headers, and charged for what they take."""
    driven = Driven()
    session = driven.session(transacted=True)
    one, other = driven.producer("queue:q", session), driven.producer("queue:r", session)
    for n in range(300):
        driven.put(one if n % 100 else other, single(b"%d" % n, n=n % 7), persistent=n > 200)
    sends = session.transaction.sends
    assert len(sends) < 80
    assert driven.memory == session.account.bytes == sum(span.memory for _, span in sends)
    driven.commit(session)
    driven.sync()
    assert driven.got(driven.consumer("queue:q", selector="n < 3")) == [
        b"%d" % n for n in range(300) if n % 100 and n % 7 < 3
    ]
    assert driven.got(driven.consumer("queue:r")) == [b"0", b"100", b"200"]
    assert driven.core.destinations.accounts.bytes == 0


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_memory_that_is_not_counted_leaves_less_for_transactions(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages on queues take no memory here, so that no producer is held back for it."""
    monkeypatch.setattr(limits, "UNCOUNTED_LEAST", 0)
    driven = Driven(memory_limit=MEMORY, producer_window=8 * MIB, queue_limit=8 * MIB)
    one, other = (_senders(driven, 1, object())[0] for _ in range(2))
    beside = 3 * MIB
    driven.send(one, b"x" * (3 * MIB))
    driven.core.record_growth(driven.memory + MEMORY // limits.UNCOUNTED_SHARE + beside)
    most = MEMORY // limits.TRANSACTIONS_OF_ALL - beside
    body = b"x" * (most - driven.memory - FOOTPRINT - len(single(b"").data) + more)
    if more <= 0:
        driven.send(other, body)
        driven.commit(other.session)
    else:
        with pytest.raises(CommandError, match=f"all connections have at most {most} bytes"):
            driven.send(other, body)
        driven.core.record_growth(driven.memory + MEMORY // limits.UNCOUNTED_SHARE)
        driven.rollback(other.session)
        driven.send(other, body)
    driven.commit(one.session)


def test_little_memory_leaves_room_for_small_transactions() -> None:
    driven = Driven(memory_limit=1000)
    (producer,) = _senders(driven, 1, object())
    driven.send(producer, b"x" * 10)
    driven.commit(producer.session)
    assert driven.queue("0").messages == 1


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_prepared_transactions_are_bounded(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PREPARED", 3)
    driven = Driven()
    session = driven.session(transacted=True)
    for n in range(min(3 + more, 3)):
        driven.do(driven.core.prepare, session, f"x{n}", Answer(driven, n, {}))
    if more > 0:
        with pytest.raises(CommandError, match="at most 3 prepared"):
            driven.core.prepare(session, "another", Answer(driven, 9, {}))
    assert len(driven.core.two_phase_commit.waiting) == min(3 + more, 3)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_waiting_receives_are_bounded(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECEIVES_A_CONNECTION", 4)
    driven, mine, other = Driven(), object(), object()
    first, second = (driven.consumer(f"queue:{n}", 0, driven.session(owner=mine)) for n in "qr")
    for n in range(3 + more):
        driven.receive((first, second)[n % 2], f"id{n}")
    if more > 0:
        with pytest.raises(CommandError, match="at most 4 messages by their ids"):
            driven.receive(first, "another")
    else:
        driven.receive(first, "another")
    # Others have their own; what has come, and what is cancelled, makes room.
    driven.receive(driven.consumer("queue:q", 0, driven.session(owner=other)), "id9")
    driven.put(driven.producer("queue:q"), single(b"reply", correlation_id="id0"))
    driven.receive(first, "again")
    driven.core.cancel_receives(first)
    driven.close(second)
    assert (first.receives, second.receives, first.session.account.receives) == (0, 0, 0)


def test_the_id_of_a_waiting_receive_is_bounded() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", 0)
    driven.receive(consumer, "x" * limits.RECEIVE_ID)
    with pytest.raises(CommandError, match="1024"):
        driven.receive(consumer, "x" * (limits.RECEIVE_ID + 1))


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_temporary_queues_of_a_connection_are_bounded(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TEMPORARY_QUEUES_A_CONNECTION", 3)
    driven, mine = Driven(), object()
    queues = [driven.core.destinations.temporary_queue(mine) for _ in range(min(3, 3 + more))]
    if more > 0:
        with pytest.raises(CommandError, match="at most 3 temporary"):
            driven.core.destinations.temporary_queue(mine)
    if more >= 0:
        driven.core.removal.delete(queues.pop())
    queues.append(driven.core.destinations.temporary_queue(mine))
    driven.core.destinations.temporary_queue(object())
    driven.do(driven.core.close_connection, mine)
    assert [*driven.core.destinations.queues.values()] == [
        one for one in driven.core.destinations.all_queues() if one not in queues
    ]
    assert len(driven.core.destinations.queues) == 1


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_destinations_are_bounded(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues, topics and subscriptions together; one that is there can be used however many there are."""
    monkeypatch.setattr(limits, "DESTINATIONS", 5)
    driven = Driven(redelivery_limit=1, dead_letters="queue:dead")
    driven.producer("queue:q")
    driven.producer("topic:t")
    driven.consumer("topic:t")
    if more >= 0:
        driven.producer("queue:r")
    if more > 0:
        driven.core.destinations.temporary_queue(driven)
        for name in ("queue:new", "topic:new"):
            with pytest.raises(CommandError, match="at most 5 queues"):
                driven.producer(name)
        with pytest.raises(CommandError, match="at most 5"):
            driven.consumer("topic:t")
        with pytest.raises(CommandError, match="at most 5"):
            driven.core.destinations.temporary_queue(driven)
    else:
        driven.producer("queue:new")
    # The broker's own are made in any case: no message is lost for want of a dead-letter queue.
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.send(producer, b"1")
    driven.close(consumer)
    assert driven.left("dead") == [b"1"]


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("name", ["topic:t", "topic:#"])
def test_subscriptions_of_a_topic_are_bounded(name: str, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_A_TOPIC", 3)
    driven = Driven()
    subscribed = [driven.consumer(name) for _ in range(min(3 + more, 3))]
    if more > 0:
        with pytest.raises(CommandError, match="at most 3 subscriptions"):
            driven.consumer(name)
        driven.close(subscribed.pop())
        subscribed.append(driven.consumer(name))
    driven.send(driven.producer("topic:t"), b"1")
    assert all(driven.got(one) == [b"1"] for one in subscribed)


def test_a_subscription_with_a_selector_weighs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_A_TOPIC", 2 * limits.SELECTOR_WEIGHT + 1)
    driven = Driven()
    for _ in range(2):
        driven.consumer("topic:t", selector="n = 1")
    with pytest.raises(CommandError, match="subscriptions"):
        driven.consumer("topic:t", selector="n = 1")
    driven.consumer("topic:t")
    with pytest.raises(CommandError, match="subscriptions"):
        driven.consumer("topic:t")


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_selectors_of_a_queue_are_bounded(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SELECTORS_A_QUEUE", 3)
    driven = Driven()
    consumers = [driven.consumer("queue:q", selector="n = 1") for _ in range(min(3, 3 + more))]
    if more > 0:
        with pytest.raises(CommandError, match="at most 3 selectors"):
            driven.consumer("queue:q", selector="n = 1")
        # Others are not counted, and one that is closed makes room.
        driven.consumer("queue:q")
        driven.consumer("queue:r", selector="n = 1")
        driven.close(consumers.pop())
        driven.consumer("queue:q", selector="n = 1")
    assert sum(one.selector is not None for one in driven.queue("q").consumers) == min(3, 3 + more)


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("name", ["queue:q", "topic:t"])
def test_a_long_selector_counts_as_several(name: str, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with 2 x 256 characters counts as three."""
    monkeypatch.setattr(limits, "SELECTORS_A_QUEUE", 4)
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_A_TOPIC", 4 * limits.SELECTOR_WEIGHT)
    text = "n = '{}'"
    selector = text.format("x" * (2 * limits.SELECTOR_PART + more - len(text.format(""))))
    driven = Driven()
    driven.consumer(name, selector=selector)
    driven.consumer(name, selector="n = 1")
    if more < 0:
        driven.consumer(name, selector="n = 1")
    with pytest.raises(CommandError, match="at most"):
        driven.consumer(name, selector="n = 1")


def test_the_credit_of_many_producers_is_bounded() -> None:
    driven = Driven(memory_limit=64 * MIB)
    first = driven.producer("queue:q")
    assert first.window == 4 * MIB
    many = [driven.producer("queue:q") for _ in range(1000)]
    granted = sum(one.window for one in (first, *many))
    assert granted <= 64 * MIB // limits.CREDIT_SHARE + 1000 * limits.CREDIT_LEAST
    assert min(one.window for one in many) == limits.CREDIT_LEAST
    for one in many:
        driven.core.close_producer(one)
    assert driven.producer("queue:q").window == 4 * MIB


@pytest.mark.parametrize("transacted", [True, False])
@pytest.mark.parametrize("size", [0, 100 * KIB])
def test_what_credit_does_not_count_is_refused_above_the_limit(
    size: int, transacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty messages need no credit, and each producer may send one that is longer than its credit."""
    monkeypatch.setattr(limits, "OVERDRAFT_LEAST", 100 * KIB)
    driven = Driven(memory_limit=MIB // 2, queue_limit=64 * MIB)
    most = driven.core.flow.most_memory
    producer = driven.producer("queue:r", driven.session(transacted=transacted))
    # All are opened before the broker is full: then they have credit.
    count = most // (size + FOOTPRINT) + 1
    others = [driven.producer("queue:q", driven.session(owner=object())) for _ in range(count)]
    while driven.memory <= most:
        driven.send(others.pop(), b"x" * size)
    with pytest.raises(CommandError, match=f"more than {most} bytes"):
        driven.send(producer, b"x" * size)
    assert driven.memory < MIB
    consumer = driven.consumer("queue:q", 10_000)
    driven.acknowledge(consumer, consumer.next_delivery - 1)
    driven.go_on()
    if transacted:
        driven.rollback(producer.session)
    driven.send(producer, b"x")


OPENED = {
    "sessions": limits.SESSION_BYTES,
    "producers": limits.PRODUCER_BYTES,
    "consumers": limits.CONSUMER_BYTES,
    "browsers": limits.CONSUMER_BYTES,
    "selectors": limits.CONSUMER_BYTES + limits.SELECTOR_BYTES * len("n = 1"),
    "receives": limits.RECEIVE_BYTES * limits.RECEIVES_CHARGED,
    "temporaries": limits.TEMPORARY_QUEUE_BYTES,
}


def _open(driven: Driven, kind: str, session: CoreSession, number: int) -> None:
    if kind == "sessions":
        driven.session(owner=session.owner)
    elif kind == "producers":
        driven.producer("queue:q", session)
    elif kind == "consumers":
        driven.consumer("queue:q", 0, session)
    elif kind == "browsers":
        driven.consumer("queue:q", 0, session, browse=True)
    elif kind == "selectors":
        driven.core.open_consumer(session, number, "queue:q", 0, ConsumerOptions(selector="n = 1"))
    elif kind == "temporaries":
        driven.core.destinations.temporary_queue(session.owner)
    else:
        # As many as are charged at a time.
        consumer = session.consumers[0] if session.consumers else driven.consumer("queue:q", 0, session)
        for n in range(limits.RECEIVES_CHARGED):
            driven.receive(consumer, f"{number}.{n}")


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("kind", OPENED)
def test_all_that_connections_open_is_charged_and_bounded(
    kind: str, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some come with a connection; those of all connections above that have a part of memory."""
    size, count = OPENED[kind], 6
    monkeypatch.setattr(limits, "OPENED_LEAST", 0)
    driven, mine, other = Driven(memory_limit=limits.OPENED_SHARE * 2 * count * size), object(), object()
    sessions = [driven.session(owner=mine), driven.session(owner=other)]
    if kind == "receives":
        for session in sessions:
            driven.consumer("queue:q", 0, session)
    # Each connection has opened what is free: from here on, all is charged.
    monkeypatch.setattr(limits, "OPENED_FREE", sessions[0].account.opened)
    for n in range(2 * count + min(more, 0)):
        _open(driven, kind, sessions[n % 2], n)
    assert driven.memory == driven.core.destinations.accounts.opened == (2 * count + min(more, 0)) * size
    if more > 0:
        with pytest.raises(CommandError, match=f"all connections have at most {2 * count * size} bytes"):
            _open(driven, kind, sessions[0], 99)
        # What comes with a connection is not refused.
        driven.session(owner=object())
    for session, owner in zip(sessions, (mine, other), strict=True):
        driven.core.close_session(session)
        driven.do(driven.core.close_connection, owner)
    assert (driven.memory, driven.core.destinations.accounts.opened) == (0, 0)


@pytest.mark.parametrize("full_of", ["messages", "what is not counted"])
@pytest.mark.parametrize("kind", OPENED)
def test_a_full_broker_opens_less(kind: str, full_of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise connections would fill the memory once more that is full already. A few consumers can always come."""
    size = OPENED[kind]
    limit = limits.OPENED_WHEN_FULL_SHARE * 4 * size
    for name in ("OPENED_LEAST", "UNCOUNTED_LEAST"):
        monkeypatch.setattr(limits, name, 0)
    driven = Driven(memory_limit=limit, queue_limit=2 * limit, stored=False)
    accounts, session = driven.core.destinations.accounts, driven.session()
    if kind == "receives":
        driven.consumer("queue:q", 0, session)
    filling, consumer = driven.producer("queue:filling", session), driven.consumer("queue:filling", 1, session)
    monkeypatch.setattr(limits, "OPENED_FREE", session.account.opened)
    if full_of == "messages":
        driven.send(filling, b"x" * limit)
    else:
        driven.core.record_growth(driven.memory + limit + limit // limits.UNCOUNTED_SHARE)
    before = driven.memory
    for n in range(4):
        _open(driven, kind, session, n)
    with pytest.raises(CommandError, match=f"at most {4 * size} bytes of memory while the broker is full"):
        _open(driven, kind, session, 4)
    assert driven.memory - before == accounts.opened == 4 * size
    if full_of == "messages":
        driven.acknowledge(consumer, 1)
    else:
        driven.core.record_growth(driven.memory)
    for n in range(4, 4 * limits.OPENED_WHEN_FULL_SHARE // limits.OPENED_SHARE):
        _open(driven, kind, session, n)
    assert accounts.opened == limit // limits.OPENED_SHARE


@pytest.mark.parametrize("kind", OPENED)
def test_what_is_closed_is_charged_no_longer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPENED_FREE", 0)
    driven = Driven()
    session, base = driven.session(), driven.session(owner=object())
    before = driven.memory
    for n in range(9):
        _open(driven, kind, session, n)
    assert driven.memory >= before + 9 * OPENED[kind]
    for name in [*driven.core.destinations.accounts.of(session.owner).temporaries]:
        driven.core.removal.delete(driven.queue(name))
    for producer in [*session.producers]:
        driven.core.close_producer(producer)
    for consumer in [*session.consumers]:
        driven.close(consumer)
    for opened in [*driven.core.sessions]:
        if opened is not base:
            driven.core.close_session(opened)
    # A block of receives stays charged until the connection ends, so that the next ones cost nothing.
    left = limits.RECEIVES_CHARGED * limits.RECEIVE_BYTES if kind == "receives" else 0
    assert driven.memory == before - limits.SESSION_BYTES + left
    driven.do(driven.core.close_connection, session.owner)
    assert driven.memory == limits.SESSION_BYTES


def test_answered_receives_are_charged_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPENED_FREE", 0)
    driven = Driven(stored=False)
    consumer, producer = driven.consumer("queue:q", 0), driven.producer("queue:q")
    before, most = driven.memory, 10 * limits.RECEIVES_CHARGED
    for n in range(most):
        driven.receive(consumer, f"id{n}")
    assert driven.memory == before + most * limits.RECEIVE_BYTES
    for n in range(most):
        driven.put(producer, single(b"reply", correlation_id=f"id{n}"))
        driven.acknowledge(consumer, consumer.next_delivery - 1)
        assert consumer.session.account.receives * limits.RECEIVE_BYTES <= driven.memory - before
    assert driven.memory - before <= 4 * limits.RECEIVES_CHARGED * limits.RECEIVE_BYTES


def test_a_small_broker_has_memory_for_what_clients_open() -> None:
    driven = Driven(memory_limit=16 * KIB)
    assert driven.core.destinations.accounts.most_opened == limits.OPENED_LEAST
    producer = driven.producer("queue:q")
    for _ in range(100):
        driven.consumer("queue:q", 0)
    # That is more than all memory: messages that credit does not hold are refused only above the overdraft.
    driven.send(producer, b"x")


def test_what_connections_close_makes_room_for_producers_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPENED_FREE", 0)
    driven, other = Driven(memory_limit=64 * KIB), object()
    session = driven.session(owner=other)
    for _ in range(40):
        driven.consumer("queue:r", 0, session)
    producer = driven.producer("queue:q")
    assert driven.core.flow.held.keys() == {producer}
    driven.do(driven.core.close_session, session)
    assert not driven.core.flow.held
