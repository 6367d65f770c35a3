"""Flow control: a slow consumer holds its producers back, and nothing is dropped or grows without bound."""

from dataclasses import replace

import pytest

from mqlab.broker import limits
from mqlab.broker.core.durability import paging
from mqlab.broker.core.effects import Answer, Credit
from mqlab.broker.core.flow import OverdrawnError
from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer

from .commands import Driven
from .stand_ins import Disk

BODY = b"x" * 100


def send_while_there_is_credit(driven: Driven, producer: CoreProducer) -> int:
    sent = 0
    while driven.credit[producer] > 0:
        driven.send(producer, BODY)
        driven.credit[producer] -= len(BODY)
        sent += 1
    return sent


def test_a_producer_begins_with_a_window() -> None:
    driven = Driven(producer_window=700)
    assert driven.credit[driven.producer("queue:q")] == 700


def test_credit_is_renewed_by_half_a_window_not_for_each_message() -> None:
    driven = Driven(producer_window=1000)
    producer = driven.producer("queue:q")
    for _ in range(4):
        driven.send(producer, BODY)
    assert driven.credit[producer] == 1000
    driven.send(producer, BODY)
    assert driven.credit[producer] == 1500


def test_a_slow_consumer_holds_the_producer_back_at_the_limit_of_the_queue() -> None:
    driven = Driven(queue_limit=10_000, producer_window=1000)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 5)
    sent = send_while_there_is_credit(driven, producer)
    queue = driven.queue("q")
    assert 10_000 <= queue.size == sent * len(BODY) <= 10_000 + 1000
    assert driven.core.flow.held.keys() == {producer}
    assert driven.core.flow.holds == 1
    assert len(driven.got(consumer)) == 5


def test_the_producer_goes_on_when_the_queue_has_fallen_to_three_quarters() -> None:
    driven = Driven(queue_limit=10_000, producer_window=1000)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 1_000)
    send_while_there_is_credit(driven, producer)
    queue = driven.queue("q")
    gone = (queue.size - 7_500) // 100
    driven.acknowledge(consumer, gone - 1)
    assert queue.size == 7_600
    assert driven.credit[producer] <= 0
    driven.acknowledge(consumer, gone)
    assert queue.size == 7_500
    assert driven.credit[producer] > 0
    assert driven.core.flow.held == {}


def test_nothing_is_lost_on_the_way() -> None:
    driven = Driven(queue_limit=1_000, producer_window=400)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 3)
    sent = acknowledged = 0
    most = 0
    while sent < 200:
        if driven.credit[producer] > 0:
            driven.send(producer, b"%100d" % sent)
            driven.credit[producer] -= 100
            sent += 1
        else:
            acknowledged += 1
            driven.acknowledge(consumer, acknowledged, 1)
        most = max(most, driven.queue("q").size)
    driven.acknowledge(consumer, acknowledged, 1000)
    assert driven.got(consumer) == [b"%100d" % n for n in range(200)]
    assert most <= 1_000 + 400


def test_other_queues_are_not_held_back() -> None:
    driven = Driven(queue_limit=1_000, producer_window=400)
    producer, other = driven.producer("queue:slow"), driven.producer("queue:other")
    driven.consumer("queue:slow", 0)
    consumer = driven.consumer("queue:other")
    send_while_there_is_credit(driven, producer)
    for n in range(50):
        driven.send(other, BODY)
        driven.acknowledge(consumer, n + 1, 1)
    assert driven.core.flow.held.keys() == {producer}


def test_a_full_broker_holds_everybody_back_and_releases_everybody() -> None:
    driven = Driven(queue_limit=10_000, memory_limit=40 * (100 + FOOTPRINT), producer_window=400)
    producers = [driven.producer(f"queue:{n}") for n in range(5)]
    for producer in producers:
        send_while_there_is_credit(driven, producer)
    assert driven.core.flow.held.keys() == set(producers)
    assert driven.memory <= (40 + 5 * 4) * (100 + FOOTPRINT)
    consumers = [driven.consumer(f"queue:{n}") for n in range(5)]
    for consumer in consumers:
        driven.acknowledge(consumer, len(driven.got(consumer)))
    assert driven.core.flow.held == {}
    assert all(driven.credit[producer] > 0 for producer in producers)


def test_a_producer_that_is_opened_when_the_broker_is_full_waits_too() -> None:
    driven = Driven(queue_limit=10_000, memory_limit=40 * (100 + FOOTPRINT), producer_window=400)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    send_while_there_is_credit(driven, producer)
    late = driven.producer("queue:other")
    assert driven.credit[late] == 0
    assert driven.core.flow.held.keys() == {producer, late}
    driven.acknowledge(consumer, len(driven.got(consumer)))
    assert driven.core.flow.held == {}
    assert driven.credit[late] == late.window


def test_a_producer_that_is_opened_when_its_queue_is_full_waits_too() -> None:
    driven = Driven(queue_limit=1_000, producer_window=400)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    send_while_there_is_credit(driven, producer)
    late, other = driven.producer("queue:q"), driven.producer("queue:other")
    assert (driven.credit[late], driven.credit[other]) == (0, 400)
    driven.acknowledge(consumer, len(driven.got(consumer)))
    assert driven.credit[late] == 400


