"""An exclusive consumer gets everything; others stand by and take over."""

import pytest

from .commands import Driven
from .payloads import single


def test_the_first_exclusive_consumer_gets_everything() -> None:
    driven = Driven()
    plain, first = driven.consumer("queue:q", 100), driven.consumer("queue:q", 100, exclusive=True)
    second = driven.consumer("queue:q", 100, exclusive=True)
    producer = driven.producer("queue:q")
    for number in range(9):
        driven.send(producer, b"%d" % number)
    assert driven.got(first) == [b"%d" % n for n in range(9)]
    assert driven.got(plain) == driven.got(second) == []


def test_nobody_steps_in_while_it_has_no_room() -> None:
    driven = Driven()
    first, second = driven.consumer("queue:q", 1, exclusive=True), driven.consumer("queue:q", 9)
    driven.send(driven.producer("queue:q"), b"1", b"2")
    assert (driven.got(first), driven.got(second)) == ([b"1"], [])
    driven.acknowledge(first, 1, 1)
    assert (driven.got(first), driven.got(second)) == ([b"1", b"2"], [])


@pytest.mark.parametrize("has_something", [True, False])
@pytest.mark.parametrize("lost", [True, False])
def test_the_next_takes_over_in_order(has_something: bool, lost: bool) -> None:
    """Also where the one that leaves has nothing to give back: what stands in line is the other's at once."""
    driven = Driven()
    first, second = driven.consumer("queue:q", 2, exclusive=True), driven.consumer("queue:q", 9, exclusive=True)
    driven.send(driven.producer("queue:q"), b"1", b"2", b"3", b"4")
    if not has_something:
        driven.acknowledge(first, 2)
    if lost:
        driven.lose(first.session)
    else:
        driven.close(first)
    assert driven.got(second) == ([b"1", b"2"] if has_something else []) + [b"3", b"4"]


def test_all_share_again_when_the_exclusive_one_is_gone() -> None:
    driven = Driven()
    exclusive = driven.consumer("queue:q", 0, exclusive=True)
    others = [driven.consumer("queue:q", 9) for _ in range(2)]
    producer = driven.producer("queue:q")
    for number in range(4):
        driven.send(producer, b"%d" % number)
    driven.close(exclusive)
    assert [driven.got(one) for one in others] == [[b"0", b"2"], [b"1", b"3"]]


def test_an_exclusive_consumer_that_comes_later_takes_what_is_left() -> None:
    driven = Driven()
    plain = driven.consumer("queue:q", 2)
    driven.send(driven.producer("queue:q"), b"1", b"2", b"3", b"4")
    exclusive = driven.consumer("queue:q", 9, exclusive=True)
    driven.acknowledge(plain, 2, 9)
    assert (driven.got(plain), driven.got(exclusive)) == ([b"1", b"2"], [b"3", b"4"])


def test_exclusive_and_a_selector_go_together() -> None:
    driven = Driven()
    exclusive = driven.consumer("queue:q", 9, exclusive=True, selector="n > 1")
    other = driven.consumer("queue:q", 9)
    producer = driven.producer("queue:q")
    for number in range(4):
        driven.put(producer, single(b"%d" % number, n=number))
    assert (driven.got(exclusive), driven.got(other)) == ([b"2", b"3"], [])
