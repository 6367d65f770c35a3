"""Topics in levels: a subscription to a pattern gets what is sent to every topic it matches, now or later."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.model.destination_names import BadNameError
from mqlab.broker.patterns import matches

from .commands import Driven

TOPICS = ("prices", "prices.metal", "prices.metal.gold", "prices.oil", "news")


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("prices", ["prices"]),
        ("prices.*", ["prices.metal", "prices.oil"]),
        ("prices.*.gold", ["prices.metal.gold"]),
        ("*", ["prices", "news"]),
        ("*.*", ["prices.metal", "prices.oil"]),
        ("prices.#", ["prices", "prices.metal", "prices.metal.gold", "prices.oil"]),
        ("*.metal.#", ["prices.metal", "prices.metal.gold"]),
        ("#", [*TOPICS]),
        ("metal", []),
        ("prices.m*", []),
    ],
)
@pytest.mark.parametrize("subscribes_first", [True, False])
def test_patterns(pattern: str, topics: list[str], subscribes_first: bool) -> None:
    driven = Driven()
    consumer = driven.consumer(f"topic:{pattern}") if subscribes_first else None
    producers = {topic: driven.producer(f"topic:{topic}") for topic in TOPICS}
    consumer = consumer or driven.consumer(f"topic:{pattern}")
    for topic, producer in producers.items():
        driven.send(producer, topic.encode())
    assert driven.got(consumer) == [topic.encode() for topic in TOPICS if topic in topics]
    assert all(
        span.origin == f"topic:{body.decode()}"
        for span, body in zip(driven.spans.get(consumer, []), driven.got(consumer), strict=True)
    )


def test_each_subscription_gets_a_message_once() -> None:
    driven = Driven()
    consumers = [driven.consumer(f"topic:{one}") for one in ("a.b", "a.*", "a.#", "#", "a.b")]
    driven.send(driven.producer("topic:a.b"), b"1")
    assert [driven.got(one) for one in consumers] == [[b"1"]] * 5


def test_a_closed_subscription_leaves_every_topic() -> None:
    driven = Driven()
    producers = [driven.producer(f"topic:a.{n}") for n in range(3)]
    driven.close(driven.consumer("topic:a.*"))
    for producer in producers:
        driven.send(producer, b"1")
    assert driven.memory == 0
    assert all(not topic.subscriptions for topic in driven.core.destinations.routing.topics.values())


def test_all_its_topics_wait_for_a_slow_subscription() -> None:
    driven = Driven(queue_limit=150, producer_window=100)
    slow = driven.consumer("topic:a.#", 0)
    one, two, other = (driven.producer(f"topic:{name}") for name in ("a.1", "a.2", "b"))
    for producer in (one, two, other):
        driven.send(producer, b"x" * 100)
    assert driven.core.flow.held.keys() == {two}
    driven.acknowledge(slow, 0, 9)
    driven.acknowledge(slow, 2)
    assert driven.core.flow.held == {}


@pytest.mark.parametrize("name", ["topic:a.#.b", "topic:#.a", "queue:a.*", "queue:#"])
def test_a_pattern_has_its_place(name: str) -> None:
    with pytest.raises(BadNameError):
        Driven().consumer(name)


@pytest.mark.parametrize("name", ["topic:a.*", "topic:#"])
def test_a_pattern_cannot_be_sent_to(name: str) -> None:
    with pytest.raises(BadNameError):
        Driven().producer(name)


levels = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4)
wanted = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4)


@settings(deadline=None)
@given(levels, wanted, st.booleans())
def test_matching_is_what_it_says(name: list[str], pattern: list[str], open_end: bool) -> None:
    def right(pattern: list[str], name: list[str]) -> bool:
        if not pattern:
            return open_end or not name
        return bool(name) and pattern[0] in ("*", name[0]) and right(pattern[1:], name[1:])

    assert matches(".".join([*pattern, *(["#"] if open_end else [])]), ".".join(name)) == right(pattern, name)
