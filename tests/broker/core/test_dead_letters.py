"""Dead letters: a message that was delivered in vain too often is put aside, and nothing else is."""

import pytest

from mqlab.broker import limits
from mqlab.broker.core.durability.records import Commit, Remove
from mqlab.broker.policy import Policies, PolicyRule
from mqlab.wire.native.bodies import decode

from .commands import Driven
from .payloads import single

MIB = 1024 * 1024


def deliver_in_vain(driven: Driven, times: int, credit: int = 1, name: str = "queue:q") -> None:
    for _ in range(times):
        driven.close(driven.consumer(name, credit))


def test_after_so_many_deliveries_and_not_before() -> None:
    driven = Driven(redelivery_limit=3)
    driven.send(driven.producer("queue:q"), b"1")
    deliver_in_vain(driven, 2)
    assert (driven.left("q"), "dead-letters" in driven.core.destinations.queues) == ([b"1"], False)
    deliver_in_vain(driven, 1)
    assert (driven.left("q"), driven.left("dead-letters")) == ([], [b"1"])
    assert (driven.queue("q").messages, driven.queue("q").counters.dead) == (0, 1)
    assert driven.memory == driven.queue("dead-letters").in_memory


def test_only_those_that_were_delivered() -> None:
    driven = Driven(redelivery_limit=2)
    driven.send(driven.producer("queue:q"), b"1", b"2", b"3", b"4")
    deliver_in_vain(driven, 1, 3)
    deliver_in_vain(driven, 1, 2)
    assert (driven.left("dead-letters"), driven.left("q")) == ([b"1", b"2"], [b"3", b"4"])


def test_a_dead_letter_says_where_it_came_from_and_begins_anew() -> None:
    driven = Driven(redelivery_limit=1)
    driven.put(driven.producer("queue:q"), single(b"1", correlation_id="c"))
    deliver_in_vain(driven, 1)
    consumer = driven.consumer("queue:dead-letters")
    assert driven.delivered[consumer] == [(b"1", False)]
    assert driven.spans[consumer][0].origin == "queue:q"
    driven.receive(driven.consumer("queue:dead-letters"), "c")


def test_there_is_no_end_for_a_dead_letter() -> None:
    driven = Driven(redelivery_limit=1)
    driven.send(driven.producer("queue:q"), b"1")
    deliver_in_vain(driven, 1)
    deliver_in_vain(driven, 5, name="queue:dead-letters")
    assert driven.left("dead-letters") == [b"1"]


def test_no_limit() -> None:
    driven = Driven(redelivery_limit=0)
    driven.send(driven.producer("queue:q"), b"1")
    deliver_in_vain(driven, 50)
    assert driven.left("q") == [b"1"]


def test_in_one_step_and_visible_when_that_is_durable() -> None:
    driven = Driven(redelivery_limit=1)
    driven.send(driven.producer("queue:q"), b"1", b"2", persistent=True)
    driven.sync()
    deliver_in_vain(driven, 1)
    (moved,) = driven.said(Commit)
    assert [decode(put.payload).tolist() for put in moved.puts] == [[b"1"]]
    assert moved.puts[0].origin == "queue:q"
    assert moved.removes == (Remove(1, ((1, 1),)),)
    before = driven.restarted()
    assert before.left("q") == [b"1", b"2"]
    assert "dead-letters" not in before.core.destinations.queues
    assert driven.left("dead-letters") == []
    driven.sync()
    assert driven.left("dead-letters") == [b"1"]
    after = driven.restarted()
    assert (after.left("q"), after.left("dead-letters")) == ([b"2"], [b"1"])


@pytest.mark.parametrize("how", ["rollback", "take_back", "lose", "close"])
def test_every_way_in_which_a_delivery_can_be_in_vain(how: str) -> None:
    driven = Driven(redelivery_limit=1)
    session = driven.session(transacted=how == "rollback")
    consumer = driven.consumer("queue:q", 1, session)
    driven.send(driven.producer("queue:q"), b"1")
    if how == "rollback":
        driven.acknowledge(consumer, 1)
        driven.rollback(session)
    elif how == "take_back":
        driven.do(driven.core.requeue_all, consumer, 1)
    elif how == "lose":
        driven.lose(session)
    else:
        driven.close(consumer)
    assert driven.left("dead-letters") == [b"1"]


