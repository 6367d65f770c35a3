"""Transactions through the blocking API, and refusals of the broker."""

import pytest

from broker.server.raw_client import seen
from mqlab.client import RefusedError, connect
from mqlab.wire.native.bodies import encode

from .broker_helpers import Served

pytestmark = pytest.mark.usefixtures("each_way")


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


@pytest.mark.parametrize("persistent", [False, True])
def test_a_commit_shows_all_of_a_transaction_at_once(served: Served, persistent: bool) -> None:
    with connect(served.address) as connection:
        session = connection.session("transacted")
        producer, consumer = session.producer("queue:q"), connection.session().consumer("queue:q")
        for body in numbers(0, 10):
            producer.send(body, persistent=persistent)
        with pytest.raises(TimeoutError):
            consumer.receive(timeout=0.05)
        session.commit()
        assert [consumer.receive(timeout=240).body for _ in range(10)] == numbers(0, 10)


def test_a_rollback_forgets_sends_and_gives_receipts_again_marked_and_in_order(served: Served) -> None:
    with connect(served.address) as connection:
        filler = connection.session().producer("queue:in")
        for body in numbers(0, 10):
            filler.send(body, persistent=True)
        session = connection.session("transacted")
        consumer, producer = session.consumer("queue:in"), session.producer("queue:out")
        assert [consumer.receive(timeout=240).body for _ in range(4)] == numbers(0, 4)
        producer.send(b"never")
        session.rollback()
        again = [consumer.receive(timeout=240) for _ in range(10)]
        assert [message.body for message in again] == numbers(0, 10)
        assert all(message.redelivered for message in again[:4])
        producer.send(b"now")
        session.commit()
        out = connection.session().consumer("queue:out")
        assert out.receive(timeout=240).body == b"now"
        assert connection.status()["messages"] == 1


def test_what_was_committed_does_not_come_again(served: Served) -> None:
    with connect(served.address) as connection:
        producer = connection.session().producer("queue:q")
        for body in numbers(0, 6):
            producer.send(body, persistent=True)
        session = connection.session("transacted")
        consumer = session.consumer("queue:q")
        assert [consumer.receive(timeout=240).body for _ in range(2)] == numbers(0, 2)
        session.commit()
        assert consumer.receive(timeout=240).body == b"2"
        session.rollback()
        assert [seen(consumer.receive(timeout=240)) for _ in range(2)] == [(b"2", True), (b"3", False)]


def test_a_transaction_goes_on_after_one_of_its_consumers_was_closed(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session("transacted")
        session.consumer("queue:a").close()
        session.producer("queue:a").close()
        session.rollback()
        session.commit()
        assert connection.status()["connections"] == 1


def test_a_persistent_send_is_refused_by_a_broker_without_a_data_folder(forgetful: Served) -> None:
    with connect(forgetful.address) as connection:
        session = connection.session()
        producer = session.producer("queue:q")
        with pytest.raises(RefusedError, match="data folder"):
            producer.send(b"1", persistent=True)
        # Nothing of it happened, and everything else goes on.
        producer.send(b"2")
        assert session.consumer("queue:q").receive(timeout=240).body == b"2"


def test_a_refused_send_is_noticed_by_the_commit(forgetful: Served) -> None:
    with connect(forgetful.address) as connection:
        session = connection.session("transacted")
        producer = session.producer("queue:q")
        with pytest.raises(RefusedError):  # noqa: PT012 - which of the two tells it is a matter of time
            producer.send(b"1", persistent=True)
            session.commit()
        session.rollback()
        producer.send(b"2")
        session.commit()
        assert connection.session().consumer("queue:q").receive(timeout=240).body == b"2"
        assert connection.status()["messages"] == 1


def test_a_refused_batch_is_noticed_by_the_close(forgetful: Served) -> None:
    with connect(forgetful.address) as connection:
        producer = connection.session().producer("queue:q")
        with pytest.raises(RefusedError):  # noqa: PT012 - which of the two tells it is a matter of time
            producer.send_batch(encode([b"1", b"2"]), persistent=True)
            producer.close()


@pytest.mark.parametrize("name", ["orders", "queue:", "queue:a\nb", "queue:" + "x" * 256])
def test_a_bad_destination_is_refused_and_the_session_goes_on(forgetful: Served, name: str) -> None:
    with connect(forgetful.address) as connection:
        session = connection.session()
        with pytest.raises(RefusedError):
            session.producer(name)
        with pytest.raises(RefusedError):
            session.consumer(name)
        session.producer("queue:good").send(b"1")
        assert session.consumer("queue:good").receive(timeout=240).body == b"1"
