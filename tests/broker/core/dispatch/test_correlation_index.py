"""One message by its correlation id or message id: at once or when it comes, whatever else is on the queue."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.commands import Driven
from broker.core.payloads import Row, alike, batch, single
from mqlab.broker import limits
from mqlab.broker.core.dispatch import correlation_index
from mqlab.broker.core.dispatch.correlation_index import CorrelationIndex, Key
from mqlab.broker.core.dispatch.receive_by_id import ReceivesById
from recorded_calls import recording

both_ways = pytest.mark.parametrize("way", ["indexed", "scan"])
IDS = [number.to_bytes(16, "big") for number in range(10)]


def indexes(driven: Driven) -> list[CorrelationIndex]:
    receives = driven.queue("q").receives
    assert isinstance(receives, ReceivesById)
    return [*receives.indexes.values()]


@both_ways
def test_from_single_messages_and_from_batches(way: str) -> None:
    driven = Driven(retrieval=way)
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"a", correlation_id="a"))
    driven.put(producer, batch(*((name.encode(), {"correlation_id": name}) for name in "bcd")))
    driven.send(producer, b"none")
    driven.put(producer, batch((b"none", {}), (b"e", {"correlation_id": "e"})))
    consumer = driven.consumer("queue:q", 0)
    for name in "ecabd":
        driven.receive(consumer, name)
    assert driven.got(consumer) == [b"e", b"c", b"a", b"b", b"d"]
    assert driven.left("q") == [b"none", b"none"]
    driven.acknowledge(consumer, 5)
    assert driven.queue("q").size == sum(one.size for one in driven.queue("q").spans())
    assert driven.queue("q").in_memory == driven.memory == sum(one.memory for one in driven.queue("q").spans())


@both_ways
def test_by_message_id(way: str) -> None:
    driven = Driven(retrieval=way)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    driven.put(producer, single(b"1", id=IDS[1], correlation_id="x"))
    driven.put(producer, batch((b"2", {"id": IDS[2], "correlation_id": "y"}), (b"3", {"id": IDS[3]})))
    for number in (3, 1):
        driven.receive(consumer, IDS[number], "id")
    driven.receive(consumer, "y")
    assert driven.got(consumer) == [b"3", b"1", b"2"]


@both_ways
def test_the_oldest_with_that_id_comes_first(way: str) -> None:
    driven = Driven(retrieval=way)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    for number in range(4):
        driven.put(producer, single(b"%d" % number, correlation_id="a"))
    for _ in range(3):
        driven.receive(consumer, "a")
    driven.close(consumer)
    again = driven.consumer("queue:q", 0)
    for _ in range(4):
        driven.receive(again, "a")
    assert driven.got(again) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(("way", "order"), [("indexed", [1, 9, 5, 9]), ("scan", [9, 9, 5, 1])])
def test_of_several_priorities(way: str, order: list[int]) -> None:
    """The index knows which is the oldest; a search begins at the head of the queue, where the highest stand."""
    driven = Driven(retrieval=way)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    driven.receive(consumer, "an index is there from now on")
    for priority in (1, 9, 5, 9):
        driven.put(producer, single(b"%d" % priority, correlation_id="a", priority=priority))
    for _ in range(4):
        driven.receive(consumer, "a")
    assert driven.got(consumer) == [b"%d" % priority for priority in order]


def test_who_asks_first_is_served_first() -> None:
    driven = Driven()
    consumers = [driven.consumer("queue:q", 0) for _ in range(3)]
    for at in (1, 2, 0, 1):
        driven.receive(consumers[at], "a")
    producer = driven.producer("queue:q")
    driven.put(
        producer,
        batch((b"0", {"correlation_id": "a"}), (b"x", {"correlation_id": "b"}), (b"1", {"correlation_id": "a"})),
    )
    driven.put(producer, single(b"2", correlation_id="a"))
    driven.put(producer, single(b"3", correlation_id="a"))
    driven.put(producer, single(b"4", correlation_id="a"))
    assert [driven.got(one) for one in consumers] == [[b"2"], [b"0", b"3"], [b"1"]]
    assert driven.left("q") == [b"x", b"4"]


def test_a_waiting_receive_goes_before_those_who_take_anything() -> None:
    driven = Driven()
    greedy, choosy = driven.consumer("queue:q", 100), driven.consumer("queue:q", 0)
    driven.receive(choosy, "a")
    driven.put(driven.producer("queue:q"), batch(*((name.encode(), {"correlation_id": name}) for name in "bac")))
    assert (driven.got(choosy), driven.got(greedy)) == ([b"a"], [b"b", b"c"])


def test_it_needs_no_room_and_takes_none() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 1)
    driven.receive(consumer, "a")
    driven.put(producer, single(b"a", correlation_id="a"))
    driven.send(producer, b"1")
    driven.send(producer, b"2")
    assert driven.got(consumer) == [b"a", b"1"]


@pytest.mark.parametrize("how", ["cancel", "close", "lose"])
def test_one_that_waits_no_more_gets_nothing(how: str) -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 0), driven.consumer("queue:q", 0)
    for consumer in (one, two, one):
        driven.receive(consumer, "a")
    driven.receive(one, "b")
    if how == "cancel":
        driven.do(driven.core.cancel_receives, one)
    elif how == "close":
        driven.close(one)
    else:
        driven.lose(one.session)
    producer = driven.producer("queue:q")
    for name in "ab":
        driven.put(producer, single(name.encode(), correlation_id=name))
    assert (driven.got(one), driven.got(two), driven.left("q")) == ([], [b"a"], [b"b"])


@both_ways
def test_what_comes_back_can_be_had_again(way: str) -> None:
    driven = Driven(retrieval=way)
    one, two = driven.consumer("queue:q", 0), driven.consumer("queue:q", 0)
    driven.put(driven.producer("queue:q"), alike([b"1", b"2", b"3"], correlation_id="a"))
    for _ in range(2):
        driven.receive(one, "a")
    driven.close(one, 1)
    for _ in range(4):
        driven.receive(two, "a")
    assert driven.delivered[two] == [(b"1", True), (b"2", False), (b"3", False)]
    driven.put(driven.producer("queue:q"), single(b"4", correlation_id="a"))
    assert driven.got(two) == [b"1", b"2", b"3", b"4"]


def test_what_comes_back_serves_who_waits_for_it() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 5), driven.consumer("queue:q", 0)
    driven.put(driven.producer("queue:q"), batch(*((name.encode(), {"correlation_id": name}) for name in "abc")))
    driven.receive(two, "b")
    assert driven.got(two) == []
    driven.close(one)
    assert driven.delivered[two] == [(b"b", True)]
    assert driven.left("q") == [b"a", b"c"]


def test_rows_that_were_taken_from_around_it_do_not_hide_it() -> None:
    """A batch that is divided, taken from and put together again is indexed as it is now."""
    driven = Driven()
    numbered: list[Row] = [(b"%d" % n, {"correlation_id": str(n), "n": n}) for n in range(9)]
    driven.put(driven.producer("queue:q"), batch(*numbered))
    keyed = driven.consumer("queue:q", 0)
    driven.receive(keyed, "an index is there from now on")
    choosy = driven.consumer("queue:q", 3, selector="n = 2 OR n = 5 OR n = 8")
    driven.close(choosy, 0)
    for number in (3, 4, 1, 5, 8, 0, 2, 7, 6):
        driven.receive(keyed, str(number))
    assert driven.got(keyed) == [b"%d" % n for n in (3, 4, 1, 5, 8, 0, 2, 7, 6)]


def test_the_index_costs_the_same_at_any_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    for number in range(2000):
        driven.put(producer, single(b"unretrieved", correlation_id=f"old {number}"))
    driven.receive(consumer, "an index is there from now on")
    driven.go_on()
    monkeypatch.setattr(correlation_index, "keys", recording(correlation_index.keys, looks))
    for number in range(500):
        driven.put(producer, single(b"%d" % number, correlation_id=f"new {number}"))
        driven.receive(consumer, f"new {number}")
        driven.acknowledge(consumer, number + 1)
    assert driven.got(consumer) == [b"%d" % n for n in range(500)]
    assert len(looks) <= 500
    assert driven.queue("q").messages == 2000
    [index] = indexes(driven)
    assert (index._entries, len(index._bases), len(index._spans)) == (2000, 2000, 2000)


def test_scanning_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other behaviour, which a study is about: each receive looks at all that lies before."""
    looks: list[object] = []
    monkeypatch.setattr(correlation_index, "keys", recording(correlation_index.keys, looks))
    driven = Driven(retrieval="scan")
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    for number in range(100):
        driven.put(producer, single(b"unretrieved", correlation_id=f"old {number}"))
    for _ in range(10):
        driven.put(producer, single(b"new", correlation_id="new"))
        driven.receive(consumer, "new")
    assert len(driven.got(consumer)) == 10
    assert len(looks) >= 1000


