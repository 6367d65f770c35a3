"""Once-only delivery: a message whose producer-given id was seen before is confirmed and forgotten."""

import pytest

from broker.core.commands import Driven
from broker.core.payloads import alike, batch, single
from mqlab.broker.core import admin
from mqlab.broker.core.durability.records import Put, Remember
from mqlab.broker.core.effects import Answer, Committed
from mqlab.broker.core.routing.duplicates import DuplicateWindow
from mqlab.wire.native.bodies import decode

DONE = Answer(None, 1, {})


def test_the_second_is_confirmed_and_forgotten() -> None:
    driven = Driven()
    one, two = driven.producer("queue:q"), driven.producer("queue:q")
    driven.put(one, single(b"first", duplicate_id="a"), confirm=True, seq=1)
    driven.put(two, single(b"second", duplicate_id="a"), confirm=True, seq=7)
    assert driven.left("q") == [b"first"]
    assert driven.confirmed == [(one, 1), (two, 7)]


def test_only_those_of_a_batch_that_came_before_are_left_out() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"a", duplicate_id="a"))
    driven.put(producer, batch(*((name.encode(), {"duplicate_id": name}) for name in "bacb")), persistent=True)
    driven.sync()
    assert driven.left("q") == [b"a", b"b", b"c"]
    assert [decode(put.payload).tolist() for put in driven.said(Put)] == [[b"b", b"c"]]


def test_messages_without_an_id_are_never_duplicates() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for _ in range(2):
        driven.send(producer, b"plain")
        driven.put(producer, batch((b"a", {"duplicate_id": "a"}), (b"none", {})))
    assert driven.left("q") == [b"plain", b"a", b"none", b"plain", b"none"]


def test_each_destination_remembers_its_own() -> None:
    driven = Driven()
    consumer = driven.consumer("topic:q")
    for name in ("queue:q", "queue:r", "topic:q", "topic:q"):
        driven.put(driven.producer(name), single(name.encode(), duplicate_id="a"))
    assert (driven.left("q"), driven.left("r"), driven.got(consumer)) == ([b"queue:q"], [b"queue:r"], [b"topic:q"])


def test_the_window_has_its_size() -> None:
    driven = Driven(duplicate_window=3)
    producer = driven.producer("queue:q")
    for name in "abcd":
        driven.put(producer, single(name.encode(), duplicate_id=name))
    driven.put(producer, single(b"b again", duplicate_id="b"))
    driven.put(producer, single(b"a again", duplicate_id="a"))
    assert driven.left("q") == [b"a", b"b", b"c", b"d", b"a again"]


def test_a_window_of_nothing_finds_nothing() -> None:
    driven = Driven(duplicate_window=0)
    producer = driven.producer("queue:q")
    driven.put(producer, alike([b"1", b"2"], duplicate_id="a"))
    driven.put(producer, single(b"3", duplicate_id="a"))
    assert driven.left("q") == [b"1", b"2", b"3"]
    assert driven.core.destinations.remembered_ids() == []


def test_a_window_remembers_the_last_ids() -> None:
    window = DuplicateWindow(2, ["a", "b", "c"])
    assert window.persistent_ids == ("b", "c")
    assert window.add(["a", "c", None, "d", "a"], persistent=True) == [True, False, True, True, False]
    assert window.persistent_ids == ("a", "d")


def test_a_repetition_does_not_renew_an_id() -> None:
    """The oldest goes first, however often it was repeated: the window is of what came, not of what was asked."""
    window = DuplicateWindow(2)
    assert window.add(["a", "b", "a", "c", "a"], persistent=True) == [True, True, False, True, True]


def test_a_repetition_is_not_safe_before_the_first_is() -> None:
    driven = Driven()
    one, two = driven.producer("queue:q"), driven.producer("queue:q")
    driven.put(one, single(b"a", duplicate_id="a"), persistent=True, confirm=True)
    driven.put(two, single(b"a", duplicate_id="a"), persistent=True, confirm=True)
    assert driven.confirmed == []
    driven.sync()
    assert driven.confirmed == [(one, 1), (two, 1)]


def test_that_holds_whatever_was_written_since() -> None:
    """The last record may be one that nobody waits for."""
    driven = Driven()
    consumer = driven.consumer("queue:other")
    driven.send(driven.producer("queue:other"), b"1", persistent=True)
    driven.sync()
    one, two = driven.producer("queue:q"), driven.producer("queue:q")
    driven.put(one, single(b"a", duplicate_id="a"), persistent=True)
    driven.acknowledge(consumer, 1)
    driven.put(two, single(b"a", duplicate_id="a"), persistent=True, confirm=True)
    assert driven.confirmed == []
    driven.sync()
    assert driven.confirmed == [(two, 1)]


def test_and_for_a_batch_of_which_only_some_came_before() -> None:
    driven = Driven()
    one, two = driven.producer("queue:q"), driven.producer("queue:q")
    driven.put(one, single(b"a", duplicate_id="a"), persistent=True)
    driven.put(two, batch((b"a", {"duplicate_id": "a"}), (b"b", {"duplicate_id": "b"})), confirm=True)
    assert driven.confirmed == []
    driven.sync()
    assert driven.confirmed == [(two, 2)]


def test_in_a_transaction() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer = driven.producer("queue:q", session)
    driven.put(producer, single(b"a", duplicate_id="a"))
    driven.put(producer, single(b"a again", duplicate_id="a"))
    driven.commit(session)
    driven.put(producer, single(b"a at last", duplicate_id="a"))
    driven.commit(session)
    assert driven.left("q") == [b"a"]
    assert driven.answers == [(Committed, session)] * 2


