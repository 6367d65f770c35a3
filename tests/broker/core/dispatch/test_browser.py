"""Browsing: all that could be delivered now, in order; nothing changes for anybody."""

import pytest

from broker.core.commands import NOW, Driven
from broker.core.payloads import batch, single
from mqlab.broker import limits
from mqlab.broker.core.effects import BrowseEnded
from mqlab.broker.core.errors import CommandError


def test_a_browser_sees_everything_and_takes_nothing() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.send(producer, b"1", b"2")
    driven.send(producer, b"3")
    browser = driven.consumer("queue:q", browse=True)
    assert (driven.got(browser), driven.answers) == ([b"1", b"2", b"3"], [(BrowseEnded, browser)])
    assert (driven.queue("q").messages, driven.left("q")) == (3, [b"1", b"2", b"3"])
    driven.acknowledge(browser, 3)
    driven.close(browser)
    assert driven.delivered[driven.consumer("queue:q")] == [(b"1", False), (b"2", False), (b"3", False)]


def test_an_empty_queue_is_seen_at_once() -> None:
    driven = Driven()
    browser = driven.consumer("queue:q", browse=True)
    assert driven.answers == [(BrowseEnded, browser)]


def test_it_sees_the_order_of_delivery() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for priority in (1, 9, 4, 9):
        driven.put(producer, single(b"%d" % priority, priority=priority))
    assert driven.got(driven.consumer("queue:q", browse=True)) == [b"9", b"9", b"4", b"1"]


@pytest.mark.parametrize("room", [1, 2, 3, 7])
def test_with_little_room_it_sees_the_same_in_portions(room: int) -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.send(producer, *(b"%d" % n for n in range(5)))
    driven.send(producer, b"5")
    browser = driven.consumer("queue:q", room, browse=True)
    while not driven.answers:
        assert len(driven.got(browser)) == browser.next_delivery - 1
        driven.acknowledge(browser, browser.next_delivery - 1, room)
    assert driven.got(browser) == [b"%d" % n for n in range(6)]
    assert driven.left("q") == [b"%d" % n for n in range(6)]


def test_it_sees_what_was_there_when_it_came_and_has_not_left_since() -> None:
    """It holds no copies: what consumers take before it comes to it, it does not see."""
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.send(producer, b"1", b"2", b"3", b"4")
    driven.send(producer, b"5")
    browser = driven.consumer("queue:q", 1, browse=True)
    driven.send(producer, b"6")
    consumer = driven.consumer("queue:q", 3)
    driven.acknowledge(consumer, 3)
    driven.acknowledge(browser, 1, 10)
    assert driven.got(browser) == [b"1", b"4", b"5"]
    assert driven.left("q") == [b"4", b"5", b"6"]


@pytest.mark.parametrize("priority", [4, 9])
def test_the_place_where_it_stands_may_leave(priority: int) -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for n in range(6):
        driven.put(producer, single(b"%d" % n, priority=priority))
    browser = driven.consumer("queue:q", 3, browse=True)
    consumer = driven.consumer("queue:q", 4)
    driven.close(consumer, 0)
    # What was given back comes behind what it has seen.
    driven.acknowledge(browser, 3, 10)
    assert driven.got(browser) == [b"%d" % n for n in range(6)]
    assert driven.memory == driven.queue("q").in_memory


@pytest.mark.parametrize("selector", ["", "n >= 0"])
def test_a_deep_queue_is_seen_in_slices(selector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICE", 16)
    driven = Driven()
    producer = driven.producer("queue:q")
    for n in range(100):
        driven.put(producer, single(b"%d" % n, n=n))
    memory = driven.memory
    browser = driven.consumer("queue:q", browse=True, selector=selector)
    assert 0 < len(driven.got(browser)) <= 16
    assert driven.memory == memory
    assert 100 // 16 <= driven.go_on() <= 110
    assert driven.got(browser) == [b"%d" % n for n in range(100)]
    assert driven.answers == [(BrowseEnded, browser)]


def test_a_closed_browser_is_shown_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICE", 4)
    driven = Driven()
    producer = driven.producer("queue:q")
    for n in range(10):
        driven.put(producer, single(b"%d" % n))
    browser = driven.consumer("queue:q", browse=True)
    driven.close(browser)
    driven.go_on()
    assert driven.got(browser) == [b"0", b"1", b"2", b"3"]


def test_with_a_selector() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, batch(*((b"%d" % n, {"n": n}) for n in range(6))))
    driven.put(producer, single(b"6", n=6))
    driven.put(producer, single(b"none"))
    browser = driven.consumer("queue:q", 2, browse=True, selector="n >= 3")
    assert driven.got(browser) == [b"3", b"4"]
    driven.acknowledge(browser, 2, 10)
    assert (driven.got(browser), driven.answers) == ([b"3", b"4", b"5", b"6"], [(BrowseEnded, browser)])
    assert driven.queue("q").messages == 8


def test_it_does_not_see_what_consumers_have_or_what_is_late() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 1)
    driven.put(producer, batch((b"1", {}), (b"2", {"expiration": NOW + 5}), (b"3", {})))
    driven.core.context.now_ms = NOW + 5
    assert driven.got(consumer) == [b"1"]
    assert driven.got(driven.consumer("queue:q", browse=True)) == [b"3"]


def test_it_is_no_competitor() -> None:
    driven = Driven()
    browser, consumer = driven.consumer("queue:q", browse=True), driven.consumer("queue:q")
    driven.send(driven.producer("queue:q"), b"1", b"2")
    assert (driven.got(browser), driven.got(consumer)) == ([], [b"1", b"2"])


def test_a_paused_browser_waits() -> None:
    driven = Driven()
    driven.send(driven.producer("queue:q"), b"1", b"2")
    browser = driven.core.open_consumer(driven.session(), 1, "queue:q", 5, paused=True)
    driven.core.close_consumer(browser, 0)
    browser = driven.consumer("queue:q", 1, browse=True)
    driven.core.pause(browser)
    driven.acknowledge(browser, 1, 1)
    assert driven.got(browser) == [b"1"]
    driven.do(driven.core.resume, browser)
    assert driven.got(browser) == [b"1", b"2"]


def test_it_receives_nothing_by_an_id() -> None:
    driven = Driven()
    with pytest.raises(CommandError, match="browser"):
        driven.receive(driven.consumer("queue:q", browse=True), "a")


def test_a_topic_cannot_be_browsed() -> None:
    with pytest.raises(CommandError, match="queues"):
        Driven().consumer("topic:t", browse=True)
