"""Listeners of the blocking API: acknowledgement, errors, closing."""

import threading
import time
from collections.abc import Iterator

import pytest

from broker.server.raw_client import seen
from mqlab.client import Connection, Message, MessagingError, connect
from mqlab.client.consumer import Acknowledge
from mqlab.wire.native.bodies import encode

from .broker_helpers import Served

pytestmark = pytest.mark.usefixtures("each_way")

PATIENCE = 240.0


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


@pytest.fixture
def connection(served: Served) -> Iterator[Connection]:
    with connect(served.address) as one:
        one.session().producer("queue:q").send_batch(encode(numbers(0, 10)), confirm=True)
        yield one


def left(connection: Connection) -> list[tuple[bytes, bool]]:
    """What others would receive now, in order."""
    return [seen(message) for message in connection.session().browser("queue:q")]


class Listener:
    """Notes what comes; can be held, and can be made to fail."""

    def __init__(self, fails_at: bytes | None = None, stops_at: bytes | None = None) -> None:
        self.came: list[bytes] = []
        self.reached = threading.Event()
        self.let_go = threading.Event()
        self._fails_at = fails_at
        self._stops_at = stops_at

    def __call__(self, message: Message) -> None:
        self.came.append(message.body)
        if message.body == self._fails_at:
            self.reached.set()
            raise KeyError("the listener's own error")
        if message.body == self._stops_at:
            self.reached.set()
            assert self.let_go.wait(PATIENCE)


@pytest.fixture
def thread_errors(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """What threads ended with."""
    errors: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: errors.append(arguments.exc_value))
    return errors


@pytest.mark.parametrize("mode", ["auto", "dups_ok"])
def test_a_message_is_done_when_the_listener_returns(connection: Connection, mode: Acknowledge) -> None:
    listener = Listener(stops_at=b"3")
    consumer = connection.session(mode).consumer("queue:q", prefetch=1)
    consumer.listen(listener)
    assert listener.reached.wait(PATIENCE)
    # The one in its hands is not done.
    assert connection.status()["messages"] == 7
    listener.let_go.set()
    deadline = time.monotonic() + PATIENCE
    while connection.status()["messages"]:
        assert time.monotonic() < deadline
    assert listener.came == numbers(0, 10)


@pytest.mark.parametrize("prefetch", [0, 1, 100])
@pytest.mark.parametrize("mode", ["auto", "dups_ok"])
def test_closing_waits_for_the_message_in_hand_and_returns_the_rest_unseen(
    connection: Connection, mode: Acknowledge, prefetch: int
) -> None:
    listener = Listener(stops_at=b"3")
    consumer = connection.session(mode).consumer("queue:q", prefetch=prefetch)
    consumer.listen(listener)
    assert listener.reached.wait(PATIENCE)
    closing = threading.Thread(target=consumer.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    assert connection.status()["messages"] >= 7
    listener.let_go.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert listener.came == numbers(0, 4)
    assert left(connection) == [(body, False) for body in numbers(4, 10)]


@pytest.mark.parametrize("prefetch", [0, 1, 100])
@pytest.mark.parametrize("mode", ["auto", "dups_ok", "client", "individual"])
def test_what_a_listener_fails_at_stays_with_the_broker_and_all_after_it(
    connection: Connection, mode: Acknowledge, prefetch: int, thread_errors: list[BaseException | None]
) -> None:
    listener = Listener(fails_at=b"3")
    consumer = connection.session(mode).consumer("queue:q", prefetch=prefetch)
    consumer.listen(listener)
    assert listener.reached.wait(PATIENCE)
    consumer.close()
    assert listener.came == numbers(0, 4)
    # The error is told, as any that ends a thread.
    assert [type(error) for error in thread_errors] == [KeyError]
    done = 3 if mode in ("auto", "dups_ok") else 0
    assert left(connection) == [(body, int(body) <= 3) for body in numbers(done, 10)]


def test_a_listener_may_send_acknowledge_and_reply_in_its_session(connection: Connection) -> None:
    session = connection.session("client")
    out = session.producer("queue:out")
    finished = threading.Event()

    def pass_on(message: Message) -> None:
        out.send(message.body)
        session.acknowledge()
        if message.body == b"9":
            finished.set()

    consumer = session.consumer("queue:q")
    consumer.listen(pass_on)
    assert finished.wait(PATIENCE)
    consumer.close()
    assert left(connection) == []
    other = connection.session().consumer("queue:out")
    assert [other.receive(timeout=PATIENCE).body for _ in range(10)] == numbers(0, 10)


def test_a_transacted_listener_commits_or_rolls_back(connection: Connection) -> None:
    session = connection.session("transacted")
    finished = threading.Event()
    tried: list[bytes] = []

    def work(message: Message) -> None:
        tried.append(message.body)
        if message.body == b"2" and not message.redelivered:
            session.rollback()
        else:
            session.commit()
        if message.body == b"9":
            finished.set()

    consumer = session.consumer("queue:q")
    consumer.listen(work)
    assert finished.wait(PATIENCE)
    consumer.close()
    assert tried == [*numbers(0, 3), *numbers(2, 10)]
    assert left(connection) == []


def test_a_listener_may_close_its_consumer(connection: Connection) -> None:
    closed = threading.Event()
    consumer = connection.session().consumer("queue:q")

    def once(message: Message) -> None:
        assert message.body == b"0"
        consumer.close()
        closed.set()

    consumer.listen(once)
    assert closed.wait(PATIENCE)
    assert left(connection) == [(body, False) for body in numbers(1, 10)]


def test_who_has_a_listener_cannot_receive_otherwise(connection: Connection) -> None:
    consumer = connection.session().consumer("queue:other")
    consumer.listen(lambda _: None)
    again = (consumer.receive, consumer.receive_batch, lambda: consumer.listen(print), lambda: next(iter(consumer)))
    for action in again:
        with pytest.raises(MessagingError, match="listener"):
            action()
    consumer.close()


def test_listeners_end_with_their_session_their_connection_and_the_broker(served: Served) -> None:
    before = set(threading.enumerate())
    for ending in ("session", "connection", "broker"):
        connection = connect(served.address)
        session = connection.session()
        session.consumer(f"queue:{ending}").listen(lambda _: None)
        {"session": session.close, "connection": connection.close, "broker": served.stop}[ending]()
        for thread in set(threading.enumerate()) - before:
            if thread.name == "mqlab-listener":
                thread.join(PATIENCE)
                assert not thread.is_alive()
        connection.close()


def test_many_listeners_share_a_queue_and_each_message_is_handled_once(served: Served) -> None:
    count = 2000
    came: list[bytes] = []
    finished = threading.Event()

    def note(message: Message) -> None:
        came.append(message.body)
        if len(came) == count:
            finished.set()

    with connect(served.address) as connection:
        consumers = [connection.session().consumer("queue:shared", prefetch=10) for _ in range(4)]
        for consumer in consumers:
            consumer.listen(note)
        producer = connection.session().producer("queue:shared")
        for body in numbers(0, count):
            producer.send(body)
        assert finished.wait(PATIENCE)
        for consumer in consumers:
            consumer.close()
        assert sorted(came, key=int) == numbers(0, count)
        assert connection.status()["messages"] == 0
