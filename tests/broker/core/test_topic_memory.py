"""A topic whose subscriptions take nothing holds its own producers back, and no others."""

from collections.abc import Iterable
from functools import partial

import pytest

from mqlab.broker import limits
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer

from .commands import Driven

KIB, MIB = 1024, 1024 * 1024
MEMORY = 4 * MIB
BODY = b"x" * (KIB - FOOTPRINT)
SUBSCRIPTIONS = 20


def driven_with(*topics: str, window: int = 4 * KIB) -> tuple[Driven, dict[str, list[CoreConsumer]]]:
    """Subscriptions that take nothing. No queue is full before the memory is."""
    driven = Driven(memory_limit=MEMORY, queue_limit=64 * MIB, producer_window=window)
    return driven, {topic: [driven.consumer(topic, 0) for _ in range(SUBSCRIPTIONS)] for topic in topics}


def fill(driven: Driven, producer: CoreProducer, *, persistent: bool = False) -> None:
    """Send until the producer is held back, or its sends are refused."""
    while driven.credit[producer] > 0:
        driven.send(producer, BODY, persistent=persistent)
        driven.credit[producer] -= len(BODY)


def fill_all(driven: Driven, producers: Iterable[CoreProducer]) -> None:
    for producer in producers:
        fill(driven, producer)


def is_held(driven: Driven, producer: CoreProducer) -> bool:
    return producer in driven.core.flow.held


@pytest.mark.parametrize("persistent", [False, True])
def test_idle_subscriptions_hold_the_producers_of_their_topic_only(persistent: bool) -> None:
    driven, _ = driven_with("topic:idle")
    hog, others = driven.producer("topic:idle"), [driven.producer(name) for name in ("queue:q", "topic:other")]
    consumers = [driven.consumer(name) for name in ("queue:q", "topic:other")]
    fill(driven, hog, persistent=persistent)
    assert is_held(driven, hog)
    assert driven.memory <= MEMORY * 3 // 4 + SUBSCRIPTIONS * KIB
    for number in range(200):
        for other, consumer in zip(others, consumers, strict=True):
            driven.send(other, BODY, persistent=persistent)
            driven.sync()
            driven.acknowledge(consumer, number + 1, 1)
    assert driven.core.flow.held.keys() == {hog}
    late = driven.producer("queue:q")
    assert driven.credit[late] > 0


def test_a_topic_goes_on_when_its_subscriptions_have_taken_messages() -> None:
    driven, subscriptions = driven_with("topic:idle")
    producer = driven.producer("topic:idle")
    fill(driven, producer)
    for consumer in subscriptions["topic:idle"]:
        assert is_held(driven, producer)
        driven.acknowledge(consumer, 0, 1000)
        driven.acknowledge(consumer, consumer.next_delivery - 1)
        if not is_held(driven, producer):
            break
    assert driven.credit[producer] > 0


def test_a_topic_goes_on_when_its_subscribers_are_gone() -> None:
    driven, subscriptions = driven_with("topic:idle")
    producer = driven.producer("topic:idle")
    fill(driven, producer)
    for consumer in subscriptions["topic:idle"]:
        driven.close(consumer)
    assert driven.credit[producer] > 0


def test_a_topic_goes_on_when_others_return_memory() -> None:
    driven, _ = driven_with("topic:idle")
    queue, producer = driven.producer("queue:q"), driven.producer("topic:idle")
    fill_queue = MEMORY // 2 // KIB
    for _ in range(fill_queue):
        driven.send(queue, BODY)
        queue.spent = 0
    fill(driven, producer)
    assert is_held(driven, producer)
    assert driven.memory < MEMORY
    consumer = driven.consumer("queue:q", fill_queue)
    driven.acknowledge(consumer, fill_queue)
    assert driven.credit[producer] > 0


def test_a_topic_goes_on_when_its_messages_are_on_disk() -> None:
    """Paging returns memory without a word to flow control, so the next look at the growth of the process finds it."""
    driven, subscriptions = driven_with("topic:idle")
    producer = driven.producer("topic:idle")
    fill(driven, producer)
    for consumer in subscriptions["topic:idle"]:
        driven.core.context.memory -= consumer.queue.in_memory
        consumer.queue.in_memory = 0
    driven.core.record_growth(0)
    driven.take()
    assert driven.credit[producer] > 0


def test_some_memory_is_left_however_many_topics_are_crowded() -> None:
    names = [f"topic:{number}" for number in range(4)]
    driven, _ = driven_with(*names)
    producers = [driven.producer(name) for name in names]
    for producer in producers:
        fill(driven, producer)
    assert all(is_held(driven, producer) for producer in producers)
    assert driven.memory < MEMORY
    assert driven.credit[driven.producer("queue:q")] > 0


def test_credit_that_is_left_is_refused_before_the_memory_is_full() -> None:
    driven, _ = driven_with("topic:idle", window=256 * KIB)
    producers = [driven.producer("topic:idle") for _ in range(4)]
    with pytest.raises(CommandError, match=r"topic:idle is full: with this, its 20 subscriptions have \d+ bytes"):
        fill_all(driven, producers)
    assert MEMORY // 2 < driven.memory <= MEMORY * 3 // 4
    other = driven.producer("queue:q")
    driven.send(other, BODY, persistent=True)


def test_one_message_for_many_subscriptions_does_not_fill_the_memory() -> None:
    driven, _ = driven_with("topic:idle", window=256 * KIB)
    producer = driven.producer("topic:idle")
    with pytest.raises(CommandError, match="topic:idle is full"):
        driven.send(producer, b"x" * 200 * KIB)
    driven.send(producer, b"x" * 50 * KIB)


@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_transaction_that_a_topic_cannot_take_is_only_rolled_back(is_prepared: bool) -> None:
    driven, _ = driven_with("topic:idle")
    session = driven.session(transacted=True)
    producer = driven.producer("topic:idle", session)
    for _ in range(250):
        driven.send(producer, BODY)
        producer.spent = 0
    end = partial(driven.core.commit, session)
    if is_prepared:
        end = partial(driven.core.prepare, session, "x", Answer(session.owner, 1, {}))
    with pytest.raises(CommandError, match="can only be rolled back: topic:idle is full"):
        end()
    driven.core.rollback(session)
    driven.take()
    assert driven.memory < KIB * SUBSCRIPTIONS


def test_a_topic_may_always_take_some_bytes() -> None:
    driven = Driven(memory_limit=MEMORY, queue_limit=64 * MIB, producer_window=4 * KIB)
    queue, producer = driven.producer("queue:q"), driven.producer("topic:idle")
    driven.consumer("topic:idle", 0)
    for _ in range(MEMORY // KIB - 32):
        driven.send(queue, BODY)
        queue.spent = 0
    free = MEMORY - driven.memory
    assert free < limits.TOPIC_LEAST
    sent = 0
    while driven.credit[producer] > 0:
        driven.send(producer, BODY)
        driven.credit[producer] -= len(BODY)
        sent += KIB
    # All of the broker's memory, not the half of it that is left after half of it is sent.
    assert sent >= free - 4 * KIB


def test_a_topic_that_drops_its_oldest_messages_holds_nobody() -> None:
    driven = Driven(memory_limit=MEMORY, queue_limit=128 * KIB, producer_window=4 * KIB, when_full="drop-oldest")
    for _ in range(SUBSCRIPTIONS):
        driven.consumer("topic:t", 0)
    producer = driven.producer("topic:t")
    for _ in range(1000):
        assert driven.credit[producer] > 0
        driven.send(producer, BODY)
        driven.credit[producer] -= len(BODY)
    assert driven.memory > MEMORY // 2
