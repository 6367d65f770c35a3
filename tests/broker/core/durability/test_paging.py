"""Save extent: what a queue holds beyond a set size waits on disk, persistent or not, and comes back in order."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.commands import NOW, Driven
from broker.core.payloads import batch, bodies_of, single
from broker.core.stand_ins import Disk
from mqlab.broker.core.durability import paging
from mqlab.broker.core.durability.checkpoint import all_spans
from mqlab.broker.core.model.messages import FOOTPRINT, PayloadOnDisk
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.broker.policy import Policies, PolicyRule
from mqlab.wire.native.bodies import SINGLE, Payload

KIB = 1024


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_PAGE_BYTES", 4 * KIB)


def driven_with_disk(extent: int = 8 * KIB, **settings: object) -> tuple[Driven, Disk]:
    driven = Driven(stored=True, save_extent=extent, queue_limit=1 << 30, **settings)
    return driven, Disk(driven)


def sizes_are_right(driven: Driven, name: str = "q") -> bool:
    queue = driven.queue(name)
    spans = all_spans(queue)
    in_memory = sum(span.memory for span in spans)
    return (queue.size, queue.in_memory, driven.memory, queue.messages) == (
        sum(span.size for span in spans), in_memory, in_memory, sum(span.rows for span in spans),
    )  # fmt: skip


@pytest.mark.parametrize("persistent", [True, False])
def test_a_backlog_stays_within_its_extent_and_comes_back_in_order(persistent: bool) -> None:
    driven, disk = driven_with_disk()
    producer = driven.producer("queue:q")
    most = 0
    for number in range(500):
        driven.send(producer, b"%1000d" % number, persistent=persistent)
        driven.sync()
        most = max(most, driven.memory)
        assert sizes_are_right(driven)
    assert most <= 8 * KIB + 4 * KIB + KIB + 13 * FOOTPRINT
    assert driven.queue("q").size >= 500 * 1000
    assert disk.loads == []
    consumer = driven.consumer("queue:q", 7)
    for number in range(0, 500, 7):
        driven.acknowledge(consumer, number + 7, 7)
        assert sizes_are_right(driven)
    assert driven.got(consumer) == [b"%1000d" % n for n in range(500)]
    queue = driven.queue("q")
    assert (queue.messages, queue.size, queue.in_memory, driven.memory) == (0, 0, 0, 0)


def test_nothing_goes_to_disk_within_the_extent() -> None:
    driven, disk = driven_with_disk()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 1000)
    for number in range(500):
        driven.send(producer, b"%1000d" % number)
        if number % 2:
            driven.acknowledge(consumer, number)
    assert (disk.pages, driven.queue("q").counters.saved) == ([], 0)


def test_no_extent_means_memory() -> None:
    driven, disk = driven_with_disk(0)
    producer = driven.producer("queue:q")
    for number in range(100):
        driven.send(producer, b"%1000d" % number)
    assert (disk.pages, driven.memory) == ([], 100 * (1000 + FOOTPRINT))


def test_single_messages_are_put_together_first() -> None:
    """A single message on disk would still cost the memory that says where it is."""
    driven, disk = driven_with_disk(KIB)
    producer = driven.producer("queue:q")
    for number in range(2000):
        driven.put(producer, single(b"%10d" % number, correlation_id=str(number)))
    assert all(page.rows > 10 and not page.form & SINGLE for page in disk.pages)
    assert len([*driven.queue("q").spans()]) < 2000 / 10 + 200
    assert driven.left("q") == [b"%10d" % n for n in range(2000)]
    assert sizes_are_right(driven)


def test_what_they_were_sent_with_stays_with_them() -> None:
    driven, _ = driven_with_disk(KIB)
    producer = driven.producer("queue:q")
    for number in range(300):
        values = {"correlation_id": str(number), "n": number} if number % 3 else {"type": "other"}
        driven.put(producer, single(b"%10d" % number, **values))
    browser = driven.consumer("queue:q", browse=True, selector="n > 290 OR JMSType = 'other'")
    driven.go_on()
    wanted = [n for n in range(300) if n % 3 == 0 or n > 290]
    assert driven.got(browser) == [b"%10d" % n for n in wanted]
    consumer = driven.consumer("queue:q", 0)
    for number in (299, 100, 1, 200):
        driven.receive(consumer, str(number))
    assert driven.got(consumer) == [b"%10d" % n for n in (299, 100, 1, 200)]
    assert sizes_are_right(driven)


def test_an_index_that_was_there_before_leads_to_them() -> None:
    driven, disk = driven_with_disk(KIB)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    driven.receive(consumer, "an index is there from now on")
    for number in range(300):
        driven.put(producer, single(b"%10d" % number, correlation_id=str(number)))
    assert disk.pages
    numbers = [*range(299, -1, -7), *range(0, 299, 7)]
    for number in numbers:
        driven.receive(consumer, str(number))
    assert [int(body) for body in driven.got(consumer)] == list(dict.fromkeys(numbers))
    driven.acknowledge(consumer, 1000)
    assert sizes_are_right(driven)


def test_one_from_the_middle_of_what_is_on_disk() -> None:
    driven, _ = driven_with_disk(KIB)
    producer = driven.producer("queue:q")
    for number in range(100):
        driven.put(producer, batch(*((b"%10d" % n, {"n": n}) for n in range(number * 10, number * 10 + 10))))
    choosy = driven.consumer("queue:q", selector="n = 555 OR n = 777")
    assert [int(body) for body in driven.got(choosy)] == [555, 777]
    driven.close(choosy)
    assert [int(body) for body in driven.left("q")] == [*range(1000)]
    assert sizes_are_right(driven)


def test_priorities_and_marks_are_not_mixed_up() -> None:
    driven, disk = driven_with_disk(KIB)
    producer = driven.producer("queue:q")
    for number in range(600):
        driven.put(producer, single(b"%10d" % number, priority=number % 3), persistent=number % 2 == 0)
    driven.sync()
    assert disk.pages
    order = sorted(range(600), key=lambda number: (-(number % 3), number))
    assert [int(body) for body in driven.left("q")] == order
    assert all(
        (int(body) % 2 == 0) == span.persistent for span in driven.queue("q").spans() for body in bodies_of([span])
    )


def test_messages_that_expire_do_so_on_disk() -> None:
    driven, disk = driven_with_disk(KIB)
    producer = driven.producer("queue:q")
    for number in range(300):
        driven.put(producer, single(b"%10d" % number, expiration=NOW + 5 if number % 3 else 0))
    assert disk.pages
    driven.tick(5)
    assert [int(body) for body in driven.left("q")] == [*range(0, 300, 3)]
    assert sizes_are_right(driven)


def test_a_full_disk_leaves_them_in_memory() -> None:
    driven, disk = driven_with_disk(KIB)
    disk.full = True
    producer = driven.producer("queue:q")
    for number in range(100):
        driven.send(producer, b"%100d" % number)
    assert disk.pages == []
    assert driven.memory > driven.queue("q").size > 100 * 100
    assert sizes_are_right(driven)
    disk.full = False
    for number in range(100, 200):
        driven.send(producer, b"%100d" % number)
    assert disk.pages
    assert [int(body) for body in driven.left("q")] == [*range(200)]


def test_what_comes_back_from_a_consumer_is_in_its_place() -> None:
    driven, _ = driven_with_disk(KIB)
    consumer, producer = driven.consumer("queue:q", 150), driven.producer("queue:q")
    for number in range(400):
        driven.send(producer, b"%100d" % number)
    driven.acknowledge(consumer, 50)
    driven.close(consumer)
    assert [int(body) for body in driven.left("q")] == [*range(50, 400)]
    assert sizes_are_right(driven)


def test_a_subscription_saves_too() -> None:
    driven, disk = driven_with_disk(KIB)
    slow, fast = driven.consumer("topic:t", 0), driven.consumer("topic:t", 1000)
    producer = driven.producer("topic:t")
    for number in range(200):
        driven.send(producer, b"%100d" % number)
        driven.acknowledge(fast, number + 1)
    assert disk.pages
    assert driven.memory <= KIB + 4 * KIB + 200 + 50 * FOOTPRINT
    driven.acknowledge(slow, 0, 1000)
    assert driven.got(slow) == driven.got(fast) == [b"%100d" % n for n in range(200)]
    driven.close(slow)
    assert driven.memory == 0


def test_memory_that_was_saved_lets_producers_of_other_queues_go_on() -> None:
    """Nothing was consumed, yet there is room again."""
    rules = Policies((PolicyRule("queue:q", {"save_extent": KIB}),))
    driven = Driven(policies=rules, memory_limit=5 * KIB + 5 * FOOTPRINT, queue_limit=1 << 30)
    disk = Disk(driven)
    saved, other = driven.producer("queue:q"), driven.producer("queue:other")
    driven.send(other, b"x" * 1500)
    for size in (1000, 1000, 1000, 400):
        driven.send(saved, b"x" * size)
    driven.send(other, b"x" * 600)
    assert set(driven.core.flow.held) == {other}
    assert disk.pages == []
    driven.send(saved, b"x" * 1700)
    assert len(disk.pages) == 1
    assert driven.memory < (5 * KIB + 5 * FOOTPRINT) * 0.75
    assert not driven.core.flow.held


steps = st.lists(
    st.tuples(
        st.sampled_from(["single", "single", "batch", "room", "acknowledge", "back", "receive", "many"]),
        st.integers(0, 9),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps)
def test_nothing_shows_that_some_of_it_is_on_disk(actions: list[tuple[str, int]]) -> None:
    """The same commands to a queue with an extent and to one without."""
    outcomes = []
    for extent in (0, 300):
        driven, _ = driven_with_disk(extent, redelivery_limit=0)
        _play(driven, actions)
        assert sizes_are_right(driven)
        got = [driven.delivered[consumer] for consumer in driven.delivered]
        outcomes.append((got, driven.left("q"), driven.queue("q").messages))
        for consumer in [*driven.queue("q").consumers]:
            assert isinstance(consumer, CoreConsumer)
            driven.close(consumer)
        last = driven.consumer("queue:q", 1000)
        driven.acknowledge(last, 1000)
        assert (driven.queue("q").size, driven.queue("q").in_memory, driven.memory) == (0, 0, 0)
    assert outcomes[0] == outcomes[1]


def _play(driven: Driven, actions: list[tuple[str, int]]) -> None:
    producer, sent = driven.producer("queue:q"), 0
    consumer = driven.consumer("queue:q", 0)
    driven.receive(consumer, "an index is there from now on")
    for what, amount in actions:
        if what in ("single", "many"):
            for _ in range(1 if what == "single" else 30):
                driven.put(producer, single(b"%50d" % sent, correlation_id=str(sent % 10)))
                sent += 1
        elif what == "batch":
            driven.put(
                producer,
                batch(*((b"%50d" % n, {"correlation_id": str(n % 10)}) for n in range(sent, sent + amount + 1))),
            )
            sent += amount + 1
        elif what == "room":
            driven.acknowledge(consumer, 0, amount)
        elif what == "acknowledge":
            driven.acknowledge(consumer, consumer.next_delivery - amount)
        elif what == "receive":
            driven.receive(consumer, str(amount))
        else:
            driven.do(driven.core.requeue_all, consumer, 0)


def test_the_stand_in_is_what_the_core_asks_for() -> None:
    stored: Callable[[Payload], PayloadOnDisk | None] = Disk(Driven()).page_out
    assert stored(Payload(b"abc", 1, SINGLE)) is not None
