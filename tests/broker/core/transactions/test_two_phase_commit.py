"""Two-phase commit: what is prepared is neither here nor there, for as long as it takes, also over a restart."""

import pytest

from broker.core.commands import Driven
from broker.core.payloads import batch, single
from broker.option_types import SubscriptionValues
from mqlab.broker import limits
from mqlab.broker.core.admin import list_prepared
from mqlab.broker.core.durability.records import Decide, Prepare, Remove
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.wire.native.bodies import decode

DONE = Answer(None, 1, {})
DECIDED = Answer(None, 2, {})


def prepare(driven: Driven, session: CoreSession, xid: str = "x") -> None:
    driven.do(driven.core.prepare, session, xid, DONE)


def decide(driven: Driven, xid: str = "x", *, commit: bool) -> None:
    driven.do(driven.core.decide, xid, DECIDED, commit=commit)


def begun(driven: Driven) -> CoreSession:
    """Took `in 1` and `in 2` of three, sent `out` (kept) and `gone` (not kept)."""
    driven.send(driven.producer("queue:in"), b"in 1", b"in 2", b"in 3", persistent=True)
    driven.sync()
    session = driven.session(transacted=True)
    consumer = driven.consumer("queue:in", 2, session)
    driven.acknowledge(consumer, 2)
    producer = driven.producer("queue:out", session)
    driven.send(producer, b"out", persistent=True)
    driven.send(producer, b"gone")
    return session


def test_it_is_one_record_and_answered_when_that_is_durable() -> None:
    driven = Driven()
    session = begun(driven)
    prepare(driven, session)
    (said,) = driven.said(Prepare)
    assert [(put.targets, decode(put.payload).tolist()) for put in said.puts] == [(((2, 1),), [b"out"])]
    assert (said.xid, said.removes) == ("x", (Remove(1, ((1, 2),)),))
    assert driven.answers == []
    driven.sync()
    assert driven.answers == [DONE]


def test_nothing_of_it_is_seen_or_gone() -> None:
    driven = Driven()
    prepare(driven, begun(driven))
    driven.sync()
    assert (driven.left("in"), driven.left("out")) == ([b"in 3"], [])
    assert (driven.queue("in").messages, driven.queue("out").messages) == (3, 2)


def test_committed() -> None:
    driven = Driven()
    prepare(driven, begun(driven))
    decide(driven, commit=True)
    assert (driven.left("out"), driven.records[-1]) == ([], Decide("x", True))
    driven.sync()
    assert driven.answers == [DONE, DECIDED]
    assert (driven.left("in"), driven.left("out")) == ([b"in 3"], [b"out", b"gone"])
    assert (driven.queue("in").messages, driven.queue("out").messages) == (1, 2)
    assert driven.queue("in").counters.acknowledged == 2


def test_what_its_producer_sends_meanwhile_does_not_wait_for_the_decision() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer = driven.producer("queue:out", session)
    driven.send(producer, b"first", persistent=True)
    prepare(driven, session)
    driven.send(producer, b"second", persistent=True)
    driven.commit(session)
    decide(driven, commit=True)
    consumer = driven.consumer("queue:out", 1)
    driven.sync()
    assert (driven.got(consumer), driven.left("out")) == ([b"second"], [b"first"])


def test_rolled_back() -> None:
    driven = Driven()
    prepare(driven, begun(driven))
    decide(driven, commit=False)
    driven.sync()
    assert driven.answers == [DONE, DECIDED]
    assert (driven.left("in"), driven.left("out")) == ([b"in 1", b"in 2", b"in 3"], [])
    assert driven.queue("out").messages == 0
    consumer = driven.consumer("queue:in")
    assert driven.times[consumer] == [1, 1, 0]
    driven.acknowledge(consumer, 3)
    assert driven.memory == 0


def test_the_session_goes_on_with_another_transaction_and_may_end() -> None:
    driven = Driven()
    session = begun(driven)
    prepare(driven, session)
    driven.send(driven.producer("queue:out", session), b"next")
    driven.commit(session)
    driven.sync()
    assert driven.left("out") == [b"next"]
    driven.lose(session)
    assert driven.left("in") == [b"in 3"]
    decide(driven, commit=True)
    driven.sync()
    assert driven.left("out") == [b"out", b"next", b"gone"] or driven.left("out") == [b"out", b"gone", b"next"]


def test_a_name_is_used_once_at_a_time() -> None:
    driven = Driven()
    session = begun(driven)
    prepare(driven, session)
    with pytest.raises(CommandError, match="already"):
        prepare(driven, driven.session(transacted=True))
    decide(driven, commit=False)
    prepare(driven, driven.session(transacted=True))


@pytest.mark.parametrize("xid", ["", "x" * (limits.XID + 1), "a\nb"])
def test_names_are_bounded(xid: str) -> None:
    driven = Driven()
    session = begun(driven)
    with pytest.raises(CommandError, match="name"):
        prepare(driven, session, xid)
    prepare(driven, session, "x" * limits.XID)


def test_an_unknown_one_cannot_be_decided() -> None:
    driven = Driven()
    with pytest.raises(CommandError, match="no prepared transaction"):
        decide(driven, commit=True)
    prepare(driven, begun(driven))
    decide(driven, commit=True)
    with pytest.raises(CommandError, match="no prepared transaction"):
        decide(driven, commit=True)


