"""Durable and shared subscriptions, no-local, and how they end."""

import pytest

from broker.option_types import SubscriptionValues
from mqlab.broker.core.durability.records import Declare, Forget, Put, Remove
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.routing.subscriptions import ConsumerOptions
from mqlab.wire.native.bodies import decode

from .commands import Driven
from .reference_recovery import Replayed


def test_a_durable_subscriber_that_was_away_gets_what_it_missed() -> None:
    driven = Driven()
    session = driven.session(client="me")
    driven.close(driven.consumer("topic:t", session=session, durable="d"))
    producer = driven.producer("topic:t")
    driven.send(producer, b"1", persistent=True)
    driven.send(producer, b"2")
    driven.sync()
    assert driven.got(driven.consumer("topic:t", session=session, durable="d")) == [b"1", b"2"]


def test_a_durable_subscription_is_open_when_it_is_sure_to_last() -> None:
    driven = Driven()
    session = driven.session(client="me")
    consumer = driven.do(driven.core.open_consumer, session, 1, "topic:t", 10, ConsumerOptions(durable="d"))
    driven.send(driven.producer("topic:t"), b"1")
    assert (driven.opened, driven.got(consumer) if consumer in driven.delivered else []) == ([], [])
    driven.sync()
    assert (driven.opened, driven.got(consumer)) == ([consumer], [b"1"])
    assert [*driven.restarted().core.destinations.routing.durable] == ["me/d"]


def test_one_that_is_closed_before_it_is_sure_to_last_is_never_open() -> None:
    driven = Driven()
    session = driven.session(client="me")
    consumer = driven.do(driven.core.open_consumer, session, 1, "topic:t", 10, ConsumerOptions(durable="d"))
    driven.close(consumer)
    driven.send(driven.producer("topic:t"), b"1")
    driven.sync()
    assert (driven.opened, driven.delivered) == ([], {})
    assert driven.got(driven.consumer("topic:t", session=session, durable="d")) == [b"1"]


def test_what_it_had_in_hand_comes_again_with_what_it_missed() -> None:
    driven = Driven()
    session = driven.session(client="me")
    consumer, producer = driven.consumer("topic:t", session=session, durable="d"), driven.producer("topic:t")
    driven.send(producer, b"1", b"2", b"3")
    driven.acknowledge(consumer, 1)
    driven.lose(session)
    driven.send(producer, b"4")
    again = driven.consumer("topic:t", session=driven.session(client="me"), durable="d")
    assert driven.delivered[again] == [(b"2", True), (b"3", True), (b"4", False)]


def test_it_outlives_the_broker() -> None:
    driven = Driven()
    consumer = driven.consumer("topic:t.*", session=driven.session(client="me"), durable="d", selector="n IS NULL")
    producer = driven.producer("topic:t.a")
    driven.send(producer, b"1", b"2", persistent=True)
    driven.sync()
    driven.acknowledge(consumer, 1)
    driven.sync()
    after = driven.restarted()
    after.send(after.producer("topic:t.b"), b"3", persistent=True)
    after.sync()
    session = after.session(client="me")
    again = after.consumer("topic:t.*", session=session, durable="d", selector="n IS NULL")
    assert after.delivered[again] == [(b"2", True), (b"3", False)]


def test_a_message_for_many_durable_subscriptions_is_written_once() -> None:
    driven = Driven()
    for name in "abc":
        driven.consumer("topic:t", session=driven.session(client=name), durable="d")
    driven.send(driven.producer("topic:t"), b"1", b"2", persistent=True)
    (put,) = driven.said(Put)
    assert put.targets == ((1, 1), (2, 1), (3, 1))
    assert (put.origin, decode(put.payload).tolist()) == ("topic:t", [b"1", b"2"])
    assert [record.options["topic"] for record in driven.said(Declare)] == ["t"] * 3


def test_each_of_them_consumes_on_its_own() -> None:
    driven = Driven()
    consumers = [driven.consumer("topic:t", session=driven.session(client=name), durable="d") for name in "ab"]
    driven.send(driven.producer("topic:t"), b"1", b"2", persistent=True)
    driven.sync()
    driven.acknowledge(consumers[0], 2)
    assert driven.records[-1] == Remove(1, ((1, 2),))
    driven.sync()
    after = driven.restarted()
    got = [after.got(after.consumer("topic:t", session=after.session(client=name), durable="d")) for name in "ab"]
    assert got == [[], [b"1", b"2"]]


def test_names_belong_to_a_client() -> None:
    driven = Driven()
    mine, other = (driven.consumer("topic:t", session=driven.session(client=name), durable="d") for name in ("a", "b"))
    assert mine.queue is not other.queue
    assert {*driven.core.destinations.routing.durable} == {"a/d", "b/d"}


