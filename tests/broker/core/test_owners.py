"""A durable or shared subscription belongs to a user and a client id, and its full name has one meaning."""

from itertools import product

import pytest

from broker.option_types import SubscriptionValues
from mqlab.broker.core.durability.records import Declare
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.routing.subscriptions import full_name, stored_name

from .commands import Driven
from .reference_recovery import Replayed

PARTS = ("a", "b", "a/b", "a%2Fb", "%", "a%", "/", "b/a")


def test_two_owners_never_have_the_same_full_name() -> None:
    owners = [*product(("", *PARTS), PARTS, ("", *PARTS))]
    assert len({full_name(*owner) for owner in owners}) == len(owners)


def test_a_client_without_an_id_cannot_name_the_subscription_of_a_client_that_has_one() -> None:
    driven = Driven()
    driven.close(driven.consumer("topic:t", session=driven.session(client="app"), durable="books"))
    with pytest.raises(CommandError, match="no durable subscription"):
        driven.core.unsubscribe("", "app/books")
    other = driven.consumer("topic:t", session=driven.session(), durable="app/books")
    assert other.queue is not driven.core.destinations.find("subscription:app/books")
    assert driven.core.destinations.find("subscription:app%2Fbooks") is other.queue


def test_each_user_has_subscriptions_of_his_own() -> None:
    driven = Driven()
    ann, bob = (driven.session(client="app", user=name) for name in ("ann", "bob"))
    kinds: tuple[SubscriptionValues, ...] = ({"durable": "books"}, {"shared": "books"})
    queues = {
        driven.consumer("topic:t", session=session, **options).queue for session in (ann, bob) for options in kinds
    }
    assert len(queues) == 4
    assert {*driven.core.destinations.routing.durable} == {"ann/app/books", "bob/app/books"}
    with pytest.raises(CommandError, match="no durable subscription"):
        driven.core.unsubscribe("app", "books")
    with pytest.raises(CommandError, match="no durable subscription"):
        driven.core.unsubscribe("app", "books", "eve")


def test_no_local_leaves_out_what_the_same_user_s_client_sends() -> None:
    driven = Driven()
    ann, bob = (driven.session(owner=object(), client="app", user=name) for name in ("ann", "bob"))
    again = driven.session(owner=object(), client="app", user="ann")
    consumer = driven.consumer("topic:t", session=ann, durable="d", no_local=True)
    for session, body in ((ann, b"1"), (again, b"2"), (bob, b"3")):
        driven.send(driven.producer("topic:t", session), body)
    assert driven.got(consumer) == [b"3"]


def test_owners_outlive_a_restart() -> None:
    driven = Driven()
    session = driven.session(client="app", user="ann")
    driven.close(driven.consumer("topic:t", session=session, durable="books"))
    driven.send(driven.producer("topic:t"), b"1", persistent=True)
    driven.sync()
    after = driven.restarted()
    again = after.consumer("topic:t", session=after.session(client="app", user="ann"), durable="books")
    assert after.got(again) == [b"1"]


OLD = {"topic": "t", "selector": "", "no_local": False, "shared": False}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("books", OLD, "books"),
        ("app/books", OLD | {"client": ""}, "app%2Fbooks"),
        ("app/books", OLD | {"client": "app"}, "app/books"),
        ("a/b/books", OLD | {"client": "a/b"}, "a%2Fb/books"),
        ("ann/app/books", OLD | {"client": "app", "user": "ann"}, "ann/app/books"),
    ],
)
def test_names_in_old_journals_are_understood(name: str, options: dict[str, object], expected: str) -> None:
    assert stored_name(name, options) == expected


def old_journal(driven: Driven) -> Driven:
    """As a broker wrote it that knew no owners."""
    driven.close(driven.consumer("topic:t", session=driven.session(client="app"), durable="books"))
    driven.send(driven.producer("topic:t"), b"1", persistent=True)
    driven.sync()
    record = driven.records[0]
    assert isinstance(record, Declare)
    options = {key: value for key, value in record.options.items() if key != "user"}
    driven.records[0] = record._replace(options=options)
    return driven.restarted()


def test_a_subscription_of_an_old_journal_is_found_again_without_users() -> None:
    after = old_journal(Driven())
    assert after.got(after.consumer("topic:t", session=after.session(client="app"), durable="books")) == [b"1"]


def test_the_first_user_who_subscribes_again_owns_the_subscription_of_an_old_journal() -> None:
    after = old_journal(Driven())
    ann = after.session(client="app", user="ann")
    first = after.consumer("topic:t", session=ann, durable="books")
    assert after.got(first) == [b"1"]
    assert isinstance(after.records[-1], Declare)
    after.close(first)
    bob = after.session(client="app", user="bob")
    assert after.got(after.consumer("topic:t", session=bob, durable="books")) == []
    replayed = Replayed(after.records)
    assert {*replayed.names.values()} == {"ann/app/books", "bob/app/books"}


@pytest.mark.parametrize(("topic", "client"), [("topic:other", "app"), ("topic:t", "another"), ("topic:t", "")])
def test_nobody_owns_it_who_names_another_topic_or_client_id(topic: str, client: str) -> None:
    after = old_journal(Driven())
    bob = after.session(client=client, user="bob")
    assert after.got(after.consumer(topic, session=bob, durable="books")) == []
    with pytest.raises(CommandError):
        after.core.unsubscribe("app", "books", "bob")
    assert after.core.destinations.find("subscription:app/books") is not None
