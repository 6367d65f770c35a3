"""Topics: each message to every subscription that exists when it is sent."""

from mqlab.broker.core.model.messages import FOOTPRINT

from .commands import Driven


def test_every_subscription_gets_every_message() -> None:
    driven = Driven()
    consumers = [driven.consumer("topic:t") for _ in range(3)]
    driven.send(driven.producer("topic:t"), b"1", b"2")
    assert [driven.got(consumer) for consumer in consumers] == [[b"1", b"2"]] * 3


def test_a_message_nobody_listens_to_is_gone() -> None:
    driven = Driven()
    producer = driven.producer("topic:t")
    driven.send(producer, b"1")
    assert driven.memory == 0
    assert driven.got(driven.consumer("topic:t")) == []


def test_a_subscription_ends_with_its_consumer() -> None:
    driven = Driven()
    producer, one, two = driven.producer("topic:t"), driven.consumer("topic:t", 1), driven.consumer("topic:t")
    driven.send(producer, b"1", b"2", b"3")
    driven.acknowledge(two, 3)
    assert driven.memory > 0
    driven.close(one)
    assert driven.memory == 0
    assert driven.core.destinations.routing.topics["t"].subscriptions == [two.queue]


def test_a_subscription_needs_no_disk() -> None:
    """It does not outlive its consumer, so there is nothing to keep and nothing to wait for."""
    driven = Driven()
    consumer, producer = driven.consumer("topic:t"), driven.producer("topic:t")
    driven.send(producer, b"1", persistent=True, confirm=True)
    assert driven.got(consumer) == [b"1"]
    assert driven.confirmed == [(producer, 1)]
    assert driven.records == []


def test_the_slowest_subscription_holds_the_producer_back() -> None:
    driven = Driven(queue_limit=1000, producer_window=400)
    producer, slow, fast = driven.producer("topic:t"), driven.consumer("topic:t", 0), driven.consumer("topic:t")
    sent = 0
    while driven.credit[producer] - sent * 100 > 0:
        driven.send(producer, b"x" * 100)
        sent += 1
        driven.acknowledge(fast, sent, 1)
    assert producer in driven.core.flow.held
    driven.acknowledge(slow, 0, sent)
    driven.acknowledge(slow, sent)
    assert producer not in driven.core.flow.held


def test_a_producer_goes_on_when_the_slow_subscription_is_closed() -> None:
    """Also in a broker that is nearly full, where memory alone would release nobody."""
    driven = Driven(queue_limit=300, memory_limit=2000 + 11 * FOOTPRINT, producer_window=200)
    for n in range(8):
        driven.send(driven.producer(f"queue:{n}"), b"x" * 200)
    producer, slow = driven.producer("topic:t"), driven.consumer("topic:t", 0)
    for _ in range(3):
        driven.send(producer, b"x" * 100)
    assert driven.core.flow.held.keys() == {producer}
    assert driven.memory == 1900 + 11 * FOOTPRINT
    driven.close(slow)
    assert driven.memory == 1600 + 8 * FOOTPRINT > (2000 + 11 * FOOTPRINT) * 0.75
    assert driven.core.flow.held == {}


def test_a_topic_that_nobody_uses_is_forgotten() -> None:
    driven = Driven()
    topics = driven.core.destinations.routing.topics
    for number in range(100):
        producer, consumer = driven.producer(f"topic:t.{number}"), driven.consumer(f"topic:t.{number}")
        driven.send(producer, b"1")
        driven.do(driven.core.finish_producer, producer)
        assert [*topics] == [f"t.{number}"]
        driven.close(consumer)
        assert not topics


def test_one_that_only_a_pattern_matches_is_forgotten_and_found_again() -> None:
    driven = Driven()
    consumer = driven.consumer("topic:#")
    for number in range(3):
        producer = driven.producer(f"topic:{number}")
        driven.send(producer, b"%d" % number)
        driven.do(driven.core.finish_producer, producer)
        assert not driven.core.destinations.routing.topics
    assert (consumer.queue.topics, driven.got(consumer)) == ({}, [b"0", b"1", b"2"])


def test_what_a_transaction_sends_to_a_topic_that_is_forgotten_meanwhile_comes_to_who_subscribes_at_its_end() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer = driven.producer("topic:t.a", session)
    driven.send(producer, b"1")
    driven.do(driven.core.finish_producer, producer)
    assert not driven.core.destinations.routing.topics
    consumers = [driven.consumer("topic:t.*"), driven.consumer("topic:t.b"), driven.consumer("topic:#")]
    driven.commit(session)
    assert [driven.got(one) for one in consumers] == [[b"1"], [], [b"1"]]