def send_until(driven: Driven, producer: CoreProducer, messages: int) -> None:
    """Until the broker has so many messages."""
    while driven.memory < messages * (100 + FOOTPRINT):
        driven.send(producer, BODY)
        driven.credit[producer] -= len(BODY)


def filled_half() -> tuple[Driven, CoreProducer, CoreConsumer]:
    """A broker with room for 40 messages, of which 20 are on a queue; their consumer has not acknowledged them."""
    driven = Driven(queue_limit=10_000, memory_limit=40 * (100 + FOOTPRINT), producer_window=400)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    send_until(driven, producer, 20)
    assert not driven.core.flow.held
    return driven, producer, consumer


def grow(driven: Driven, uncounted: int) -> None:
    """The process takes so many bytes more than are allowed to it beside what is counted."""
    driven.core.record_growth(driven.memory + limits.UNCOUNTED_LEAST - 400 + uncounted)
    driven.take()


@pytest.mark.parametrize("end", ["consumed", "shrunk"])
def test_memory_that_is_not_counted_holds_producers_back(end: str) -> None:
    driven, producer, consumer = filled_half()
    grow(driven, 1 << 40)
    # Of what is on queues, a quarter of the limit is left in peace: 20 and 10 messages count.
    send_while_there_is_credit(driven, producer)
    assert driven.core.flow.held.keys() == {producer}
    assert 30 <= driven.memory // (100 + FOOTPRINT) < 40
    if end == "consumed":
        driven.acknowledge(consumer, len(driven.got(consumer)))
    else:
        gone = driven.memory // (100 + FOOTPRINT) - 25
        driven.acknowledge(consumer, gone, gone)
        assert driven.core.flow.held.keys() == {producer}, "25 and 10 are more than three quarters of 40"
        grow(driven, 0)
    assert driven.core.flow.held == {}
    assert driven.credit[producer] > 0


def test_growth_holds_nobody_back_whose_queues_are_nearly_empty() -> None:
    driven, producer, consumer = filled_half()
    driven.acknowledge(consumer, len(driven.got(consumer)))
    grow(driven, 1 << 40)
    for messages in range(1, 10):
        send_until(driven, producer, messages)
        grow(driven, 1 << 40)
        assert driven.core.flow.held == {}


def test_growth_below_what_is_allowed_holds_nobody_back() -> None:
    driven, producer, _ = filled_half()
    grow(driven, 0)
    send_until(driven, producer, 39)
    assert driven.core.flow.held == {}