def test_a_worn_index_is_built_anew() -> None:
    """Messages that others took leave their entries behind: not for ever, and nothing is lost by the sweep."""
    driven = Driven()
    producer, keyed = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    driven.put(producer, single(b"kept", correlation_id="kept"))
    driven.receive(keyed, "an index is there from now on")
    first = driven.consumer("queue:q", 1)
    greedy = driven.consumer("queue:q", 5000)
    for number in range(3000):
        driven.put(producer, single(b"x", correlation_id=str(number)))
        driven.acknowledge(greedy, number + 1)
    [index] = indexes(driven)
    assert isinstance(index, CorrelationIndex)
    assert max(index._entries, len(index._bases)) <= 100
    driven.close(first)
    driven.close(greedy)
    driven.receive(keyed, "kept")
    assert driven.got(keyed) == [b"kept"]


def test_ids_are_told_apart_by_their_kind() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", 0)
    driven.receive(consumer, "a", "id")
    driven.put(driven.producer("queue:q"), single(b"1", correlation_id="a"))
    assert driven.got(consumer) == []
    assert Key("id", "a") != Key("correlation_id", "a")


def test_in_a_transaction_it_comes_back_with_a_rollback() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    consumer = driven.consumer("queue:q", 0, session)
    driven.put(driven.producer("queue:q"), single(b"1", correlation_id="a"))
    driven.receive(consumer, "a")
    driven.acknowledge(consumer, 1)
    driven.rollback(session)
    driven.receive(consumer, "a")
    assert driven.delivered[consumer] == [(b"1", False), (b"1", True)]