def test_what_nobody_saw_does_not_count() -> None:
    driven = Driven(redelivery_limit=1)
    driven.send(driven.producer("queue:q"), b"1", b"2")
    driven.close(driven.consumer("queue:q", 2), 1)
    assert (driven.left("dead-letters"), driven.left("q")) == ([b"1"], [b"2"])


def test_a_subscription_has_dead_letters_too() -> None:
    rules = Policies((PolicyRule("topic:t", {"redelivery_limit": 1, "dead_letters": "queue:dead.t"}),))
    driven = Driven(policies=rules)
    session = driven.session(client="me")
    consumer = driven.consumer("topic:t", 1, session, durable="d")
    driven.send(driven.producer("topic:t"), b"1", b"2", persistent=True)
    driven.sync()
    driven.close(consumer)
    driven.sync()
    assert driven.left("dead.t") == [b"1"]
    assert [span.origin for span in driven.queue("dead.t").spans()] == ["topic:t"]
    assert driven.got(driven.consumer("topic:t", 9, session, durable="d")) == [b"2"]


def test_dead_letters_keep_their_order() -> None:
    driven = Driven(redelivery_limit=1)
    producer = driven.producer("queue:q")
    for number in range(5):
        driven.send(producer, b"%d" % number, persistent=number % 2 == 0)
    driven.sync()
    deliver_in_vain(driven, 1, 5)
    driven.sync()
    assert driven.left("dead-letters") == [b"%d" % n for n in range(5)]
    assert (driven.queue("q").messages, driven.queue("q").size) == (0, 0)


def test_a_restart_does_not_count_as_a_delivery_though_it_marks_the_message() -> None:
    driven = Driven(redelivery_limit=1)
    driven.send(driven.producer("queue:q"), b"1", persistent=True)
    driven.sync()
    after = driven.restarted()
    unseen = after.consumer("queue:q")
    after.close(unseen, 0)
    assert (after.delivered[unseen], after.left("q")) == ([(b"1", True)], [b"1"])
    after.close(after.consumer("queue:q"))
    after.sync()
    assert (after.left("q"), after.left("dead-letters")) == ([], [b"1"])


@pytest.mark.parametrize("names", [["q", "b"], ["q", "b", "c"], ["q", "b", "c", "b"]])
def test_queues_that_name_each_other_do_not_send_a_message_round(names: list[str]) -> None:
    """It goes on as long as that leads to somewhere new."""
    ways = zip(names, [*names[1:], names[0]] if len(names) < 4 else names[1:], strict=False)
    rules = Policies(
        tuple(PolicyRule(f"queue:{one}", {"dead_letters": f"queue:{to}"}) for one, to in dict(ways).items())
    )
    driven = Driven(redelivery_limit=1, policies=rules)
    driven.send(driven.producer("queue:q"), b"1", persistent=True)
    for name in names[:-1] * 3:
        driven.sync()
        driven.close(driven.consumer(f"queue:{name}"))
    driven.sync()
    there = {name: driven.left(name) for name in driven.core.destinations.queues}
    assert there == {name: [b"1"] if name == "b" else [] for name in there}


@pytest.mark.parametrize(("memory_limit", "most"), [(2 * MIB, 3), (24 * MIB, 23)])
def test_dead_letters_take_a_part_of_memory_and_no_more(memory_limit: int, most: int) -> None:
    """Else they fill it, and no producer gets credit again: above it, a message stays in its queue and comes again."""
    driven = Driven(redelivery_limit=1, memory_limit=memory_limit, queue_limit=64 * memory_limit)
    assert limits.DEAD_LETTERS_LEAST == MIB
    size = MIB // 4 + 1
    for _ in range(most + 2):
        driven.send(driven.producer("queue:q"), bytes(size))
        deliver_in_vain(driven, 1, credit=most)
    assert (len(driven.left("dead-letters")), len(driven.left("q"))) == (most, 2)