@pytest.mark.parametrize(("more", "held_at"), [(0, 40), (8, 32)])
def test_of_a_large_limit_a_share_is_allowed_to_what_is_not_counted(
    more: int, held_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a limit of 40 messages, five may be taken; what is beyond counts."""
    monkeypatch.setattr(limits, "UNCOUNTED_LEAST", 0)
    driven, producer, _ = filled_half()
    driven.core.record_growth(driven.memory - 400 + (5 + more) * (100 + FOOTPRINT))
    send_until(driven, producer, held_at - 1)
    assert driven.core.flow.held == {}
    send_while_there_is_credit(driven, producer)
    assert driven.core.flow.held.keys() == {producer}
    assert driven.memory // (100 + FOOTPRINT) <= held_at + 4, "a window of 400 bytes"


@pytest.mark.parametrize("end", ["rollback", "commit", "prepare"])
def test_producers_go_on_when_a_transaction_returns_its_memory(end: str) -> None:
    driven = Driven(memory_limit=40 * (100 + FOOTPRINT), producer_window=400)
    # Nobody is subscribed: nothing is left of it after a commit either.
    transacted, other = driven.producer("topic:t", driven.session(transacted=True)), driven.producer("queue:other")
    while driven.memory < 40 * (100 + FOOTPRINT):
        driven.send(transacted, BODY)
    send_while_there_is_credit(driven, other)
    assert other in driven.core.flow.held
    if end == "prepare":
        driven.core.prepare(transacted.session, "x", Answer(driven, 1, {}))
        driven.take()
    else:
        getattr(driven, end)(transacted.session)
    assert driven.memory < 20 * (100 + FOOTPRINT)
    assert driven.core.flow.held == {}
    assert driven.credit[other] > 0


def test_who_has_waited_longest_goes_on_first() -> None:
    driven = Driven(queue_limit=2_000, producer_window=400)
    producers = [driven.producer("queue:q") for _ in range(20)]
    waiting = [producers[n] for n in (7, 3, 19, 0, 11, 2, 16)]
    while not all(producer in driven.core.flow.held for producer in waiting):
        for producer in waiting:
            if driven.credit[producer] > 0:
                driven.send(producer, BODY)
                driven.credit[producer] -= len(BODY)
    before = list(driven.core.flow.held)
    consumer = driven.consumer("queue:q", 100)
    effects = driven.core.effects
    driven.core.acknowledge(consumer, len(driven.got(consumer)), 0)
    assert [effect.producer for effect in effects if isinstance(effect, Credit)] == before


def test_no_producer_may_send_ahead_more_than_an_eighth_of_the_memory() -> None:
    """What waits for the disk takes more than its bytes, and cannot leave memory."""
    driven = Driven(memory_limit=8_000, producer_window=1_001)
    assert driven.credit[driven.producer("queue:q")] == driven.credit[driven.producer("topic:t")] == 1_000


def test_a_closed_producer_is_held_no_more() -> None:
    driven = Driven(queue_limit=1_000, producer_window=400)
    producer = driven.producer("queue:q")
    send_while_there_is_credit(driven, producer)
    driven.do(driven.core.finish_producer, producer)
    assert driven.core.flow.held == {}


def test_a_producer_without_credit_breaks_the_rules() -> None:
    driven = Driven(queue_limit=100, producer_window=400)
    producer = driven.producer("queue:q")
    send_while_there_is_credit(driven, producer)
    size = driven.memory
    with pytest.raises(OverdrawnError):
        driven.send(producer, BODY)
    assert driven.memory == size


def test_credit_counts_in_a_transaction_too() -> None:
    driven = Driven(queue_limit=1_000, producer_window=400)
    session = driven.session(transacted=True)
    plain, producer = driven.producer("queue:q"), driven.producer("queue:q", session)
    send_while_there_is_credit(driven, plain)
    assert send_while_there_is_credit(driven, producer) == 4
    assert driven.core.flow.held.keys() == {plain, producer}
    consumer = driven.consumer("queue:q")
    driven.acknowledge(consumer, len(driven.got(consumer)))
    assert driven.core.flow.held == {}


# Channels of other brokers


def channel(driven: Driven, *names: str, transacted: bool = False) -> list[CoreProducer]:
    """As the channel of another broker opens its links."""
    session = driven.session(client="channel.B", transacted=transacted)
    driven.consumer("queue:channel.B", session=session)
    return [driven.producer(name, session) for name in names]


def test_a_full_broker_takes_what_comes_through_a_channel_as_it_is_consumed() -> None:
    """Or two brokers that are full of messages for each other would wait for ever."""
    driven = Driven(memory_limit=40 * (100 + FOOTPRINT), producer_window=400)
    plain, (through, token) = driven.producer("queue:idle"), channel(driven, "queue:q", "queue:channel.B")
    send_while_there_is_credit(driven, plain)
    full = driven.memory
    sent = send_while_there_is_credit(driven, through)
    assert driven.memory == full + sent * (100 + FOOTPRINT)
    assert driven.core.flow.held.keys() == {plain, through}
    consumer = driven.consumer("queue:q")
    for number in range(1, 200):
        driven.acknowledge(consumer, number)
        send_while_there_is_credit(driven, through)
        assert driven.memory <= full + 8 * (100 + FOOTPRINT)
        assert len(driven.got(consumer)) > number
    # The one message by which the channel knows what has arrived is never held back.
    for _ in range(20):
        driven.send(token, BODY)
        driven.credit[token] -= len(BODY)
    assert driven.credit[token] > 0
    assert plain in driven.core.flow.held


def test_a_channel_waits_for_its_queue_like_everybody() -> None:
    driven = Driven(queue_limit=1000, producer_window=400)
    (through,) = channel(driven, "queue:q")
    send_while_there_is_credit(driven, through)
    assert driven.core.flow.held.keys() == {through}
    driven.do(driven.core.close_session, through.session)
    assert driven.core.flow.held == {}


def test_a_channel_goes_on_when_its_messages_are_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody consumes; what the queue holds beyond its save extent takes no memory."""
    monkeypatch.setattr(paging, "_MOST_SPANS", 1)
    driven = Driven(memory_limit=40 * (100 + FOOTPRINT), producer_window=400, queue_limit=1 << 20)
    Disk(driven)
    plain = driven.producer("queue:idle")
    send_while_there_is_credit(driven, plain)
    full = driven.memory
    saved = driven.core.destinations.queue("saved")
    saved.policy = replace(saved.policy, save_extent=1)
    (through,) = channel(driven, "queue:saved", transacted=True)
    for _ in range(50):
        assert driven.credit[through] > 0
        for _ in range(5):
            driven.send(through, BODY)
            driven.credit[through] -= len(BODY)
        driven.commit(through.session)
        assert driven.memory <= full + 400 + FOOTPRINT
    assert plain in driven.core.flow.held


@pytest.mark.parametrize("name", ["queue:orders", "queue:channel.B"])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_client_that_poses_as_a_channel_is_held_at_a_bound_of_its_own(name: str, more: int) -> None:
    """It could name any number of queues, and each of them alone would get a window."""
    driven = Driven(memory_limit=200_000, producer_window=1000)
    session = driven.session()
    driven.consumer("queue:channel.A", 0, session=session)
    driven.core.context.memory = 200_000
    for fed in ("queue:other", name):
        producer = driven.producer(fed, session=session)
        producer.spent = producer.window
        driven.core.flow.renew(producer)
        driven.queue("other").in_memory = limits.CHANNEL_MEMORY * 200_000 + more
    assert (producer in driven.core.flow.held) == (more >= 0)
