"""Selectors of subscriptions: applied when messages come; the journal learns what was left out."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.durability.records import Commit, Put, Remove
from mqlab.wire.native.bodies import decode

from .commands import Driven
from .payloads import batch, single
from .reference_recovery import Replayed


def test_a_subscription_gets_what_its_selector_chooses() -> None:
    driven = Driven()
    low, all_ = driven.consumer("topic:t", selector="n < 2"), driven.consumer("topic:t")
    producer = driven.producer("topic:t")
    driven.put(producer, batch(*((b"%d" % n, {"n": n}) for n in (3, 1, 2, 0))))
    driven.put(producer, single(b"1", n=1))
    driven.put(producer, single(b"2", n=2))
    assert driven.got(low) == [b"1", b"0", b"1"]
    assert driven.got(all_) == [b"3", b"1", b"2", b"0", b"1", b"2"]
    driven.acknowledge(low, 3)
    driven.acknowledge(all_, 6)
    assert driven.memory == 0


def test_what_is_left_out_is_in_the_same_record() -> None:
    driven = Driven()
    some = driven.consumer("topic:t", session=driven.session(client="a"), durable="d", selector="n = 1 OR n = 2")
    driven.consumer("topic:t", session=driven.session(client="b"), durable="d")
    none = driven.consumer("topic:t", session=driven.session(client="c"), durable="d", selector="n > 9")
    producer = driven.producer("topic:t")
    driven.put(producer, batch(*((b"%d" % n, {"n": n}) for n in range(5))), persistent=True, confirm=True)
    said = driven.records[-1]
    assert isinstance(said, Commit)
    (put,) = said.puts
    assert put.targets == ((1, 1), (2, 1))
    assert said.removes == (Remove(1, ((1, 1), (4, 2))),)
    assert none.queue.next_id == 1
    driven.sync()
    assert (driven.got(some), driven.got(none)) == ([b"1", b"2"], [])
    after = driven.restarted()
    got = [
        after.got(after.consumer("topic:t", session=after.session(client=client), durable="d", selector=selector))
        for client, selector in (("a", "n = 1 OR n = 2"), ("b", ""), ("c", "n > 9"))
    ]
    assert got == [[b"1", b"2"], [b"%d" % n for n in range(5)], []]


def test_a_batch_that_is_wanted_whole_is_just_put() -> None:
    driven = Driven()
    driven.consumer("topic:t", durable="d", selector="n >= 0")
    driven.put(driven.producer("topic:t"), batch((b"1", {"n": 1}), (b"2", {"n": 2})), persistent=True)
    assert isinstance(driven.records[-1], Put)


def test_nothing_is_written_for_nobody() -> None:
    driven = Driven()
    driven.consumer("topic:t", durable="d", selector="n > 9")
    producer = driven.producer("topic:t")
    before = len(driven.records)
    driven.put(producer, single(b"1", n=1), persistent=True, confirm=True)
    assert (len(driven.records), driven.confirmed, driven.memory) == (before, [(producer, 1)], 0)


def test_in_a_transaction_all_of_it_is_still_one_record() -> None:
    driven = Driven()
    consumer = driven.consumer("topic:t", durable="d", selector="n = 1")
    session = driven.session(transacted=True)
    for name in ("topic:t", "queue:q"):
        driven.put(driven.producer(name, session), batch(*((b"%d" % n, {"n": n}) for n in range(3))), persistent=True)
    before = len(driven.records)
    driven.commit(session)
    (said,) = driven.records[before:]
    assert isinstance(said, Commit)
    assert [put.targets for put in said.puts] == [((1, 1),), ((2, 1),)]
    assert said.removes == (Remove(1, ((1, 1), (3, 1))),)
    driven.sync()
    assert (driven.got(consumer), driven.left("q")) == ([b"1"], [b"0", b"1", b"2"])


def test_selector_and_priorities_of_one_batch() -> None:
    driven = Driven()
    consumer = driven.consumer("topic:t", 0, selector="n <> 2")
    driven.put(driven.producer("topic:t"), batch(*((b"%d" % n, {"n": n, "priority": n % 2 * 9}) for n in range(6))))
    driven.acknowledge(consumer, 0, 10)
    assert driven.got(consumer) == [b"1", b"3", b"5", b"0", b"4"]
    driven.acknowledge(consumer, 5)
    assert (consumer.queue.messages, driven.memory) == (0, 0)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=6), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), min_size=1, max_size=3), st.booleans(),
)  # fmt: skip
def test_what_is_durable_is_what_is_there(
    sends: list[list[tuple[int, int]]], wants: list[int], transacted: bool
) -> None:
    driven = Driven()
    queues = []
    for at, below in enumerate(wants):
        session = driven.session(client=str(at))
        consumer = driven.consumer("topic:t", 0, session, durable="d", selector=f"n < {below}")
        queues.append(consumer.queue)
    session = driven.session(transacted=transacted)
    producer = driven.producer("topic:t", session)
    for rows in sends:
        payload = batch(*((b"%d" % n, {"n": n, "priority": 4 + high}) for n, high in rows))
        driven.put(producer, payload if len(rows) > 1 else single(b"%d" % rows[0][0], n=rows[0][0]), persistent=True)
    if transacted:
        driven.commit(session)
    driven.sync()
    kept = Replayed(driven.records)
    for queue, below in zip(queues, wants, strict=True):
        chosen = [b"%d" % n for rows in sends for n, _ in rows if n < below]
        assert kept.bodies(queue.name) == chosen
        assert queue.messages == len(chosen)
        ids = sorted(one.base + int(row) for one in queue.spans() for row in one.index)
        assert ids == [id_ for number, id_ in kept.messages if number == queue.number]
        assert sorted(body for one in queue.spans() for body in decode(one.encoded()).tolist()) == sorted(chosen)
