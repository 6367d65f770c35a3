"""Closing, lost connections and missing credit in the blocking API."""

import threading
import time
from pathlib import Path

import pytest

from broker.server.raw_client import local
from mqlab.client import ClosedError, MessagingError, connect

from .broker_helpers import Served, serving

pytestmark = pytest.mark.usefixtures("each_way")


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


def test_iterating_ends_when_the_connection_is_closed(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        producer, consumer = session.producer("queue:q"), session.consumer("queue:q")
        for body in numbers(0, 10):
            producer.send(body)
        came = []
        for message in consumer:
            came.append(message.body)
            if len(came) == 10:
                threading.Thread(target=connection.close).start()
        assert came == numbers(0, 10)


def test_closing_lets_everything_leave_first(served: Served) -> None:
    for n in range(20):
        with connect(served.address) as connection:
            connection.session().producer("queue:q").send(b"%d" % n)
    with connect(served.address) as connection:
        consumer = connection.session().consumer("queue:q")
        assert [consumer.receive(timeout=240).body for _ in range(20)] == numbers(0, 20)


def test_closing_a_session_lets_everything_leave_first(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        producer = session.producer("queue:q")
        for body in numbers(0, 100):
            producer.send(body)
        session.close()
        consumer = connection.session().consumer("queue:q")
        assert [consumer.receive(timeout=240).body for _ in range(100)] == numbers(0, 100)


def test_after_closing_everything_says_so(served: Served) -> None:
    connection = connect(served.address)
    session = connection.session()
    producer, consumer = session.producer("queue:q"), session.consumer("queue:q")
    connection.close()
    connection.close()

    def send_and_flush() -> None:
        producer.send(b"x")
        producer.flush()

    for action in (
        connection.session, connection.status, session.commit, lambda: consumer.receive(timeout=1),
        lambda: consumer.receive_batch(timeout=1), lambda: producer.send(b"x", persistent=True),
        send_and_flush,
    ):  # fmt: skip
        with pytest.raises(ClosedError):
            action()
    assert list(consumer) == []


def test_nobody_listens(tmp_path: Path) -> None:
    for address in ("tcp:127.0.0.1:1", f"unix:{tmp_path}/nothing"):
        with pytest.raises(OSError):
            connect(address)


def test_a_lost_connection_wakes_those_who_wait(served: Served) -> None:
    connection = connect(served.address)
    session = connection.session()
    consumer = session.consumer("queue:q")
    threading.Timer(0.05, served.stop).start()
    with pytest.raises(ClosedError):
        consumer.receive(timeout=240)
    with pytest.raises(MessagingError):
        session.producer("queue:q")
    connection.close()


def test_sends_after_a_lost_connection_fail_and_do_not_hang(served: Served) -> None:
    connection = connect(served.address)
    producer = connection.session().producer("queue:q")
    served.stop()
    with pytest.raises(ClosedError):  # noqa: PT012 - at the latest the flush notices
        for _ in range(100_000):
            producer.send(b"x")
        producer.flush()
    with pytest.raises(ClosedError):
        producer.send(b"x", persistent=True)
    connection.close()


def test_a_slow_consumer_holds_the_producer_and_memory_is_bounded() -> None:
    limit, window, body, count = 1_000_000, 200_000, b"x" * 1000, 8_000
    with serving(local(queue_limit=limit, producer_window=window)) as served, connect(served.address) as connection:
        producer = connection.session().producer("queue:q")

        def send_all() -> None:
            for _ in range(count):
                producer.send(body)

        sender = threading.Thread(target=send_all)
        sender.start()
        while (status := connection.status())["held_producers"] == 0:
            assert sender.is_alive()
            time.sleep(0.001)
        # One frame may begin when there is a byte of credit left.
        assert limit <= status["bytes"] <= limit + window + 300_000
        consumer = connection.session().consumer("queue:q")
        most = 0
        for n in range(count):
            assert consumer.receive(timeout=240).body == body
            if n % 200 == 0:
                most = max(most, connection.status()["bytes"])
        sender.join()
        assert most <= limit + window + 300_000
        assert connection.status()["holds"] >= 1


def test_closing_while_held_back_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for a while for somebody to take the messages, and then says that they did not leave."""
    monkeypatch.setattr("mqlab.client.aio.CLOSE_TIMEOUT_S", 0.1)
    with serving(local(queue_limit=1000, producer_window=1000)) as served:
        connection = connect(served.address)
        producer = connection.session().producer("queue:q")
        for _ in range(3000):
            producer.send(b"x" * 500)
        errors: list[MessagingError] = []

        def close() -> None:
            try:
                connection.close()
            except MessagingError as error:
                errors.append(error)

        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(240)
        assert not closing.is_alive()
        assert "messages are unsent" in str(errors)