def test_one_at_a_time() -> None:
    driven = Driven()
    session = driven.session(client="me")
    consumer = driven.consumer("topic:t", session=session, durable="d")
    with pytest.raises(CommandError, match="in use"):
        driven.consumer("topic:t", session=session, durable="d")
    driven.close(consumer)
    driven.consumer("topic:t", session=session, durable="d")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("topic:other", {}), ("topic:t", {"selector": "a = 2"}), ("topic:t", {"selector": ""}),
        ("topic:t", {"no_local": True}), ("topic:#", {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shared", [{}, {"shared": "d"}])
def test_other_terms_replace_a_subscription_that_nobody_uses(
    name: str, other: SubscriptionValues, shared: SubscriptionValues
) -> None:
    driven = Driven()
    session = driven.session(client="me")
    terms: SubscriptionValues = {"durable": "d", "selector": "a IS NULL", **shared}
    changed: SubscriptionValues = {**terms, **other}
    consumer = driven.consumer("topic:t", session=session, **terms)
    # In use: refused, and nothing has changed.
    before = len(driven.records)
    with pytest.raises(CommandError, match="in use"):
        driven.consumer(name, session=session, **changed)
    assert (len(driven.records), session.consumers) == (before, [consumer])
    driven.close(consumer)
    producer = driven.producer("topic:t")
    driven.send(producer, b"for the former one", persistent=True)
    driven.sync()
    assert driven.got(driven.consumer(name, session=session, **changed)) == []
    assert [*driven.core.destinations.routing.durable] == ["me/d"]
    assert (driven.memory, [*driven.core.destinations.numbered]) == (0, [2])
    assert [*driven.restarted().core.destinations.numbered] == [2]


def test_a_crash_leaves_the_former_subscription_or_the_one_that_replaces_it() -> None:
    driven = Driven()
    session = driven.session(client="me")
    driven.close(driven.consumer("topic:t", session=session, durable="d"))
    driven.send(driven.producer("topic:t"), b"1", persistent=True)
    driven.sync()
    before = len(driven.records)
    driven.consumer("topic:other", session=session, durable="d")
    assert len(driven.records) > before + 1
    for end in range(before, len(driven.records) + 1):
        kept = Replayed(driven.records[:end])
        topics = [kept.options[number]["topic"] for number, name in kept.names.items() if name == "me/d"]
        assert topics == ["t" if end == before else "other"]


def test_a_shared_durable_subscription_is_no_other_kind() -> None:
    driven = Driven()
    session = driven.session(client="me")
    for first, second in (("", "d"), ("d", "")):
        driven.close(driven.consumer("topic:t", session=session, durable="d", shared=first))
        before = len(driven.records)
        with pytest.raises(CommandError, match="a shared one"):
            driven.consumer("topic:t", session=session, durable="d", shared=second)
        assert (len(driven.records), session.consumers) == (before, [])
        driven.do(driven.core.unsubscribe, "me", "d")


def test_unsubscribe() -> None:
    driven = Driven()
    session = driven.session(client="me")
    consumer = driven.consumer("topic:t", session=session, durable="d")
    producer = driven.producer("topic:t")
    driven.send(producer, b"1", b"2", persistent=True)
    driven.sync()
    with pytest.raises(CommandError, match="in use"):
        driven.core.unsubscribe("me", "d")
    driven.close(consumer)
    driven.do(driven.core.unsubscribe, "me", "d")
    assert driven.records[-1] == Forget(1)
    assert (driven.memory, driven.core.destinations.numbered) == (0, {})
    with pytest.raises(CommandError, match="no durable subscription"):
        driven.core.unsubscribe("me", "d")
    driven.send(producer, b"3")
    assert driven.got(driven.consumer("topic:t", session=session, durable="d")) == []
    driven.sync()
    assert [*driven.restarted().core.destinations.numbered] == [2]


def test_messages_on_their_way_to_disk_go_with_the_subscription() -> None:
    driven = Driven()
    session = driven.session(client="me")
    driven.close(driven.consumer("topic:t", session=session, durable="d"))
    producer = driven.producer("topic:t")
    driven.send(producer, b"1", persistent=True, confirm=True)
    driven.do(driven.core.unsubscribe, "me", "d")
    driven.sync()
    assert (driven.memory, driven.confirmed) == (0, [(producer, 1)])
    assert driven.restarted().core.destinations.numbered == {}


def test_an_unsubscribed_one_holds_no_producer() -> None:
    driven = Driven(queue_limit=100, producer_window=100)
    driven.close(driven.consumer("topic:t", session=driven.session(client="me"), durable="d"))
    producer = driven.producer("topic:t")
    driven.send(producer, b"x" * 100)
    assert driven.core.flow.held.keys() == {producer}
    driven.do(driven.core.unsubscribe, "me", "d")
    assert driven.core.flow.held == {}


@pytest.mark.parametrize("durable", [True, False])
def test_consumers_of_a_shared_subscription_share_its_messages(durable: bool) -> None:
    driven = Driven()
    one, two = (driven.consumer("topic:t", shared="s", durable="s" if durable else "") for _ in range(2))
    alone = driven.consumer("topic:t")
    producer = driven.producer("topic:t")
    for number in range(6):
        driven.send(producer, b"%d" % number)
    assert (driven.got(one), driven.got(two)) == ([b"0", b"2", b"4"], [b"1", b"3", b"5"])
    assert len(driven.got(alone)) == 6


def test_what_one_of_them_leaves_goes_to_the_others() -> None:
    driven = Driven()
    one, two = (driven.consumer("topic:t", 3, shared="s") for _ in range(2))
    producer = driven.producer("topic:t")
    for number in range(4):
        driven.send(producer, b"%d" % number)
    driven.lose(one.session)
    assert driven.delivered[two] == [(b"1", False), (b"3", False), (b"0", True)]
    driven.acknowledge(two, 3, 9)
    assert driven.delivered[two][3:] == [(b"2", True)]


def test_a_shared_subscription_ends_with_its_last_consumer_unless_it_lasts() -> None:
    driven = Driven()
    for shared, durable in (("s", ""), ("l", "l")):
        for _ in range(2):
            driven.close(driven.consumer("topic:t", shared=shared, durable=durable))
    assert [queue.name for queue in driven.core.destinations.routing.subscriptions] == ["l"]
    driven.send(driven.producer("topic:t"), b"1")
    assert driven.got(driven.consumer("topic:t", shared="s")) == []
    assert driven.got(driven.consumer("topic:t", shared="l", durable="l")) == [b"1"]


def test_a_shared_one_and_a_durable_one_of_one_name_are_two() -> None:
    driven = Driven()
    shared, durable = driven.consumer("topic:t", shared="s"), driven.consumer("topic:t", durable="s")
    driven.send(driven.producer("topic:t"), b"1")
    assert (driven.got(shared), driven.got(durable)) == ([b"1"], [b"1"])
    driven.close(shared)
    assert [*driven.core.destinations.routing.durable] == ["s"]


def test_another_use_of_a_shared_name_is_refused() -> None:
    driven = Driven()
    driven.consumer("topic:t", shared="s")
    for name, selector in (("topic:other", ""), ("topic:t", "a = 1")):
        with pytest.raises(CommandError, match="another topic or selector"):
            driven.consumer(name, shared="s", selector=selector)


def test_no_local_leaves_out_the_own_connection() -> None:
    driven = Driven()
    mine, other = object(), object()
    without = driven.consumer("topic:t", session=driven.session(owner=mine), no_local=True)
    everything = driven.consumer("topic:t", session=driven.session(owner=mine))
    for owner, body in ((mine, b"mine"), (other, b"other")):
        driven.send(driven.producer("topic:t", driven.session(owner=owner)), body)
    assert (driven.got(without), driven.got(everything)) == ([b"other"], [b"mine", b"other"])


def test_no_local_of_a_durable_one_leaves_out_the_own_client_also_later() -> None:
    driven = Driven()
    first = object()
    driven.close(
        driven.consumer("topic:t", session=driven.session(owner=first, client="me"), durable="d", no_local=True)
    )
    for client, body in (("me", b"mine"), ("other", b"other"), ("", b"nobody's")):
        driven.send(driven.producer("topic:t", driven.session(owner=object(), client=client)), body, persistent=True)
    driven.sync()
    after = driven.restarted()
    after.send(after.producer("topic:t", after.session(owner=object(), client="me")), b"mine too", persistent=True)
    after.sync()
    again = after.consumer("topic:t", session=after.session(owner=object(), client="me"), durable="d", no_local=True)
    assert after.got(again) == [b"other", b"nobody's"]


def test_no_local_in_a_transaction() -> None:
    driven = Driven()
    mine = object()
    consumer = driven.consumer("topic:t", session=driven.session(owner=mine), no_local=True)
    session = driven.session(owner=mine, transacted=True)
    driven.send(driven.producer("topic:t", session), b"mine")
    driven.commit(session)
    assert (driven.got(consumer), driven.memory) == ([], 0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("queue:q", {"durable": "d"}), ("queue:q", {"shared": "s"}), ("queue:q", {"no_local": True}),
        ("topic:t", {"exclusive": True}), ("topic:t", {"durable": "a", "shared": "b"}),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(name: str, options: SubscriptionValues) -> None:
    driven = Driven()
    with pytest.raises(CommandError):
        driven.consumer(name, **options)
    assert driven.core.destinations.queues == {}
    assert driven.core.destinations.routing.subscriptions == []


def test_a_durable_subscription_without_a_disk_lasts_while_the_broker_does() -> None:
    driven = Driven(stored=False)
    session = driven.session(client="me")
    driven.close(driven.consumer("topic:t", session=session, durable="d"))
    driven.send(driven.producer("topic:t"), b"1")
    assert driven.got(driven.consumer("topic:t", session=session, durable="d")) == [b"1"]
    assert driven.records == []


def test_a_rollback_after_the_subscription_has_ended() -> None:
    """What its consumer had taken in a transaction counts nowhere any more."""
    driven = Driven()
    session = driven.session(transacted=True)
    consumer = driven.consumer("topic:t", session=session)
    driven.send(driven.producer("topic:t"), b"1", b"2")
    driven.acknowledge(consumer, 1)
    driven.close(consumer)
    driven.rollback(session)
    assert driven.memory == 0
