"""Limits of a destination: bytes and messages; hold, refuse or drop the oldest; each episode on record."""

import pytest

from mqlab.broker.core.admin import describe, totals
from mqlab.broker.core.durability.records import Remove
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.flow import Episode
from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer
from mqlab.broker.policy import Policies, PolicyRule
from recorded_calls import recording

from .commands import NOW, Driven
from .payloads import single

BODY = b"x" * 100


def send_while_there_is_credit(driven: Driven, producer: CoreProducer, most: int = 1000) -> int:
    sent = 0
    while driven.credit[producer] > 0 and sent < most:
        driven.send(producer, BODY)
        driven.credit[producer] -= len(BODY)
        sent += 1
    return sent


@pytest.mark.parametrize("limits", [{"queue_limit": 1000}, {"message_limit": 10}])
def test_hold_begins_at_the_limit(limits: dict[str, int]) -> None:
    for messages, full in ((9, False), (10, True), (11, True)):
        driven = Driven(stored=True, producer_window=100, **limits)
        producer = driven.producer("queue:q")
        for _ in range(messages):
            driven.send(producer, BODY)
            if producer in driven.core.flow.held:
                break
        assert driven.queue("q").full == full
        assert (producer in driven.core.flow.held) == full
        assert driven.queue("q").messages == min(messages, 10)


def test_a_limit_of_messages_is_left_at_three_quarters() -> None:
    driven = Driven(message_limit=8, producer_window=200)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 100)
    sent = send_while_there_is_credit(driven, producer)
    for done in range(sent):
        driven.acknowledge(consumer, done)
        assert (producer in driven.core.flow.held) == (sent - done > 6)


def test_both_limits_hold() -> None:
    """It accepts again when it has fallen below both."""
    driven = Driven(message_limit=10, queue_limit=2000, producer_window=100)
    consumer, producer = driven.consumer("queue:q", 100), driven.producer("queue:q")
    large = driven.producer("queue:q")
    driven.send(large, b"x" * 1600)
    for _ in range(9):
        driven.send(producer, b"x" * 10)
    assert driven.queue("q").full
    driven.acknowledge(consumer, 1)
    assert (driven.queue("q").size, driven.queue("q").full) == (90, True)
    driven.acknowledge(consumer, 3)
    assert (driven.queue("q").messages, driven.queue("q").full) == (7, False)


def test_refuse_gives_an_error_and_takes_again_later() -> None:
    driven = Driven(message_limit=4, when_full="refuse")
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 100)
    for _ in range(4):
        driven.send(producer, BODY, confirm=True)
    with pytest.raises(CommandError, match="queue:q is full"):
        driven.send(producer, BODY, confirm=True)
    assert (driven.queue("q").messages, len(driven.confirmed)) == (4, 4)
    driven.acknowledge(consumer, 1)
    driven.send(producer, BODY)
    assert driven.queue("q").messages == 4


def test_a_refused_producer_is_not_held_and_not_starved_of_credit() -> None:
    driven = Driven(message_limit=1, when_full="refuse", producer_window=200)
    producer = driven.producer("queue:q")
    driven.send(producer, BODY)
    for _ in range(20):
        with pytest.raises(CommandError):
            driven.send(producer, BODY)
    assert driven.core.flow.held == {}
    assert driven.credit[producer] >= 20 * 100


def test_refuse_dooms_a_transaction() -> None:
    driven = Driven(message_limit=1, when_full="refuse")
    driven.send(driven.producer("queue:q"), BODY)
    session = driven.session(transacted=True)
    driven.send(driven.producer("queue:other", session), b"other")
    with pytest.raises(CommandError):
        driven.send(driven.producer("queue:q", session), BODY)
    with pytest.raises(CommandError, match="rolled back"):
        driven.commit(session)
    driven.rollback(session)
    assert driven.left("other") == []


def test_one_full_subscription_refuses_for_the_topic() -> None:
    driven = Driven(policies=Policies((PolicyRule("topic:t", {"message_limit": 2, "when_full": "refuse"}),)))
    slow, fast = driven.consumer("topic:t", 0), driven.consumer("topic:t", 100)
    producer = driven.producer("topic:t")
    for number in range(2):
        driven.send(producer, BODY)
        driven.acknowledge(fast, number + 1)
    with pytest.raises(CommandError, match="topic:t is full"):
        driven.send(producer, BODY)
    assert (slow.queue.messages, fast.queue.messages) == (2, 0)


def dropping(**more: int) -> Driven:
    values = {"when_full": "drop-oldest", "message_limit": 4, **more}
    return Driven(policies=Policies((PolicyRule("topic:#", values),)), producer_window=400)


def drain(driven: Driven, consumer: CoreConsumer) -> list[bytes]:
    driven.acknowledge(consumer, 0, 1000)
    return driven.got(consumer)


def test_drop_oldest_loses_the_oldest_of_the_slow_subscription_only() -> None:
    driven = dropping()
    slow, fast = driven.consumer("topic:t", 0), driven.consumer("topic:t", 1000)
    producer = driven.producer("topic:t")
    for number in range(50):
        driven.send(producer, b"%d" % number)
        driven.acknowledge(fast, number + 1)
        assert slow.queue.messages <= 4
    assert driven.got(fast) == [b"%d" % n for n in range(50)]
    assert driven.core.flow.held == {}
    kept = drain(driven, slow)
    assert kept == [b"%d" % n for n in range(50 - len(kept), 50)]
    assert len(kept) >= 3
    assert slow.queue.counters.dropped == 50 - len(kept)
    driven.acknowledge(slow, 1000)
    assert driven.memory == 0


