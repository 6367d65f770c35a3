"""Queues of other brokers: how they are named, and what becomes of messages that wait for their channel."""

import pytest

from broker.core.commands import NOW, Driven
from broker.core.payloads import bodies_of
from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.core.admin import delete, move
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import BadNameError
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.routing.remote_queues import first_id
from mqlab.broker.core.routing.transmission import dead_letter, drop_arrived
from mqlab.wire.native.columns import encode_single

TO_B = ChannelSettings("B", "unix:nowhere")


def linked(**settings: object) -> Driven:
    """A broker A with a channel to B, and `orders` as a name for a queue there."""
    return Driven(stored=True, name="A", channels=(TO_B,), remotes=(("orders", "queue:orders@B"),), **settings)


def waiting(driven: Driven, broker: str = "B") -> list[tuple[str, bytes]]:
    spans = [*driven.queue(f"transmit.{broker}").spans()]
    return [(span.origin, body) for span in spans for body in bodies_of([span])]


# Names


@pytest.mark.parametrize(
    ("name", "actual"),
    [
        ("queue:q", "queue:q"),
        ("queue:q@A", "queue:q"),
        ("queue:q@B", "queue:q@B"),
        ("queue:orders", "queue:orders@B"),
        ("queue:orders@A", "queue:orders"),
        ("topic:a@b", "topic:a@b"),
        ("topic:a.#", "topic:a.#"),
    ],
)
def test_what_a_name_means(name: str, actual: str) -> None:
    assert linked().core.destinations.remotes.actual(name) == actual


@pytest.mark.parametrize("name", ["queue:@B", "queue:q@", "queue:q@B@C", "queue:someone@example.com", "queue:q@ B"])
def test_an_at_in_the_name_of_a_queue_stands_before_a_broker(name: str) -> None:
    driven = linked()
    for opening in (driven.producer, driven.consumer):
        with pytest.raises(BadNameError, match=r"NAME@BROKER"):
            opening(name)
    assert list(driven.core.destinations.queues) == []


@pytest.mark.parametrize("name", ["queue:*@B", "queue:a.#@B", "queue:*@A", "queue:a @B"])
def test_before_the_at_stands_a_name_as_any(name: str) -> None:
    driven = linked()
    with pytest.raises(BadNameError):
        driven.producer(name)
    assert list(driven.core.destinations.queues) == []


def test_without_a_channel_a_broker_is_not_known() -> None:
    for driven in (linked(), Driven()):
        with pytest.raises(CommandError, match="there is no channel to a broker 'C'"):
            driven.producer("queue:q@C")
    assert list(driven.core.destinations.queues) == []


def test_a_remote_queue_can_only_be_sent_to() -> None:
    driven = linked()
    driven.producer("queue:here")
    for name in ("queue:q@B", "queue:orders"):
        for browse in (False, True):
            with pytest.raises(CommandError, match="a queue of another broker: it can only be sent to"):
                driven.consumer(name, browse=browse)
        with pytest.raises(CommandError, match="another broker"):
            move(driven.core, "queue:here", name)


def test_a_qualified_name_of_this_broker_is_the_queue_here() -> None:
    """Whatever stands for something else: so a message that came through a channel goes no further."""
    driven = linked()
    driven.send(driven.producer("queue:orders@A"), b"1")
    assert driven.left("orders") == [b"1"]
    assert driven.got(driven.consumer("queue:orders@A")) == [b"1"]
    assert driven.core.destinations.find("queue:orders@A") is driven.queue("orders")
    assert driven.core.destinations.find("queue:orders@B") is None


# Waiting


def test_messages_for_another_broker_wait_with_the_name_of_their_queue() -> None:
    driven = linked()
    for name, body in (("queue:orders", b"1"), ("queue:q@B", b"2"), ("queue:orders@B", b"3")):
        driven.send(driven.producer(name), body)
    assert waiting(driven) == [("queue:orders@B", b"1"), ("queue:q@B", b"2"), ("queue:orders@B", b"3")]


def test_a_persistent_one_is_confirmed_when_it_is_durable_here_and_outlives_a_crash() -> None:
    driven = linked()
    producer = driven.producer("queue:orders")
    driven.send(producer, b"1", b"2", persistent=True, confirm=True)
    assert driven.confirmed == []
    driven.sync()
    assert driven.confirmed == [(producer, 2)]
    assert waiting(driven.restarted()) == [("queue:orders@B", b"1"), ("queue:orders@B", b"2")]


def test_delay_and_expiry_outlive_a_crash() -> None:
    """A message that was moved to a queue loses them; one that is on its way does not."""
    driven = linked()
    producer = driven.producer("queue:orders")
    for name, later in (("deliver_at", 100), ("expiration", 200)):
        driven.put(producer, encode_single(name.encode(), (name,), "q", [NOW + later]), persistent=True)
    driven.sync()
    again = driven.restarted()
    assert [body for _, body in waiting(again)] == [b"expiration"]
    again.tick(250)
    assert [body for _, body in waiting(again)] == [b"deliver_at"]