def test_what_was_rolled_back_was_not_sent() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer = driven.producer("queue:q", session)
    driven.put(producer, single(b"a", duplicate_id="a"))
    driven.rollback(session)
    driven.put(producer, single(b"a again", duplicate_id="a"))
    driven.commit(session)
    assert driven.left("q") == [b"a again"]


def test_a_commit_of_nothing_new_waits_for_the_first() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    driven.put(driven.producer("queue:q"), single(b"a", duplicate_id="a"), persistent=True)
    driven.put(driven.producer("queue:q", session), single(b"a", duplicate_id="a"), persistent=True)
    driven.commit(session)
    assert driven.answers == []
    driven.sync()
    assert driven.answers == [(Committed, session)]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("name", ["queue:q", "topic:q"])
def test_a_prepared_one_that_is_rolled_back_was_not_sent(persistent: bool, name: str) -> None:
    driven = Driven()
    consumer = driven.consumer(name)
    session = driven.session(transacted=True)
    producer = driven.producer(name, session)
    driven.put(producer, single(b"a", duplicate_id="a"), persistent=persistent)
    driven.do(driven.core.prepare, session, "x", DONE)
    driven.put(driven.producer(name), single(b"meanwhile", duplicate_id="a"))
    driven.do(driven.core.decide, "x", DONE, commit=False)
    driven.sync()
    driven.put(driven.producer(name), single(b"a again", duplicate_id="a"))
    assert driven.got(consumer) == [b"a again"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_one_over_a_restart(commit: bool) -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    driven.put(driven.producer("queue:q", session), single(b"a", duplicate_id="a"), persistent=True)
    driven.do(driven.core.prepare, session, "x", DONE)
    driven.sync()
    assert driven.core.destinations.remembered_ids() == []
    after = driven.restarted()
    after.put(after.producer("queue:q"), single(b"meanwhile", duplicate_id="a"))
    assert after.left("q") == []
    after.do(after.core.decide, "x", DONE, commit=commit)
    after.sync()
    after.put(after.producer("queue:q"), single(b"a again", duplicate_id="a"))
    assert after.left("q") == [b"a" if commit else b"a again"]


def test_ids_are_known_after_a_restart() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, alike([b"a"], duplicate_id="a"), persistent=True)
    driven.put(producer, batch((b"b", {"duplicate_id": "b"}), (b"c", {"duplicate_id": "c"})), persistent=True)
    driven.sync()
    driven.acknowledge(driven.consumer("queue:q"), 3)
    driven.sync()
    after = driven.restarted()
    again = after.producer("queue:q")
    for name in "abcd":
        after.put(again, single(name.encode(), duplicate_id=name))
    assert after.left("q") == [b"d"]


def test_a_new_journal_file_says_which_ids_must_be_known() -> None:
    driven = Driven(duplicate_window=2)
    producer = driven.producer("queue:q")
    for name in "abc":
        driven.put(producer, single(b"1", duplicate_id=name), persistent=True)
    driven.put(driven.producer("queue:other"), single(b"1", duplicate_id="not kept"))
    driven.send(driven.producer("queue:plain"), b"1")
    assert driven.core.destinations.remembered_ids() == [Remember("queue:q", ("b", "c"))]


def test_the_window_follows_the_policy_of_its_destination() -> None:
    driven = Driven(duplicate_window=1)
    driven.core.destinations.restore_remembered("queue:q", ["a", "b"])
    producer = driven.producer("queue:q")
    for name in "ba":
        driven.put(producer, single(name.encode(), duplicate_id=name))
    assert driven.left("q") == [b"a"]


def test_a_queue_that_is_deleted_takes_its_ids_with_it() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), single(b"old", duplicate_id="a"), persistent=True)
    driven.do(admin.delete, driven.core, "queue:q")
    assert driven.core.destinations.remembered_ids() == []
    driven.put(driven.producer("queue:q"), single(b"new", duplicate_id="a"), persistent=True)
    driven.sync()
    assert driven.left("q") == [b"new"]


def test_the_decision_about_what_went_to_a_queue_that_is_gone_is_not_remembered() -> None:
    for commit in (True, False):
        driven = Driven()
        session = driven.session(transacted=True)
        driven.put(driven.producer("queue:q", session), single(b"1", duplicate_id="a"), persistent=True)
        driven.do(driven.core.prepare, session, "x", DONE)
        driven.do(admin.delete, driven.core, "queue:q")
        driven.do(driven.core.decide, "x", DONE, commit=commit)
        driven.sync()
        assert (driven.core.destinations.remembered_ids(), driven.core.destinations._windows) == ([], {})


def test_ids_of_topics_that_nobody_uses_are_forgotten_unless_they_last() -> None:
    driven = Driven()
    for number in range(100):
        producer = driven.producer(f"topic:t.{number}")
        driven.put(producer, single(b"x", duplicate_id="a"), persistent=not number)
        driven.do(driven.core.finish_producer, producer)
    assert [*driven.core.destinations._windows] == ["topic:t.0"]
    assert driven.core.destinations.remembered_ids() == [Remember("topic:t.0", ("a",))]


def test_ids_of_a_topic_are_known_as_long_as_somebody_subscribes() -> None:
    driven = Driven()
    consumer = driven.consumer("topic:#")
    for _ in range(2):
        producer = driven.producer("topic:t")
        driven.put(producer, single(b"x", duplicate_id="a"))
        driven.do(driven.core.finish_producer, producer)
    assert driven.got(consumer) == [b"x"]
