"""Selectors of consumers of a queue: each message to one who wants it, in order, however deep it lies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker import limits
from mqlab.broker.core.dispatch import selective
from mqlab.broker.core.dispatch.selection import chosen_of, chosen_of_singles
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.broker.core.selectors import BadSelectorError
from mqlab.wire.native.columns import Value
from recorded_calls import recording

from .commands import NOW, Driven
from .payloads import batch, bodies_of, single


def numbered(driven: Driven, count: int, *, together: int = 1, **values: int | str) -> None:
    """Messages with their number as body and as property `n`."""
    producer = driven.producer("queue:q")
    for first in range(0, count, together):
        numbers = range(first, min(count, first + together))
        if together == 1:
            driven.put(producer, single(b"%d" % first, n=first, **values))
        else:
            driven.put(producer, batch(*((b"%d" % n, {"n": n, **values}) for n in numbers)))


def bodies(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


@pytest.mark.parametrize("together", [1, 3, 20])
def test_consumers_with_selectors_that_exclude_one_another(together: int) -> None:
    driven = Driven()
    low, high = driven.consumer("queue:q", selector="n < 5"), driven.consumer("queue:q", selector="n >= 5 AND n < 15")
    numbered(driven, 20, together=together)
    assert driven.got(low) == bodies(*range(5))
    assert driven.got(high) == bodies(*range(5, 15))
    assert driven.left("q") == bodies(*range(15, 20))
    rest = driven.consumer("queue:q")
    assert driven.got(rest) == bodies(*range(15, 20))


@pytest.mark.parametrize("together", [1, 4])
def test_room_is_kept_and_the_rest_waits(together: int) -> None:
    driven = Driven()
    numbered(driven, 12, together=together)
    even = driven.consumer("queue:q", 2, selector="n = 0 OR n = 2 OR n = 4 OR n = 6 OR n = 8")
    assert driven.got(even) == bodies(0, 2)
    driven.acknowledge(even, 2, 2)
    assert driven.got(even) == bodies(0, 2, 4, 6)
    driven.acknowledge(even, 4, 9)
    assert driven.got(even) == bodies(0, 2, 4, 6, 8)
    assert driven.left("q") == bodies(1, 3, 5, 7, 9, 10, 11)


def test_the_selector_looks_at_many_single_messages_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    monkeypatch.setattr(selective, "chosen_of_singles", recording(chosen_of_singles, looks))
    driven = Driven()
    numbered(driven, 3000)
    consumer = driven.consumer("queue:q", 1, selector="n >= 2990")
    driven.go_on()
    assert driven.got(consumer) == bodies(2990)
    assert len(looks) <= 4
    for more in range(9):
        driven.acknowledge(consumer, more + 1, 1)
    assert driven.got(consumer) == bodies(*range(2990, 3000))
    assert len(looks) <= 4


def test_a_deep_queue_is_looked_through_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while messages come and others, who want what is there, are served."""
    monkeypatch.setattr(limits, "SLICE", 50)
    driven = Driven()
    numbered(driven, 400)
    picky, other = driven.consumer("queue:q", selector="n >= 390"), driven.consumer("queue:q", 2, selector="n >= 0")
    assert driven.got(picky) == []
    driven.put(driven.producer("queue:q"), single(b"400", n=400))
    assert len(driven.later) == 1
    assert driven.go_on() >= 7
    assert driven.got(picky) == bodies(*range(390, 401))
    assert driven.got(other) == bodies(0, 1)
    assert not driven.later


def test_what_was_passed_over_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven()
    numbered(driven, 50, together=10)
    consumer = driven.consumer("queue:q", selector="n = 77")
    looks: list[object] = []
    monkeypatch.setattr(selective, "chosen_of", recording(chosen_of, looks))
    driven.put(driven.producer("queue:q"), batch((b"77", {"n": 77}), (b"78", {"n": 78})))
    assert driven.got(consumer) == bodies(77)
    assert len(looks) == 1


def test_what_comes_back_before_the_cursor_is_looked_at() -> None:
    driven = Driven()
    greedy = driven.consumer("queue:q", 6)
    numbered(driven, 12, together=3)
    choosy = driven.consumer("queue:q", selector="n = 1 OR n = 4 OR n = 11")
    assert driven.got(choosy) == bodies(11)
    driven.acknowledge(greedy, 1)
    driven.close(greedy)
    assert driven.delivered[choosy] == [(b"11", False), (b"1", True), (b"4", True)]
    assert driven.left("q") == bodies(2, 3, 5, 6, 7, 8, 9, 10)


def test_what_a_selector_took_goes_back_to_its_place() -> None:
    driven = Driven()
    numbered(driven, 10, together=10)
    choosy = driven.consumer("queue:q", selector="n BETWEEN 2 AND 8 AND n <> 5")
    assert driven.left("q") == bodies(0, 1, 5, 9)
    driven.close(choosy)
    assert driven.left("q") == bodies(*range(10))


def test_a_selector_and_priorities() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for number in range(10):
        driven.put(producer, single(b"%d" % number, n=number, priority=number % 3))
    driven.put(producer, batch(*((b"%d" % n, {"n": n, "priority": 9 - n % 2}) for n in range(10, 14))))
    consumer = driven.consumer("queue:q", 1, selector="n <> 5 AND n <> 12")
    for more in range(13):
        driven.acknowledge(consumer, more, 1)
    assert driven.got(consumer) == bodies(10, 11, 13, 2, 8, 1, 4, 7, 0, 3, 6, 9)
    assert driven.left("q") == bodies(12, 5)