def test_a_transaction_is_all_or_nothing_over_brokers_and_queues() -> None:
    driven = linked()
    session = driven.session(transacted=True)
    for name in ("queue:orders", "queue:here", "queue:q@B"):
        driven.send(driven.producer(name, session), b"1", persistent=True)
    assert "transmit.B" in driven.core.destinations.queues
    assert waiting(driven) == []
    driven.commit(session)
    driven.sync()
    assert waiting(driven) == [("queue:orders@B", b"1"), ("queue:q@B", b"1")]
    assert driven.left("here") == [b"1"]


def test_duplicates_are_known_by_the_queue_they_were_sent_to() -> None:
    driven = linked()
    one, other = driven.producer("queue:orders"), driven.producer("queue:other@B")
    same = encode_single(b"1", ("duplicate_id",), "s", ["same"])
    for producer in (one, other, one):
        driven.put(producer, same, persistent=True)
    driven.sync()
    assert waiting(driven) == [("queue:orders@B", b"1"), ("queue:other@B", b"1")]
    again = driven.restarted()
    again.put(again.producer("queue:orders@B"), same)
    assert len(waiting(again)) == 2


def test_a_full_transmission_queue_holds_producers() -> None:
    driven = linked(queue_limit=10)
    producer = driven.producer("queue:orders")
    driven.send(producer, b"x" * 20)
    assert producer in driven.core.flow.held


# Ids


def test_ids_of_a_transmission_queue_are_never_used_twice() -> None:
    driven = linked()
    driven.send(driven.producer("queue:orders"), b"1", b"2")
    queue = driven.queue("transmit.B")
    before = queue.next_id
    assert before == first_id("transmit.B", NOW) + 2
    # Another queue of that name, and another life, in which nothing is known of what was not kept.
    driven.tick(1)
    delete(driven.core, "queue:transmit.B")
    driven.producer("queue:orders")
    assert driven.queue("transmit.B").next_id > before
    driven.sync()
    driven.tick(1)
    begun = driven.queue("transmit.B").next_id
    assert driven.restarted().queue("transmit.B").next_id > begun
    plain, _ = driven.core.destinations.destination("queue:plain")
    assert isinstance(plain, Queue)
    assert plain.next_id == 1


# Leaving


def test_what_has_arrived_is_gone_with_a_transaction() -> None:
    driven = linked()
    driven.send(driven.producer("queue:orders"), *(b"%d" % n for n in range(5)), persistent=True)
    driven.sync()
    queue, session = driven.queue("transmit.B"), driven.session(transacted=True)
    assert queue.oldest is not None
    first = queue.oldest.first_id
    dropped = drop_arrived(session, queue, [(first + 1, 2), (first + 100, 7)])
    assert sum(span.rows for span in dropped) == 2
    assert [body for _, body in waiting(driven)] == [b"0", b"3", b"4"]
    assert queue.messages == 5
    driven.commit(session)
    # Before the journal has it, a crash brings them back.
    assert len(waiting(driven.restarted())) == 5
    driven.sync()
    assert queue.messages == 3
    assert [body for _, body in waiting(driven.restarted())] == [b"0", b"3", b"4"]


@pytest.mark.parametrize("settings", [{}, {"dead_letters": "", "redelivery_limit": 0}])
def test_what_is_given_up_is_a_dead_letter_that_knows_its_target(settings: dict[str, object]) -> None:
    driven = linked(**settings)
    consumer = driven.consumer("queue:transmit.B")
    driven.send(driven.producer("queue:orders"), b"0", b"1", b"2", persistent=True)
    driven.sync()
    driven.do(dead_letter, driven.core, consumer, 2, 1)
    driven.sync()
    again = driven.restarted()
    assert again.left("dead-letters") == [b"1"]
    assert [span.origin for span in again.queue("dead-letters").spans()] == ["queue:orders@B"]
    assert [body for _, body in waiting(again)] == [b"0", b"2"]
    # The way back: to where it waited.
    again.do(move, again.core, "queue:dead-letters", "queue:transmit.B")
    again.sync()
    assert sorted(waiting(again)) == [("queue:orders@B", b"0"), ("queue:orders@B", b"1"), ("queue:orders@B", b"2")]


def test_messages_of_channels_are_not_given_up_for_deliveries_in_vain() -> None:
    driven = linked(redelivery_limit=1, message_limit=1, when_full="refuse")
    token, order = driven.producer("queue:channel.C"), driven.producer("queue:orders")
    driven.send(token, b"t", persistent=True)
    driven.send(order, b"o", persistent=True)
    driven.sync()
    again = driven.restarted()
    for _ in range(3):
        for name in ("queue:channel.C", "queue:transmit.B"):
            again.close(again.consumer(name))
    assert (again.left("channel.C"), again.left("transmit.B")) == ([b"t"], [b"o"])
    # And a token is never refused.
    again.send(again.producer("queue:channel.C"), b"t")
