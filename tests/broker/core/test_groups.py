"""Message groups: all of a group go to one consumer, in order, for as long as it is there."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker import limits
from mqlab.broker.core.dispatch import selective
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.broker.core.routing import ordering
from recorded_calls import recording

from .commands import Driven
from .payloads import batch, single


def groups_of(driven: Driven, consumer: CoreConsumer) -> list[bytes]:
    """Bodies begin with the letter of their group."""
    return sorted({body[:1] for body in driven.got(consumer)})


def test_a_group_stays_with_one_consumer() -> None:
    driven = Driven()
    consumers = [driven.consumer("queue:q", 100) for _ in range(3)]
    producer = driven.producer("queue:q")
    for number in range(30):
        group = "abc"[number % 3]
        driven.put(producer, single(b"%s%d" % (group.encode(), number), group=group))
    assert [groups_of(driven, one) for one in consumers] == [[b"a"], [b"b"], [b"c"]]
    assert [driven.got(one) for one in consumers] == [
        [b"%s%d" % (group, n) for n in range(at, 30, 3)] for at, group in enumerate((b"a", b"b", b"c"))
    ]


def test_groups_of_one_batch_spread_over_the_consumers() -> None:
    driven = Driven()
    consumers = [driven.consumer("queue:q", 100) for _ in range(2)]
    rows = [(b"%s%d" % (group.encode(), turn), {"group": group}) for turn in range(3) for group in "abcd"]
    driven.put(driven.producer("queue:q"), batch(*rows))
    assert [groups_of(driven, one) for one in consumers] == [[b"a", b"c"], [b"b", b"d"]]
    for consumer in consumers:
        for group in groups_of(driven, consumer):
            assert [body for body in driven.got(consumer) if body[:1] == group] == [group + b"%d" % n for n in range(3)]


def test_a_consumer_without_room_keeps_its_groups_and_holds_up_no_other() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 1), driven.consumer("queue:q", 100)
    producer = driven.producer("queue:q")
    for number in range(6):
        group = "ab"[number % 2]
        driven.put(producer, single(b"%s%d" % (group.encode(), number), group=group))
    assert (driven.got(one), driven.got(two)) == ([b"a0"], [b"b1", b"b3", b"b5"])
    driven.acknowledge(one, 1, 5)
    assert driven.got(one) == [b"a0", b"a2", b"a4"]


def test_a_group_is_claimed_with_its_first_message_and_not_before() -> None:
    """One that has room for a message of its own group only does not take another group it cannot receive from."""
    driven = Driven()
    one, two = driven.consumer("queue:q", 1), driven.consumer("queue:q", 0)
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"a0", group="a"))
    driven.put(producer, batch((b"a1", {"group": "a"}), (b"b1", {"group": "b"})))
    driven.acknowledge(one, 1, 1)
    driven.acknowledge(two, 0, 9)
    assert (driven.got(one), driven.got(two)) == ([b"a0", b"a1"], [b"b1"])


def test_messages_of_no_group_go_to_anybody() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 2), driven.consumer("queue:q", 100)
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"a", group="a"))
    driven.put(producer, batch((b"1", {}), (b"a", {"group": "a"}), (b"2", {})))
    driven.send(producer, b"3")
    assert sorted(driven.got(one) + driven.got(two)) == [b"1", b"2", b"3", b"a", b"a"]
    assert driven.got(one).count(b"a") in (0, 2)


def test_a_group_is_released_when_its_consumer_goes() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 2), driven.consumer("queue:q", 100)
    producer = driven.producer("queue:q")
    for number in range(6):
        driven.put(producer, single(b"a%d" % number, group="a"))
    assert (driven.got(one), driven.got(two)) == ([b"a0", b"a1"], [])
    driven.acknowledge(one, 1)
    driven.close(one)
    assert driven.got(two) == [b"a%d" % n for n in range(1, 6)]


def test_it_is_released_also_by_one_that_has_nothing_in_hand() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 1), driven.consumer("queue:q", 100)
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"a0", group="a"))
    driven.put(producer, single(b"a1", group="a"))
    driven.acknowledge(one, 1)
    driven.lose(one.session)
    assert driven.got(two) == [b"a1"]


def test_what_comes_back_goes_to_the_consumer_of_its_group() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 9), driven.consumer("queue:q", 9)
    producer = driven.producer("queue:q")
    for number in range(3):
        driven.put(producer, single(b"a%d" % number, group="a"))
    driven.do(driven.core.requeue_all, one, 3)
    assert driven.got(two) == []
    driven.acknowledge(one, 0, 9)
    assert driven.delivered[one][3:] == [(b"a0", True), (b"a1", True), (b"a2", True)]


def test_groups_hold_after_a_restart() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for number in range(6):
        group = "ab"[number % 2]
        driven.put(producer, single(b"%s%d" % (group.encode(), number), group=group), persistent=True)
    driven.sync()
    after = driven.restarted()
    one, two = after.consumer("queue:q", 1), after.consumer("queue:q", 100)
    assert (after.got(one), after.got(two)) == ([b"a0"], [b"b1", b"b3", b"b5"])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=5), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=15), st.integers(0, 4),
)  # fmt: skip
def test_order_inside_a_group_whoever_comes_and_goes(
    sends: list[list[str]], rooms: list[tuple[int, int]], leaves_after: int
) -> None:
    driven = Driven()
    producer, sent = driven.producer("queue:q"), 0
    consumers = [driven.consumer("queue:q", 0) for _ in range(3)]
    for groups in sends:
        rows = [
            (b"%s%d" % (group.encode(), sent + at), {"group": group} if group else {})
            for at, group in enumerate(groups)
        ]
        driven.put(producer, batch(*rows))
        sent += len(rows)
    for turn, (of, room) in enumerate(rooms):
        driven.acknowledge(consumers[of], 0, room)
        if turn == leaves_after:
            driven.close(consumers[0])
            driven.delivered[consumers[0]].clear()
            consumers[0] = driven.consumer("queue:q", 0)
    owners: dict[bytes, set[int]] = defaultdict(set)
    for at, consumer in enumerate(consumers):
        for group in (b"a", b"b", b"c"):
            got = [int(body[1:]) for body in driven.got(consumer) if body[:1] == group]
            assert got == sorted(got)
            owners[group] |= {at} if got else set()
    assert all(len(some) <= 1 for some in owners.values())
    delivered = [body for consumer in consumers for body in driven.got(consumer)]
    assert len(delivered) + len(driven.left("q")) == sent


def test_a_group_that_waits_is_passed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One slow consumer does not make every message of the others dearer."""
    driven = Driven()
    slow, quick = driven.consumer("queue:q", 1), driven.consumer("queue:q", 1000)
    producer = driven.producer("queue:q")
    for number in range(200):
        driven.put(producer, single(b"a%d" % number, group="a"))
    looks: list[object] = []
    monkeypatch.setattr(selective, "groups", recording(ordering.groups, looks))
    for number in range(100):
        driven.put(producer, single(b"b%d" % number, group="b"))
    assert driven.got(quick) == [b"b%d" % number for number in range(100)]
    assert len(looks) < 400
    driven.acknowledge(slow, 1, 1000)
    assert driven.got(slow) == [b"a%d" % number for number in range(200)]


def test_groups_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUPS", 3)
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    for n in range(10):
        driven.put(producer, single(b"%d" % n, group=f"g{n}"))
        assert len(driven.queue("q").groups) <= 3
    assert [*driven.queue("q").groups] == ["g7", "g8", "g9"]
    assert len(driven.got(consumer)) == 10
