"""The blocking API, against a real broker."""

import threading
import time
from pathlib import Path

import pytest

from broker.server.raw_client import local, seen
from client.broker_helpers import Served, serving
from mqlab.client import connect
from mqlab.wire.native.bodies import encode

pytestmark = pytest.mark.usefixtures("each_way")


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


def test_one_message_through_a_queue(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        session.producer("queue:q").send(b"hello")
        assert session.consumer("queue:q").receive(timeout=240).body == b"hello"


def test_a_single_message_arrives_without_any_further_call(served: Served) -> None:
    with connect(served.address) as sender, connect(served.address) as receiver:
        consumer = receiver.session().consumer("queue:q")
        producer = sender.session().producer("queue:q")
        for body in numbers(0, 5):
            producer.send(body)
            assert consumer.receive(timeout=240).body == body


def test_a_topic_reaches_every_subscriber(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        consumers = [session.consumer("topic:t") for _ in range(3)]
        producer = session.producer("topic:t")
        for body in numbers(0, 100):
            producer.send(body)
        for consumer in consumers:
            assert [consumer.receive(timeout=240).body for _ in range(100)] == numbers(0, 100)


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
            came += consumer.receive_batch(timeout=240).bodies().tolist()
            frames += 1
    assert came == numbers(0, count)
    assert frames < count / 50


def test_large_bodies_leave_in_frames_that_the_broker_takes(served: Served) -> None:
    """4,096 of them together would be more than any frame may hold."""
    with connect(served.address) as connection:
        session = connection.session()
        producer, consumer = session.producer("queue:q"), session.consumer("queue:q", prefetch=100)

        def send_all() -> None:
            for n in range(4000):
                producer.send(b"%8d" % n * 1024)

        sender = threading.Thread(target=send_all)
        sender.start()
        for n in range(4000):
            assert consumer.receive(timeout=240).body[:8] == b"%8d" % n
        sender.join()


def test_competing_consumers_share_and_each_sees_order(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        consumers = [connection.session().consumer("queue:q", prefetch=1) for _ in range(3)]
        producer = session.producer("queue:q")
        for body in numbers(0, 60):
            producer.send(body)
        shares = [[int(consumer.receive(timeout=240).body) for _ in range(20)] for consumer in consumers]
        assert sorted(n for share in shares for n in share) == list(range(60))
        assert all(share == sorted(share) for share in shares)


def test_a_consumer_with_prefetch_one_leaves_the_rest_to_others(served: Served) -> None:
    with connect(served.address) as one, connect(served.address) as two:
        first = one.session().consumer("queue:q", prefetch=1)
        one.session().producer("queue:q").send_batch(encode(numbers(0, 10)), confirm=True)
        assert first.receive(timeout=240).body == b"0"
        second = two.session().consumer("queue:q")
        assert [second.receive(timeout=240).body for _ in range(9)] == numbers(1, 10)


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
        assert seen(consumer.receive(timeout=240)) == (b"kept", True)
        with pytest.raises(TimeoutError):
            consumer.receive(timeout=0.05)


@pytest.mark.parametrize("prefetch", [-2, -1, 1_000_001])
def test_a_prefetch_without_sense_is_an_error(forgetful: Served, prefetch: int) -> None:
    with connect(forgetful.address) as connection, pytest.raises(ValueError, match="prefetch"):
        connection.session().consumer("queue:q", prefetch=prefetch)


@pytest.mark.parametrize("body", ["text", None, 5, ["a"]])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_body_that_is_no_bytes_is_an_error_of_the_send_itself(served: Served, body: object, persistent: bool) -> None:
    with connect(served.address) as connection:
        producer = connection.session().producer("queue:q")
        with pytest.raises(TypeError):
            producer.send(body, persistent=persistent)  # type: ignore[arg-type] # the test shows that it is refused
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
        assert [consumer.receive(timeout=240).body for _ in range(200)] == [b"%04d" % n for n in range(200)]


def test_polling_loses_nothing(served: Served) -> None:
    """A timeout and a message may come at the same moment."""
    with connect(served.address) as connection:
        producer, consumer = connection.session().producer("queue:q"), connection.session().consumer("queue:q")
        came: list[bytes] = []
        deadline = time.monotonic() + 240
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
            came.append(consumer.receive(timeout=240).body)
            if len(came) < 20:
                came += consumer.receive_batch(timeout=240).bodies().tolist()
        assert came == numbers(0, 20)
        consumer.close()
        assert connection.status()["messages"] == 0


def test_what_was_not_given_to_the_application_goes_back_unseen(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        consumer = session.consumer("queue:q")
        session.producer("queue:q").send_batch(encode(numbers(0, 5)), confirm=True)
        assert consumer.receive(timeout=240).body == b"0"
        consumer.close()
        other = session.consumer("queue:q")
        assert [other.receive(timeout=240).body for _ in range(4)] == numbers(1, 5)


def test_bodies_alone_are_received_and_acknowledged_as_messages_are(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session()
        consumer = session.consumer("queue:q", prefetch=500)
        session.producer("queue:q").send_batch(encode(numbers(0, 3000)), confirm=True)
        came = [body for _, body in zip(range(900), consumer.bodies(), strict=False)]
        came += [message.body for _, message in zip(range(700), consumer, strict=False)]
        came += [consumer.receive(timeout=240).body for _ in range(300)]
        came += [body for _, body in zip(range(100), consumer.bodies(), strict=False)]
        assert came == numbers(0, 2000)
        while connection.status()["messages"] > 1001:
            time.sleep(0.001)
        consumer.close()
        assert connection.status()["messages"] == 1000
        rest = session.consumer("queue:q").bodies()
        assert [next(rest) for _ in range(1000)] == numbers(2000, 3000)


def test_what_a_rollback_returns_is_gone_for_an_iteration_that_goes_on(served: Served) -> None:
    with connect(served.address) as connection:
        session = connection.session("transacted")
        consumer = session.consumer("queue:q")
        connection.session().producer("queue:q").send_batch(encode(numbers(0, 10)), confirm=True)
        came = []
        for message in consumer:
            came.append(seen(message))
            if len(came) == 4:
                session.rollback()
            if len(came) == 14:
                break
        assert came[:4] == [(body, False) for body in numbers(0, 4)]
        assert came[4:] == [(body, int(body) < 4) for body in numbers(0, 10)]


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
            number, n = map(int, consumer.receive(timeout=240).body.split())
            came[number].append(n)
        assert all(numbers_of_one == list(range(2_000)) for numbers_of_one in came.values())
        for thread in threads:
            thread.join()
