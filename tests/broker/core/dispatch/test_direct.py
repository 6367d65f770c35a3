"""The short way of a single message to who waits for it: nobody can tell it from the long one."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.commands import NOW, Driven, held_messages
from broker.core.payloads import single
from mqlab.broker.core.dispatch.direct import DecodedHeaders, SingleSends
from mqlab.broker.core.durability.records import Put, Remove
from mqlab.broker.core.effects import Confirm
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.columns import Value


def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Notes of each send from now on whether it went the short way."""
    noted: list[bool] = []
    real = SingleSends.deliver

    def noting(
        sends: SingleSends, producer: CoreProducer, payload: Payload, confirm: Confirm | None, headers: DecodedHeaders
    ) -> bool:
        noted.append(real(sends, producer, payload, confirm, headers))
        return noted[-1]

    monkeypatch.setattr(SingleSends, "deliver", noting)
    return noted


def test_who_has_room_gets_it_without_a_place_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(stored=False)
    consumer, producer = driven.consumer("queue:q", 2), driven.producer("queue:q")
    short = ways(monkeypatch)
    for body in (b"1", b"2", b"3"):
        driven.send(producer, body)
    assert (short, driven.got(consumer)) == ([True, True, False], [b"1", b"2"])
    # The third stands in line: the fourth may not pass it.
    driven.core.acknowledge(consumer, 2, 0)
    other = driven.consumer("queue:q", 1)
    driven.send(producer, b"4")
    assert (short[3:], driven.got(other), driven.left("q")) == ([False], [b"3"], [b"4"])


def test_who_waits_for_its_id_gets_it_whatever_stands_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(stored=False)
    consumer, producer = driven.consumer("queue:q", 0), driven.producer("queue:q")
    driven.put(producer, single(b"other", correlation_id="o"))
    driven.receive(consumer, "mine")
    short = ways(monkeypatch)
    driven.put(producer, single(b"reply", correlation_id="mine"))
    assert (short, driven.got(consumer), driven.left("q")) == ([True], [b"reply"], [b"other"])
    # It is the consumer's until it says that it is done.
    queue = driven.queue("q")
    assert (queue.messages, queue.counters.put, queue.counters.delivered) == (2, 2, 1)
    driven.acknowledge(consumer, 1)
    assert queue.messages == 1


@pytest.mark.parametrize(
    "headers",
    [{"priority": 7}, {"expiration": NOW + 99}, {"deliver_at": NOW + 9}, {"group": "g"}, {"duplicate_id": "d"}],
)
def test_what_must_be_looked_at_goes_the_long_way(headers: dict[str, Value], monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(stored=False)
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    short = ways(monkeypatch)
    driven.put(producer, single(b"x", **headers))
    assert short == [False]
    driven.tick(9)
    assert driven.got(consumer) == [b"x"]


def test_it_does_not_overtake_what_its_producer_sent_before(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    short = ways(monkeypatch)
    driven.send(producer, b"1", persistent=True)
    driven.send(producer, b"2")
    assert (short, driven.got(consumer)) == ([False], [])
    driven.sync()
    assert driven.got(consumer) == [b"1", b"2"]
    driven.send(producer, b"3", confirm=True, seq=3)
    assert (short[1:], driven.got(consumer)[2:], driven.confirmed) == ([True], [b"3"], [(producer, 3)])


# What is done, the id or the consumer that it is done to, and the header that a message has.
Action = tuple[str, str | int, str]
STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(["", "a", "b"]), st.sampled_from(["", "priority", "group"])),
    st.tuples(st.sampled_from(["room", "receive", "done", "cancel", "lose"]), st.integers(0, 2), st.just("")),
    st.just(("sync", 0, "")),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40), st.sampled_from(["", "colour = 'red'"]), st.booleans())
def test_both_ways_do_the_same(steps: list[Action], selector: str, persistent: bool) -> None:
    short, long = (_after(steps, selector, persistent, handing) for handing in (True, False))
    assert short == long


def _after(steps: list[Action], selector: str, persistent: bool, handing: bool) -> list[object]:
    """What everybody got, with and without the short way, and what the queue and the journal know of it."""
    with pytest.MonkeyPatch.context() as patch:
        if not handing:
            patch.setattr(SingleSends, "deliver", lambda *_: False)
            patch.setattr(SingleSends, "append", lambda *_: False)
        driven = Driven(stored=persistent, monitoring="high", message_limit=6, when_full="refuse")
        consumers = [driven.consumer("queue:q", credit) for credit in (0, 2)]
        consumers.append(driven.consumer("queue:q", 1, selector=selector))
        producer = driven.producer("queue:q")
        seen: list[object] = []
        for number, step in enumerate(steps):
            driven.core.context.monotonic_us += 1
            try:
                _take(driven, consumers, producer, number, step, persistent)
            except CommandError as error:
                seen.append(str(error))
            queue = driven.queue("q")
            seen.append((queue.messages, queue.size, driven.memory, replace(queue.counters), driven.left("q")))
            seen.append((len(queue.hidden), producer.last_lsn, driven.said(Put), driven.said(Remove)))
            seen.append([seq for _, seq in driven.confirmed])
            seen.append([(one.credit, one.waiting, held_messages(one)) for one in consumers])
        monitor = driven.queue("q").monitor
        assert monitor is not None
        return [*seen, [driven.got(one) for one in consumers], monitor.times, (monitor.last_put, monitor.last_get)]


def _take(
    driven: Driven, consumers: list[CoreConsumer], producer: CoreProducer, number: int, step: Action,
    persistent: bool,
) -> None:  # fmt: skip
    what, which, special = step
    if what == "send":
        headers: dict[str, Value] = {"correlation_id": which} if which else {}
        headers |= {"priority": 7} if special == "priority" else {"group": "g"} if special == "group" else {}
        message = single(b"%d" % number, **headers, colour="red" if number % 2 else "blue")
        driven.put(producer, message, persistent=persistent, confirm=bool(number % 3), seq=number + 1)
        return
    if what == "sync":
        driven.sync()
        return
    assert isinstance(which, int)
    consumer = consumers[which]
    if what == "room":
        driven.acknowledge(consumer, 0, 1)
    elif what == "receive":
        driven.receive(consumer, "a" if number % 2 else "b")
    elif what == "done":
        driven.acknowledge(consumer, consumer.next_delivery - 1, 1)
    elif what == "cancel":
        driven.do(driven.core.cancel_receives, consumer)
    else:
        driven.do(driven.core.requeue_all, consumer, consumer.next_delivery)
