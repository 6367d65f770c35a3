"""The plain API, against a real broker."""

import threading
import time
from pathlib import Path

import pytest
from broker.server.talking import local

from mqlab.client import ClosedError, Message, MessagingError, RefusedError, connect
from mqlab.wire.bodies import encode

from .serving import Served, serving


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


def test_one_message_through_a_queue(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        session.producer("queue:q").send(b"hello")
        assert session.consumer("queue:q").receive(timeout=5) == Message(b"hello", False)


def test_a_lone_message_arrives_without_any_further_call(served: Served) -> None:
    with connect(served.address) as sender, connect(served.address) as receiver:
        consumer = receiver.session().consumer("queue:q")
        producer = sender.session().producer("queue:q")
        for body in numbers(0, 5):
            producer.send(body)
            assert consumer.receive(timeout=5).body == body


def test_a_topic_reaches_every_subscriber(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        consumers = [session.consumer("topic:t") for _ in range(3)]
        producer = session.producer("topic:t")
        for body in numbers(0, 100):
            producer.send(body)
        for consumer in consumers:
            assert [consumer.receive(timeout=5).body for _ in range(100)] == numbers(0, 100)


def test_many_sends_leave_in_few_frames_and_in_order(served: Served) -> None:
    count = 50_000
    with connect(served.address) as connection:
        session = connection.session()
        consumer = session.consumer("queue:q", prefetch=100_000)
        producer = session.producer("queue:q")
        for body in numbers(0, count):
            producer.send(body)
        came: list[bytes] = []
        frames = 0
        while len(came) < count:
            came += consumer.receive_batch(timeout=5).bodies().tolist()
            frames += 1
    assert came == numbers(0, count)
    assert frames < count / 50


def test_large_bodies_leave_in_frames_that_the_broker_takes(served: Served) -> None:
    """4,096 of them together would be more than any frame may hold."""
    with connect(served.address) as connection:
        session = connection.session()
        producer, consumer = session.producer("queue:q"), session.consumer("queue:q", prefetch=100)
        sender = threading.Thread(target=lambda: [producer.send(b"%8d" % n * 1024) for n in range(4000)])
        sender.start()
        for n in range(4000):
            assert consumer.receive(timeout=10).body[:8] == b"%8d" % n
        sender.join()


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


def test_competing_consumers_share_and_each_sees_order(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        consumers = [connection.session().consumer("queue:q", prefetch=1) for _ in range(3)]
        producer = session.producer("queue:q")
        for body in numbers(0, 60):
            producer.send(body)
        shares = [[int(consumer.receive(timeout=5).body) for _ in range(20)] for consumer in consumers]
        assert sorted(n for share in shares for n in share) == list(range(60))
        assert all(share == sorted(share) for share in shares)


def test_a_consumer_with_prefetch_one_leaves_the_rest_to_others(served: Served) -> None:
    with connect(served.address) as one, connect(served.address) as two:
        first = one.session().consumer("queue:q", prefetch=1)
        one.session().producer("queue:q").send_batch(encode(numbers(0, 10)), confirm=True)
        assert first.receive(timeout=5).body == b"0"
        second = two.session().consumer("queue:q")
        assert [second.receive(timeout=5).body for _ in range(9)] == numbers(1, 10)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_commit_shows_all_of_a_transaction_at_once(served: Served, persistent: bool) -> None:
    with connect(served.address) as connection:
        session = connection.session(transacted=True)
        producer, consumer = session.producer("queue:q"), connection.session().consumer("queue:q")
        for body in numbers(0, 10):
            producer.send(body, persistent=persistent)
        with pytest.raises(TimeoutError):
            consumer.receive(timeout=0.05)
        session.commit()
        assert [consumer.receive(timeout=5).body for _ in range(10)] == numbers(0, 10)


def test_a_rollback_forgets_sends_and_gives_receipts_again_marked_and_in_order(served: Served) -> None:
    with connect(served.address) as connection:
        filler = connection.session().producer("queue:in")
        for body in numbers(0, 10):
            filler.send(body, persistent=True)
        session = connection.session(transacted=True)
        consumer, producer = session.consumer("queue:in"), session.producer("queue:out")
        assert [consumer.receive(timeout=5).body for _ in range(4)] == numbers(0, 4)
        producer.send(b"never")
        session.rollback()
        again = [consumer.receive(timeout=5) for _ in range(10)]
        assert [message.body for message in again] == numbers(0, 10)
        assert all(message.redelivered for message in again[:4])
        producer.send(b"now")
        session.commit()
        out = connection.session().consumer("queue:out")
        assert out.receive(timeout=5).body == b"now"
        assert connection.status()["messages"] == 1


def test_what_was_committed_does_not_come_again(served: Served) -> None:
    with connect(served.address) as connection:
        producer = connection.session().producer("queue:q")
        for body in numbers(0, 6):
            producer.send(body, persistent=True)
        session = connection.session(transacted=True)
        consumer = session.consumer("queue:q")
        assert [consumer.receive(timeout=5).body for _ in range(2)] == numbers(0, 2)
        session.commit()
        assert consumer.receive(timeout=5).body == b"2"
        session.rollback()
        assert [consumer.receive(timeout=5) for _ in range(2)] == [(b"2", True), (b"3", False)]


def test_a_transaction_goes_on_after_one_of_its_consumers_was_closed(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session(transacted=True)
        session.consumer("queue:a").close()
        session.producer("queue:a").close()
        session.rollback()
        session.commit()
        assert connection.status()["connections"] == 1


def test_a_persistent_send_returns_when_the_disk_has_it(served: Served) -> None:
    with connect(served.address) as connection:
        producer = connection.session().producer("queue:q")
        for n in range(1, 6):
            producer.send(b"x", persistent=True)
            status = connection.status()
            assert status["syncs"] >= n
            assert status["messages"] == n


def test_a_persistent_send_survives_the_broker(tmp_path: Path) -> None:
    settings = local(data=tmp_path)
    with serving(settings) as served, connect(served.address) as connection:
        producer = connection.session().producer("queue:q")
        producer.send(b"kept", persistent=True)
        producer.send(b"not kept")
    with serving(settings) as served, connect(served.address) as connection:
        consumer = connection.session().consumer("queue:q")
        assert consumer.receive(timeout=5) == (b"kept", True)
        with pytest.raises(TimeoutError):
            consumer.receive(timeout=0.05)


def test_a_persistent_send_is_refused_by_a_broker_without_a_data_folder(forgetful: Served) -> None:
    with connect(forgetful.address) as connection:
        session = connection.session()
        producer = session.producer("queue:q")
        with pytest.raises(RefusedError, match="data folder"):
            producer.send(b"1", persistent=True)
        # Nothing of it happened, and everything else goes on.
        producer.send(b"2")
        assert session.consumer("queue:q").receive(timeout=5).body == b"2"


def test_a_refused_send_is_noticed_by_the_commit(forgetful: Served) -> None:
    with connect(forgetful.address) as connection:
        session = connection.session(transacted=True)
        producer = session.producer("queue:q")
        with pytest.raises(RefusedError):
            # Which of the two tells it is a matter of time; that one does is not.
            producer.send(b"1", persistent=True)
            session.commit()
        session.rollback()
        producer.send(b"2")
        session.commit()
        assert connection.session().consumer("queue:q").receive(timeout=5).body == b"2"
        assert connection.status()["messages"] == 1


def test_a_refused_batch_is_noticed_by_the_close(forgetful: Served) -> None:
    with connect(forgetful.address) as connection:
        producer = connection.session().producer("queue:q")
        with pytest.raises(RefusedError):
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
        assert session.consumer("queue:good").receive(timeout=5).body == b"1"


@pytest.mark.parametrize("prefetch", [0, -1, 1_000_001])
def test_a_prefetch_without_sense_is_an_error(forgetful: Served, prefetch: int) -> None:
    with connect(forgetful.address) as connection, pytest.raises(ValueError, match="prefetch"):
        connection.session().consumer("queue:q", prefetch=prefetch)


@pytest.mark.parametrize("body", ["text", None, 5, ["a"]])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_body_that_is_no_bytes_is_an_error_of_the_send_itself(served: Served, body: object, persistent: bool) -> None:
    with connect(served.address) as connection:
        producer = connection.session().producer("queue:q")
        with pytest.raises(TypeError):
            producer.send(body, persistent=persistent)  # type: ignore[arg-type]
        producer.close()
        assert connection.status()["messages"] == 0


def test_a_body_may_be_changed_after_it_was_sent(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        producer, consumer = session.producer("queue:q"), session.consumer("queue:q")
        body = bytearray(b"0000")
        for n in range(200):
            body[:] = b"%04d" % n
            producer.send(body)
        assert [consumer.receive(timeout=5).body for _ in range(200)] == [b"%04d" % n for n in range(200)]


def test_polling_loses_nothing(served: Served) -> None:
    """A timeout and a message may come at the same moment."""
    with connect(served.address) as connection:
        producer, consumer = connection.session().producer("queue:q"), connection.session().consumer("queue:q")
        came: list[bytes] = []
        deadline = time.monotonic() + 20
        for n in range(300):
            producer.send(b"%d" % n)
            while len(came) <= n and time.monotonic() < deadline:
                try:
                    came += consumer.receive_batch(timeout=0 if n % 2 else 0.0001).bodies().tolist()
                except TimeoutError:
                    continue
        assert came == numbers(0, 300)


def test_messages_one_by_one_and_in_batches_come_in_one_order(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        producer, consumer = session.producer("queue:q"), session.consumer("queue:q", prefetch=5)
        producer.send_batch(encode(numbers(0, 10)))
        producer.send_batch(encode(numbers(10, 20)))
        came: list[bytes] = []
        while len(came) < 20:
            came.append(consumer.receive(timeout=5).body)
            if len(came) < 20:
                came += consumer.receive_batch(timeout=5).bodies().tolist()
        assert came == numbers(0, 20)
        consumer.close()
        assert connection.status()["messages"] == 0


def test_what_was_not_given_to_the_application_goes_back_unseen(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        consumer = session.consumer("queue:q")
        session.producer("queue:q").send_batch(encode(numbers(0, 5)), confirm=True)
        assert consumer.receive(timeout=5).body == b"0"
        consumer.close()
        other = session.consumer("queue:q")
        assert [other.receive(timeout=5).body for _ in range(4)] == numbers(1, 5)


def test_closing_lets_everything_leave_first(served: Served) -> None:
    for n in range(20):
        with connect(served.address) as connection:
            connection.session().producer("queue:q").send(b"%d" % n)
    with connect(served.address) as connection:
        consumer = connection.session().consumer("queue:q")
        assert [consumer.receive(timeout=5).body for _ in range(20)] == numbers(0, 20)


def test_closing_a_session_lets_everything_leave_first(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        producer = session.producer("queue:q")
        for body in numbers(0, 100):
            producer.send(body)
        session.close()
        consumer = connection.session().consumer("queue:q")
        assert [consumer.receive(timeout=5).body for _ in range(100)] == numbers(0, 100)


def test_after_closing_everything_says_so(served: Served) -> None:
    connection = connect(served.address)
    session = connection.session()
    producer, consumer = session.producer("queue:q"), session.consumer("queue:q")
    connection.close()
    connection.close()
    for action in (
        connection.session, connection.status, session.commit, lambda: consumer.receive(timeout=1),
        lambda: consumer.receive_batch(timeout=1), lambda: producer.send(b"x", persistent=True),
        lambda: (producer.send(b"x"), producer.flush()),
    ):  # fmt: skip
        with pytest.raises(ClosedError):
            action()
    assert list(consumer) == []


def test_nobody_listens(tmp_path: Path) -> None:
    for address in ("tcp:127.0.0.1:1", f"unix:{tmp_path}/nothing"):
        with pytest.raises(OSError):  # noqa: PT011 - which one is the system's matter
            connect(address)


def test_a_lost_connection_wakes_those_who_wait(served: Served) -> None:
    connection = connect(served.address)
    session = connection.session()
    consumer = session.consumer("queue:q")
    threading.Timer(0.05, served.stop).start()
    with pytest.raises(ClosedError):
        consumer.receive(timeout=10)
    with pytest.raises(MessagingError):
        session.producer("queue:q")
    connection.close()


def test_sends_after_a_lost_connection_fail_and_do_not_hang(served: Served) -> None:
    connection = connect(served.address)
    producer = connection.session().producer("queue:q")
    served.stop()
    with pytest.raises(ClosedError):
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
        sender = threading.Thread(target=lambda: [producer.send(body) for _ in range(count)])
        sender.start()
        while (status := connection.status())["held_producers"] == 0:
            assert sender.is_alive()
            time.sleep(0.001)
        # One frame may begin when there is a byte of credit left.
        assert limit <= status["bytes"] <= limit + window + 300_000
        consumer = connection.session().consumer("queue:q")
        most = 0
        for n in range(count):
            assert consumer.receive(timeout=10).body == body
            if n % 200 == 0:
                most = max(most, connection.status()["bytes"])
        sender.join()
        assert most <= limit + window + 300_000
        assert connection.status()["holds"] >= 1


def test_closing_while_held_back_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for a while for somebody to take the messages, and then says that they did not leave."""
    monkeypatch.setattr("mqlab.client.aio.LINGER_SECONDS", 0.1)
    with serving(local(queue_limit=1000, producer_window=1000)) as served:
        connection = connect(served.address)
        producer = connection.session().producer("queue:q")
        for _ in range(3000):
            producer.send(b"x" * 500)
        said: list[MessagingError] = []

        def close() -> None:
            try:
                connection.close()
            except MessagingError as error:
                said.append(error)

        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()
        assert "leave" in str(said)


def test_senders_in_many_threads_lose_nothing(served: Served) -> None:
    """Each with a session of its own, over one connection."""
    with connect(served.address) as connection:

        def send(number: int) -> None:
            producer = connection.session().producer("queue:q")
            for n in range(2_000):
                producer.send(b"%d %d" % (number, n))
            producer.close()

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        consumer = connection.session().consumer("queue:q")
        came: dict[int, list[int]] = {number: [] for number in range(4)}
        for _ in range(8_000):
            number, n = map(int, consumer.receive(timeout=10).body.split())
            came[number].append(n)
        assert all(numbers_of_one == list(range(2_000)) for numbers_of_one in came.values())
        for thread in threads:
            thread.join()