steps = st.lists(
    st.tuples(st.sampled_from(["put", "put", "batch", "receive", "receive", "take", "back"]), st.integers(0, 3)),
    max_size=30,
)


@settings(deadline=None)
@given(steps)
def test_both_ways_find_the_same(actions: list[tuple[str, int]]) -> None:
    outcomes = []
    for way in ("indexed", "scan"):
        driven = Driven(retrieval=way, redelivery_limit=0)
        producer, number = driven.producer("queue:q"), count()
        keyed, other = driven.consumer("queue:q", 0), driven.consumer("queue:q", 0)
        for what, of in actions:
            if what == "put":
                driven.put(producer, single(b"%d" % next(number), correlation_id=str(of)))
            elif what == "batch":
                driven.put(
                    producer, batch(*((b"%d" % next(number), {"correlation_id": str((of + n) % 4)}) for n in range(3)))
                )
            elif what == "receive":
                driven.receive(keyed, str(of))
            elif what == "take":
                driven.acknowledge(other, 0, of)
                driven.do(driven.core.cancel_receives, other)
            else:
                driven.do(driven.core.requeue_all, other if of % 2 else keyed, 0)
        outcomes.append((driven.got(keyed), driven.got(other), driven.left("q")))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("priority", [4, 9])
def test_the_index_of_a_deep_queue_is_built_in_slices(priority: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks meanwhile gets the oldest message with that id, as soon as the index comes to it."""
    monkeypatch.setattr(limits, "SLICE", 40)
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    for n in range(100):
        driven.put(producer, single(b"%d" % n, correlation_id=str(n % 90), priority=priority if n % 2 else 4))
    driven.receive(consumer, "5")
    driven.receive(consumer, "85")
    driven.receive(consumer, "none")
    assert driven.got(consumer) == [b"5"]
    driven.put(producer, single(b"new 85", correlation_id="85"))
    driven.put(producer, single(b"none", correlation_id="none"))
    assert driven.go_on() >= 8
    assert sorted(driven.got(consumer)) == sorted([b"5", b"85", b"none"])
    driven.receive(consumer, "85")
    driven.receive(consumer, "0")
    driven.receive(consumer, "0")
    assert driven.got(consumer)[3:] == [b"new 85", b"0", b"90"]
    assert not any(line.cursors for line in driven.queue("q").span_lists)