def test_one_with_something_refused_cannot_be_prepared() -> None:
    driven = Driven(stored=False)
    session = driven.session(transacted=True)
    with pytest.raises(CommandError):
        driven.send(driven.producer("queue:q", session), b"1", persistent=True)
    with pytest.raises(CommandError, match="rolled back"):
        prepare(driven, session)
    assert driven.core.two_phase_commit.waiting == {}


def test_without_a_disk_it_works_while_the_broker_does() -> None:
    driven = Driven(stored=False)
    session = driven.session(transacted=True)
    driven.send(driven.producer("queue:q", session), b"1")
    prepare(driven, session)
    assert (driven.answers, driven.left("q")) == ([DONE], [])
    decide(driven, commit=True)
    assert (driven.left("q"), driven.records) == ([b"1"], [])


@pytest.mark.parametrize("commit", [True, False])
def test_it_waits_over_a_restart(commit: bool) -> None:
    driven = Driven()
    prepare(driven, begun(driven))
    driven.sync()
    after = driven.restarted()
    assert (after.left("in"), after.left("out")) == ([b"in 3"], [])
    assert (after.queue("in").messages, after.queue("out").messages) == (3, 1)
    assert list_prepared(after.core) == [{"xid": "x", "sent": 1, "received": 2}]
    decide(after, commit=commit)
    after.sync()
    if commit:
        assert (after.left("in"), after.left("out")) == ([b"in 3"], [b"out"])
    else:
        assert (after.left("in"), after.left("out")) == ([b"in 1", b"in 2", b"in 3"], [])
    for name in ("in", "out"):
        consumer = after.consumer(f"queue:{name}")
        after.acknowledge(consumer, 9)
    assert after.memory == 0


@pytest.mark.parametrize("commit", [True, False])
def test_the_decision_is_known_after_a_restart(commit: bool) -> None:
    driven = Driven()
    prepare(driven, begun(driven))
    decide(driven, commit=commit)
    driven.sync()
    after = driven.restarted()
    assert after.left("in") == ([b"in 3"] if commit else [b"in 1", b"in 2", b"in 3"])
    assert after.left("out") == ([b"out"] if commit else [])
    assert list_prepared(after.core) == []


def test_a_decision_that_was_not_durable_is_still_open() -> None:
    driven = Driven()
    prepare(driven, begun(driven))
    driven.sync()
    decide(driven, commit=True)
    after = driven.restarted()
    assert [one["xid"] for one in list_prepared(after.core)] == ["x"]
    assert after.left("out") == []


def test_ids_of_a_prepared_send_are_not_used_again() -> None:
    driven = Driven()
    prepare(driven, begun(driven))
    driven.sync()
    after = driven.restarted()
    after.send(after.producer("queue:out"), b"new", persistent=True)
    decide(after, commit=True)
    after.sync()
    assert after.left("out") == [b"out", b"new"]
    assert len({one.first_id for one in after.queue("out").spans()}) == 2


def test_rows_that_a_selector_left_out_stay_out_over_a_restart() -> None:
    driven = Driven()
    me: SubscriptionValues = {"durable": "d", "selector": "n > 1"}
    driven.consumer("topic:t", session=driven.session(client="me"), **me)
    session = driven.session(transacted=True)
    driven.put(driven.producer("topic:t", session), batch(*((b"%d" % n, {"n": n}) for n in range(4))), persistent=True)
    prepare(driven, session)
    driven.sync()
    after = driven.restarted()
    decide(after, commit=True)
    after.sync()
    consumer = after.consumer("topic:t", session=after.session(client="me"), **me)
    assert after.got(consumer) == [b"2", b"3"]
    after.acknowledge(consumer, 2)
    assert after.memory == 0


def test_priority_and_delay_hold_over_a_restart() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer = driven.producer("queue:q", session)
    driven.put(producer, batch((b"1", {"priority": 1}), (b"9", {"priority": 9})), persistent=True)
    driven.put(producer, single(b"later", deliver_at=driven.core.context.now_ms + 5), persistent=True)
    prepare(driven, session)
    driven.sync()
    after = driven.restarted()
    decide(after, commit=True)
    after.sync()
    assert after.left("q") == [b"9", b"1"]
    after.tick(5)
    assert after.left("q") == [b"9", b"later", b"1"]


def test_a_queue_that_is_deleted_meanwhile() -> None:
    for commit in (True, False):
        driven = Driven()
        session = begun(driven)
        driven.put(driven.producer("queue:out", session), single(b"known by its id", duplicate_id="a"), persistent=True)
        prepare(driven, session)
        driven.lose(session)
        for name in ("in", "out"):
            driven.do(driven.core.removal.delete, driven.queue(name))
        driven.sync()
        after = driven.restarted()
        for one in (driven, after):
            decide(one, commit=commit)
            one.sync()
            assert one.memory == 0
            assert one.core.destinations.queues == {}


def test_dead_letters_of_a_rolled_back_one() -> None:
    driven = Driven(redelivery_limit=1)
    prepare(driven, begun(driven))
    decide(driven, commit=False)
    driven.sync()
    driven.sync()
    assert driven.left("dead-letters") == [b"in 1", b"in 2"]