def test_the_oldest_is_the_oldest_whatever_its_priority() -> None:
    driven = dropping()
    slow, producer = driven.consumer("topic:t", 0), driven.producer("topic:t")
    for number, priority in enumerate((1, 9, 1, 9, 1)):
        driven.put(producer, single(b"%d" % number, priority=priority))
    kept = sorted(drain(driven, slow))
    assert kept == [b"%d" % n for n in range(5 - len(kept), 5)]


def test_what_a_consumer_has_in_hand_is_not_dropped() -> None:
    driven = dropping()
    consumer, producer = driven.consumer("topic:t", 3), driven.producer("topic:t")
    for number in range(20):
        driven.send(producer, b"%d" % number)
    assert driven.got(consumer) == [b"0", b"1", b"2"]
    driven.acknowledge(consumer, 3, 100)
    assert driven.got(consumer)[-1] == b"19"


def test_the_journal_learns_what_was_dropped() -> None:
    driven = dropping()
    driven.close(driven.consumer("topic:t", 0, driven.session(client="me"), durable="d"))
    producer = driven.producer("topic:t")
    for number in range(20):
        driven.send(producer, b"%d" % number, persistent=True, confirm=True)
        driven.sync()
    assert len(driven.confirmed) == 20
    assert driven.said(Remove)
    again = driven.consumer("topic:t", session=driven.session(client="me"), durable="d")
    after = driven.restarted()
    restored = after.consumer("topic:t", session=after.session(client="me"), durable="d")
    assert after.got(restored) == driven.got(again)


def test_a_queue_never_drops() -> None:
    """Where that is the general policy, a queue holds."""
    driven = Driven(when_full="drop-oldest", message_limit=3, producer_window=100)
    producer = driven.producer("queue:q")
    sent = send_while_there_is_credit(driven, producer)
    assert producer in driven.core.flow.held
    assert driven.queue("q").messages == sent


def test_the_memory_limit_holds_whatever_the_policy_of_the_destination() -> None:
    driven = Driven(memory_limit=10 * (100 + FOOTPRINT), producer_window=200, when_full="refuse")
    producers = [driven.producer("queue:a"), driven.producer("queue:b")]
    for producer in producers:
        send_while_there_is_credit(driven, producer)
    assert driven.core.flow.held.keys() == set(producers)
    assert driven.memory <= (10 + 2 * 2) * (100 + FOOTPRINT)


def test_episodes_say_when_holding_began_and_ended() -> None:
    driven = Driven(message_limit=4, producer_window=200)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 100)
    driven.tick(5)
    sent = send_while_there_is_credit(driven, producer)
    assert describe(driven.core, "queue:q")["held_producers"] == 1
    driven.tick(70)
    assert totals(driven.core)["held_ms"] == 70
    driven.acknowledge(consumer, sent)
    assert driven.core.flow.episodes[-1] == Episode("queue:q", NOW + 5, NOW + 75)
    driven.tick(10)
    send_while_there_is_credit(driven, producer)
    driven.tick(3)
    driven.do(driven.core.finish_producer, producer)
    assert [*driven.core.flow.episodes] == [
        Episode("queue:q", NOW + 5, NOW + 75),
        Episode("queue:q", NOW + 85, NOW + 88),
    ]
    about = describe(driven.core, "queue:q")
    assert [one["ended"] - one["began"] for one in about["episodes"]] == [70, 3]
    assert (totals(driven.core)["holds"], totals(driven.core)["held_ms"], totals(driven.core)["held_producers"]) == (
        2,
        73,
        0,
    )


def test_episodes_of_a_topic_show_with_the_subscription_that_was_full() -> None:
    driven = Driven(message_limit=2, producer_window=100)
    consumer = driven.consumer("topic:t", 0, shared="slow")
    producer = driven.producer("topic:t")
    send_while_there_is_credit(driven, producer)
    assert describe(driven.core, "subscription:slow")["held_producers"] == 1
    driven.tick(9)
    driven.acknowledge(consumer, 0, 100)
    driven.acknowledge(consumer, 100)
    about = describe(driven.core, "subscription:slow")
    assert about["episodes"] == [{"destination": "topic:t", "began": NOW, "ended": NOW + 9}]


def test_a_window_is_never_larger_than_the_limit_of_its_destination() -> None:
    rules = Policies((PolicyRule("queue:small", {"queue_limit": 100}),))
    driven = Driven(producer_window=1000, policies=rules)
    assert driven.credit[driven.producer("queue:small")] == 100
    assert driven.credit[driven.producer("queue:large")] == 1000


def test_who_waits_for_a_destination_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(queue_limit=1000, producer_window=400)
    for producer in [driven.producer("queue:full") for _ in range(20)]:
        send_while_there_is_credit(driven, producer)
    assert len(driven.core.flow.held) == 20
    looks: list[object] = []
    monkeypatch.setattr(driven.core.flow, "renew", recording(driven.core.flow.renew, looks))
    other, consumer = driven.producer("queue:other"), driven.consumer("queue:other")
    for number in range(50):
        driven.send(other, BODY)
        driven.acknowledge(consumer, number + 1, 1)
    assert len(looks) <= 50
