"""Competing consumers: turns are fair, room is never exceeded, and who waits first is served first."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.wire.native.coalescing import join_singles
from mqlab.wire.native.payload import Payload

from .commands import Driven, held_messages
from .payloads import single


def test_turns_are_fair_among_those_who_have_room() -> None:
    driven = Driven()
    consumers = [driven.consumer("queue:q", 100) for _ in range(4)]
    producer = driven.producer("queue:q")
    for number in range(40):
        driven.send(producer, b"%d" % number)
    assert [driven.got(consumer) for consumer in consumers] == [
        [b"%d" % n for n in range(at, 40, 4)] for at in range(4)
    ]


def test_who_has_little_room_gets_that_much_and_the_others_the_rest() -> None:
    driven = Driven()
    small, large = driven.consumer("queue:q", 3), driven.consumer("queue:q", 100)
    producer = driven.producer("queue:q")
    for number in range(20):
        driven.send(producer, b"%d" % number)
    assert (len(driven.got(small)), len(driven.got(large))) == (3, 17)


def test_a_batch_is_divided_by_room() -> None:
    driven = Driven()
    consumers = [driven.consumer("queue:q", credit) for credit in (1, 2, 3)]
    driven.send(driven.producer("queue:q"), *(b"%d" % n for n in range(8)))
    assert [driven.got(one) for one in consumers] == [[b"0"], [b"1", b"2"], [b"3", b"4", b"5"]]
    assert driven.left("q") == [b"6", b"7"]


def test_a_large_batch_is_shared_by_those_who_have_room() -> None:
    driven = Driven()
    consumers = [driven.consumer("queue:q", credit) for credit in (1000, 10, 1000, 1000)]
    driven.send(driven.producer("queue:q"), *(b"%d" % n for n in range(400)))
    assert [len(driven.got(one)) for one in consumers] == [122, 10, 134, 134]
    assert [driven.frames[one] for one in consumers] == [2, 1, 1, 1]


def test_a_small_batch_goes_to_one_of_them() -> None:
    driven = Driven()
    consumers = [driven.consumer("queue:q", 100) for _ in range(4)]
    driven.send(driven.producer("queue:q"), *(b"%d" % n for n in range(16)))
    assert [len(driven.got(one)) for one in consumers] == [16, 0, 0, 0]


def test_a_waiting_receive_is_kept_and_served_first_come_first_served() -> None:
    """Prefetch 0: room for one message is given when the application asks for one."""
    driven = Driven()
    consumers = [driven.consumer("queue:q", 0) for _ in range(4)]
    for at in (2, 0, 3, 1):
        driven.acknowledge(consumers[at], 0, 1)
    producer = driven.producer("queue:q")
    for number in range(3):
        driven.send(producer, b"%d" % number)
    assert [driven.got(one) for one in consumers] == [[b"1"], [], [b"0"], [b"2"]]
    driven.acknowledge(consumers[2], 1, 1)
    driven.send(producer, b"3", b"4")
    assert [driven.got(one) for one in consumers] == [[b"1"], [b"3"], [b"0", b"4"], [b"2"]]


def test_asking_twice_does_not_lose_the_place() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 0), driven.consumer("queue:q", 0)
    driven.acknowledge(one, 0, 1)
    driven.acknowledge(two, 0, 1)
    driven.acknowledge(one, 0, 1)
    producer = driven.producer("queue:q")
    for number in range(3):
        driven.send(producer, b"%d" % number)
    assert (driven.got(one), driven.got(two)) == ([b"0", b"2"], [b"1"])


def test_a_cancelled_receive_gets_nothing_and_loses_its_place() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 0), driven.consumer("queue:q", 0)
    driven.acknowledge(one, 0, 1)
    driven.acknowledge(two, 0, 1)
    driven.do(driven.core.cancel_receives, one)
    producer = driven.producer("queue:q")
    driven.send(producer, b"0")
    driven.acknowledge(two, 0, 1)
    driven.acknowledge(one, 0, 1)
    driven.send(producer, b"1")
    driven.send(producer, b"2")
    assert (driven.got(one), driven.got(two)) == ([b"2"], [b"0", b"1"])


def test_a_closed_consumer_no_longer_waits() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 1), driven.consumer("queue:q", 1)
    driven.close(one)
    driven.send(driven.producer("queue:q"), b"0", b"1")
    assert (driven.got(one), driven.got(two), driven.left("q")) == ([], [b"0"], [b"1"])


def test_a_paused_consumer_does_not_hold_up_the_others() -> None:
    driven = Driven()
    stalled, other = driven.consumer("queue:q", 100), driven.consumer("queue:q", 100)
    driven.core.pause(stalled)
    producer = driven.producer("queue:q")
    for number in range(50):
        driven.send(producer, b"%d" % number)
        driven.acknowledge(other, number + 1, 1)
    assert (len(driven.got(stalled)), len(driven.got(other)), driven.memory) == (0, 50, 0)


def test_a_stalled_consumer_holds_no_more_than_its_room() -> None:
    driven = Driven(queue_limit=10_000, producer_window=1000)
    stalled, other = driven.consumer("queue:q", 5), driven.consumer("queue:q", 5)
    producer = driven.producer("queue:q")
    for number in range(500):
        driven.send(producer, b"%100d" % number)
        driven.acknowledge(other, len(driven.got(other)), 1)
    assert len(driven.got(stalled)) == held_messages(stalled) == 5
    assert len(driven.got(other)) == 495
    assert (driven.queue("q").size, driven.memory) == (500, 5 * (100 + FOOTPRINT))


def test_competing_consumers_among_priorities() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for priority in (1, 9, 5, 9):
        driven.put(producer, single(b"%d" % priority, priority=priority))
    consumers = [driven.consumer("queue:q", 1) for _ in range(3)]
    assert [driven.got(one) for one in consumers] == [[b"9"], [b"9"], [b"5"]]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4), st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=10),
)  # fmt: skip
def test_room_is_never_exceeded_and_nothing_is_held_back(
    rooms: list[int], sizes: list[int], more: list[tuple[int, int]]
) -> None:
    driven = Driven()
    consumers = [driven.consumer("queue:q", room) for room in rooms]
    producer, sent = driven.producer("queue:q"), 0
    for size in sizes:
        driven.send(producer, *(b"%d" % n for n in range(sent, sent + size)))
        sent += size
    given_room = [*rooms]
    for of, credit in more:
        driven.acknowledge(consumers[of % len(rooms)], 0, credit)
        given_room[of % len(rooms)] += credit
    got = [driven.got(one) for one in consumers]
    assert all(len(some) <= room for some, room in zip(got, given_room, strict=True))
    assert sum(map(len, got)) == min(sent, sum(given_room))
    assert all(some == sorted(some, key=int) for some in got)
    left = [body for some in got for body in some] + driven.left("q")
    assert sorted(map(int, left)) == [*range(sent)]


def test_messages_sent_one_by_one_are_dealt_one_by_one() -> None:
    """Also where the broker puts them together to a batch."""
    driven = Driven()
    consumers = [driven.consumer("queue:q", credit) for credit in (100, 1, 100, 100)]
    producer = driven.producer("queue:q")
    driven.put(producer, join_singles([single(b"%d" % n) for n in range(9)]))
    assert [driven.got(one) for one in consumers] == [[b"0", b"4", b"7"], [b"1"], [b"2", b"5", b"8"], [b"3", b"6"]]
    # The next is for whoever would have been next.
    driven.put(producer, single(b"9"))
    assert driven.got(consumers[3]) == [b"3", b"6", b"9"]
    # Of many, each consumer gets its own together.
    before = [driven.frames[one] for one in consumers]
    driven.put(producer, join_singles([single(b"%d" % n) for n in range(10, 100)]))
    assert [driven.frames[one] - count for one, count in zip(consumers, before, strict=True)] == [1, 0, 1, 1]
    assert [len(driven.got(one)) for one in consumers] == [33, 1, 33, 33]


Move = tuple[str, int, int]
MOVES = st.lists(
    st.tuples(st.sampled_from(("send", "send", "room", "pause", "resume", "done", "back")), st.integers(0, 3),
              st.integers(1, 40)), max_size=14,
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), MOVES, st.booleans())
def test_dealing_does_not_depend_on_what_came_together(rooms: list[int], moves: list[Move], headers: bool) -> None:
    """The same messages, one at a time and as batches of single messages, go to the same consumers."""
    alone, together = Driven(), Driven()
    each = [[driven.consumer("queue:q", room) for room in rooms] for driven in (alone, together)]
    producers = [driven.producer("queue:q") for driven in (alone, together)]
    sent = 0
    for what, of, count in moves:
        at = of % len(rooms)
        if what == "send":
            payloads = [_numbered(n, headers) for n in range(sent, sent + count)]
            sent += count
            for payload in payloads:
                alone.put(producers[0], payload)
            together.put(producers[1], join_singles(payloads) if count > 1 else payloads[0])
        for driven, consumers in zip((alone, together), each, strict=True):
            consumer = consumers[at]
            if what == "room":
                driven.acknowledge(consumer, 0, count)
            elif what in ("pause", "resume"):
                driven.do(getattr(driven.core, what), consumer)
            elif what == "done":
                driven.acknowledge(consumer, min(count, consumer.next_delivery - 1))
            elif what == "back" and len(rooms) == 1:
                driven.do(driven.core.requeue_all, consumer, 0)
    for one, other in zip(*each, strict=True):
        assert [body for body, _ in alone.delivered[one]] == [body for body, _ in together.delivered[other]]
        assert (one.credit, held_messages(one)) == (other.credit, held_messages(other))
    assert alone.left("q") == together.left("q")
    assert alone.queue("q").messages == together.queue("q").messages


def _numbered(number: int, headers: bool) -> Payload:
    return single(b"%d" % number, correlation_id=str(number)) if headers else single(b"%d" % number)