def test_a_selector_reads_headers() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"1", type="order", priority=7))
    driven.put(producer, single(b"2", type="order"), persistent=True)
    driven.send(producer, b"3")
    driven.sync()
    selectors = (
        "JMSType = 'order'",
        "JMSPriority > 4",
        "JMSDeliveryMode = 'PERSISTENT'",
        "JMSPriority = 4",
        "JMSType IS NULL",
    )
    got = []
    for selector in selectors:
        browser = driven.consumer("queue:q", browse=True, selector=selector)
        got.append(driven.got(browser))
    assert got == [[b"1", b"2"], [b"1"], [b"2"], [b"2", b"3"], [b"3"]]


def test_a_selector_on_other_types_of_one_property() -> None:
    """Single messages that do not look alike are looked at apart."""
    driven = Driven()
    producer = driven.producer("queue:q")
    values: tuple[Value, ...] = (1, "1", 1.0, True, 2)
    for at, value in enumerate(values):
        driven.put(producer, single(b"%d" % at, v=value))
    driven.send(producer, b"none")
    assert driven.got(driven.consumer("queue:q", selector="v = 1")) == bodies(0, 2)
    assert driven.got(driven.consumer("queue:q", selector="v = '1' OR v = TRUE")) == bodies(1, 3)


def test_late_messages_are_passed_over_by_nobody() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, batch(*((b"%d" % n, {"n": n, "expiration": NOW + (5 if n % 2 else 50)}) for n in range(6))))
    driven.core.context.now_ms = NOW + 5
    consumer = driven.consumer("queue:q", selector="n > 1")
    assert (driven.got(consumer), driven.left("q")) == (bodies(2, 4), bodies(0))
    assert driven.queue("q").counters.expired == 3


def test_fair_turns_among_those_who_want_the_same() -> None:
    driven = Driven()
    driven.consumer("queue:q", selector="n < 0")
    one, two = driven.consumer("queue:q", selector="n >= 0"), driven.consumer("queue:q", selector="n >= 0")
    numbered(driven, 30)
    assert (len(driven.got(one)), len(driven.got(two))) == (15, 15)


def test_a_bad_selector_opens_nothing() -> None:
    driven = Driven()
    session = driven.session()
    with pytest.raises(BadSelectorError):
        driven.consumer("queue:q", session=session, selector="n >")
    assert session.consumers == []


def test_a_waiting_receive_with_a_selector() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 0, selector="n > 5"), driven.consumer("queue:q", 0, selector="n > 3")
    driven.acknowledge(one, 0, 1)
    driven.acknowledge(two, 0, 1)
    numbered(driven, 8)
    assert (driven.got(one), driven.got(two)) == (bodies(6), bodies(4))


# Four consumers: one for each of three kinds (and the third for the first, too), and one for all.
WANTS = {"kind = 0": {0}, "kind = 1": {1}, "kind = 2 OR kind = 0": {2, 0}, "": {0, 1, 2}}
sends = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=8)
step = st.tuples(
    st.sampled_from(["room", "room", "room", "close", "take_back", "ack"]), st.integers(0, 3), st.integers(1, 4)
)


def in_hand(consumer: CoreConsumer) -> list[bytes]:
    return bodies_of(span for _, span in consumer.unacknowledged)


@settings(deadline=None)
@given(sends, st.lists(step, max_size=25))
def test_every_message_goes_to_somebody_who_wants_it(sent: list[list[int]], steps: list[tuple[str, int, int]]) -> None:
    """What is left over is exactly what nobody with room wants."""
    driven = Driven(redelivery_limit=0)
    selectors = [*WANTS]
    consumers = [driven.consumer("queue:q", 0, selector=one) for one in selectors]
    producer = driven.producer("queue:q")
    kinds: dict[bytes, int] = {}
    for some in sent:
        rows = [(b"%d" % (len(kinds) + at), {"kind": kind}) for at, kind in enumerate(some)]
        kinds |= {body: values["kind"] for body, values in rows}
        driven.put(producer, batch(*rows) if len(rows) > 1 else single(rows[0][0], **rows[0][1]))
    gone: list[bytes] = []
    for what, of, amount in steps:
        consumer = consumers[of]
        if what == "room":
            driven.acknowledge(consumer, 0, amount)
        elif what == "ack":
            gone += in_hand(consumer)[:1]
            driven.acknowledge(consumer, consumer.unacknowledged[0][0] if consumer.unacknowledged else 0)
        elif what == "take_back":
            driven.do(driven.core.requeue_all, consumer, 0)
        else:
            driven.close(consumer)
            consumers[of] = driven.consumer("queue:q", 0, selector=selectors[of])
        left = driven.left("q")
        assert left == sorted(left, key=int)
        for one, wanted in zip(consumers, WANTS.values(), strict=True):
            assert all(kinds[body] in wanted for body in in_hand(one))
            assert not one.ready or all(kinds[body] not in wanted for body in left)
    held = [body for one in consumers for body in in_hand(one)]
    assert sorted(gone + held + driven.left("q"), key=int) == [*kinds]
