"""python-qpid-proton as a client of the broker."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import (
    ConnectionException,
    Data,
    Delivery,
    Event,
    Message,
    Terminus,
    Timeout,
    int32,
    symbol,
    ulong,
)
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import (
    AtMostOnce,
    Container,
    Copy,
    DurableSubscription,
    LinkOption,
    ReceiverOption,
    Selector,
)
from proton.utils import (
    BlockingConnection,
    LinkDetached,
    SendException,
)

from mqlab.client.blocking import connect

# Long enough for a machine that does much else.
SECONDS = 60
# Short: nothing is expected to come.
SHORT = 0.05


# Any: the types of Proton's blocking client are incomplete.
Client = Any
Receiver = Any


def connected(port: int, **options: Any) -> Client:
    return BlockingConnection(f"127.0.0.1:{port}", timeout=SECONDS, **options)


@pytest.fixture
def client(port: int) -> Iterator[Client]:
    connection = connected(port)
    yield connection
    connection.close()


def accepted(receiver: Receiver) -> Any:
    message = receiver.receive(timeout=SECONDS)
    receiver.accept()
    return message


def copied(value: object) -> object:
    """The value with bytes in place of Proton's views."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return bytes(value) if isinstance(value, memoryview) else value


def is_empty(receiver: Receiver) -> bool:
    """Whether the queue has nothing for it, by a drain: the broker says when there is nothing."""
    link = receiver.link
    link.drain(1)
    receiver.connection.wait(lambda: receiver.fetcher.has_message or is_drained(receiver), timeout=SECONDS)
    return not receiver.fetcher.has_message


def is_drained(receiver: Receiver) -> bool:
    """Whether the broker has used up the credit, and Proton has handed over all messages."""
    return not receiver.link.draining() and not receiver.link.credit


class Capability(LinkOption):
    """The capability of a terminus."""

    def __init__(self, name: str) -> None:
        self.name = name

    def apply(self, link: Receiver) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_object(symbol(self.name))


class Named(ReceiverOption):
    """A terminus with capabilities in an array, as JMS clients write them."""

    def __init__(self, *names: str, durable: bool = False) -> None:
        self.names = names
        self.durable = durable

    def apply(self, receiver: Receiver) -> None:
        data = receiver.source.capabilities
        data.put_array(False, Data.SYMBOL)
        data.enter()
        for name in self.names:
            data.put_symbol(symbol(name))
        data.exit()
        if self.durable:
            receiver.source.durability = Terminus.DELIVERIES
            receiver.source.expiry_policy = Terminus.EXPIRE_NEVER


BODIES = [
    b"",
    b"data",
    "",
    "text ü",
    None,
    True,
    7,
    -(2**40),
    1.5,
    [1, "two", None],
    {"a": [1], "b": b"x"},
    UUID(int=7),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: f"{type(body).__name__}-{str(body)[:12]}")
def test_body_of_any_type_arrives_as_it_was_sent(client: Client, queue: str, body: Any) -> None:
    client.create_sender(queue).send(Message(body=body))
    # The message owns the memory of its body.
    message = accepted(client.create_receiver(queue, credit=1))
    assert copied(message.body) == body
    assert isinstance(message.body, memoryview if isinstance(body, bytes) else type(body))


def test_properties_and_annotations_arrive_as_they_were_sent(client: Client, queue: str) -> None:
    sent = Message(
        body="x", id=ulong(7), user_id=b"i", address=queue, subject="s", reply_to="replies", correlation_id=UUID(int=7),
        content_type="text/plain", content_encoding="gzip", creation_time=1000.0, group_id="g", group_sequence=3,
        reply_to_group_id="rg", properties={"a": int32(1), "b-c": "x", "n": None, "bin": b"\0"},
        annotations={symbol("x-opt-one"): [1, 2], symbol("x-opt-two"): "t"}, priority=9, durable=True,
    )  # fmt: skip
    client.create_sender(queue).send(sent)
    got = accepted(client.create_receiver(queue, credit=1))
    for name in (
        "id", "user_id", "address", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
        "creation_time", "group_id", "group_sequence", "reply_to_group_id", "annotations", "priority", "durable",
    ):  # fmt: skip
        assert getattr(got, name) == getattr(sent, name), name
    assert copied(got.properties) == sent.properties


@pytest.mark.parametrize("size", [0, 60_000, 3_000_000])
def test_message_of_any_size_comes_in_as_many_transfers_as_it_needs(client: Client, queue: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256)
    client.create_sender(queue).send(Message(body=body))
    message = accepted(client.create_receiver(queue, credit=1))
    assert copied(message.body) == body


def test_messages_come_in_order_and_once(client: Client, queue: str) -> None:
    sender, receiver = client.create_sender(queue), client.create_receiver(queue, credit=50)
    for number in range(200):
        sender.send(Message(body=number))
    assert [accepted(receiver).body for _ in range(200)] == [*range(200)]
    assert is_empty(receiver)


@pytest.mark.parametrize(
    ("settle", "redelivered", "count"),
    [("release", True, 0), ("modified", True, 1), ("accept", False, 0)],
)
def test_outcome_decides_whether_and_how_a_message_comes_again(
    client: Client, queue: str, settle: str, redelivered: bool, count: int
) -> None:
    client.create_sender(queue).send(Message(body="x"))
    receiver = client.create_receiver(queue, credit=1)
    assert receiver.receive(timeout=SECONDS).delivery_count == 0
    if settle == "modified":
        receiver.fetcher.unsettled[-1].local.failed = True
        receiver.settle(Delivery.MODIFIED)
    elif settle == "release":
        receiver.release(delivered=False)
    else:
        receiver.accept()
    if redelivered:
        again = accepted(receiver)
        assert (again.body, again.delivery_count, again.first_acquirer) == ("x", count, count == 0)
    else:
        assert is_empty(receiver)


def test_rejected_message_goes_to_the_dead_letter_queue(client: Client, queue: str) -> None:
    client.create_sender(queue).send(Message(body=queue))
    receiver = client.create_receiver(queue, credit=1)
    receiver.receive(timeout=SECONDS)
    receiver.reject()
    dead = client.create_receiver("dead-letters", credit=1)
    assert accepted(dead).body == queue
    assert is_empty(receiver)


def test_presettled_messages_are_delivered_both_ways(client: Client, queue: str) -> None:
    sender = client.create_sender(queue, options=AtMostOnce())
    receiver = client.create_receiver(queue, credit=10, options=AtMostOnce())
    for number in range(5):
        sender.send(Message(body=number))
    assert [receiver.receive(timeout=SECONDS).body for _ in range(5)] == [*range(5)]
    receiver.close()
    assert is_empty(client.create_receiver(queue, credit=0))


def test_credit_limits_deliveries(client: Client, queue: str) -> None:
    sender = client.create_sender(queue)
    for number in range(5):
        sender.send(Message(body=number))
    receiver = client.create_receiver(queue, credit=0)
    receiver.link.flow(2)
    client.wait(lambda: len(receiver.fetcher.incoming) == 2, timeout=SECONDS)
    assert is_empty_after(client, receiver, 2)
    other = client.create_receiver(queue, credit=3, name="other")
    assert [accepted(other).body for _ in range(3)] == [2, 3, 4]


def is_empty_after(client: Client, receiver: Receiver, count: int) -> bool:
    """Whether no more than `count` messages have come when the broker has handled all earlier frames."""
    client.create_sender("barrier").close()
    return len(receiver.fetcher.incoming) == count


def test_drain_of_an_empty_queue_is_answered(client: Client, queue: str) -> None:
    receiver = client.create_receiver(queue, credit=0)
    assert is_empty(receiver)
    client.create_sender(queue).send(Message(body="later"))
    receiver.link.flow(1)
    assert accepted(receiver).body == "later"


def test_expired_message_is_not_delivered(client: Client, queue: str) -> None:
    sender = client.create_sender(queue)
    sender.send(Message(body="short", ttl=0.001))
    sender.send(Message(body="past", expiry_time=1.0))
    sender.send(Message(body="long", ttl=600))
    time.sleep(0.02)
    got = accepted(client.create_receiver(queue, credit=3))
    assert got.body == "long"
    assert 0 < got.ttl <= 600


def test_higher_priority_comes_first(client: Client, queue: str) -> None:
    sender = client.create_sender(queue)
    for priority in (0, 4, 9):
        sender.send(Message(body=priority, priority=priority))
    receiver = client.create_receiver(queue, credit=3)
    assert [accepted(receiver).body for _ in range(3)] == [9, 4, 0]


def test_selector_chooses_messages(client: Client, queue: str) -> None:
    sender = client.create_sender(queue)
    receiver = client.create_receiver(queue, credit=3, options=Selector("colour = 'red' AND size > 3"))
    for colour, size in (("red", 1), ("blue", 5), ("red", 5)):
        sender.send(Message(body=f"{colour} {size}", properties={"colour": colour, "size": size}))
    assert accepted(receiver).body == "red 5"


def test_invalid_selector_is_refused_and_the_connection_goes_on(client: Client, queue: str) -> None:
    with pytest.raises(LinkDetached) as refused:
        client.create_receiver(queue, options=Selector("colour = = 1"))
    assert refused.value.condition == "amqp:invalid-field"
    client.create_sender(queue).send(Message(body="x"))


def test_browser_removes_nothing_and_ends(client: Client, queue: str) -> None:
    sender = client.create_sender(queue)
    for number in range(3):
        sender.send(Message(body=number))
    browser = client.create_receiver(queue, credit=0, options=Copy())
    browser.link.drain(10)
    client.wait(lambda: is_drained(browser), timeout=SECONDS)
    assert [message.body for message, _ in browser.fetcher.incoming] == [0, 1, 2]
    browser.close()
    receiver = client.create_receiver(queue, credit=3)
    assert [accepted(receiver).body for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("address", "options"),
    [("topic://{}", None), ("topic:{}", None), ("/topic/{}", None), ("{}", Capability("topic"))],
)
def test_topic_by_address_or_capability(client: Client, queue: str, address: str, options: LinkOption | None) -> None:
    name = address.format(queue)
    receivers = [client.create_receiver(name, name=link, credit=5, options=options) for link in ("one", "two")]
    client.create_sender(name, options=options).send(Message(body="news"))
    assert [accepted(receiver).body for receiver in receivers] == ["news", "news"]


@pytest.mark.parametrize("address", ["queue://{}", "queue:{}", "/queue/{}", "{}"])
def test_queue_by_address(client: Client, queue: str, address: str) -> None:
    client.create_sender(queue).send(Message(body="x"))
    assert accepted(client.create_receiver(address.format(queue), credit=1)).body == "x"


def test_wildcard_subscription_names_the_topic(client: Client, queue: str) -> None:
    receiver = client.create_receiver(f"topic://{queue}.#", credit=5)
    client.create_sender(f"topic://{queue}.metal.gold").send(Message(body="1"))
    assert accepted(receiver).body == "1"


def test_dynamic_queue_lives_as_long_as_its_link(client: Client, port: int) -> None:
    receiver = client.create_receiver(None, dynamic=True, credit=1)
    address = receiver.link.remote_source.address
    other = connected(port)
    other.create_sender(address).send(Message(body="reply"))
    assert accepted(receiver).body == "reply"
    with pytest.raises(LinkDetached) as refused:
        other.create_receiver(address)
    assert refused.value.condition == "amqp:unauthorized-access"
    receiver.close()
    with pytest.raises(LinkDetached):
        client.create_sender(address)
    other.close()


def test_anonymous_relay_sends_where_each_message_says(client: Client, queue: str) -> None:
    sender = client.create_sender(None)
    for number in range(3):
        sender.send(Message(address=f"{queue}-{number}", body=number))
    for number in range(3):
        assert accepted(client.create_receiver(f"{queue}-{number}", credit=1)).body == number
    with pytest.raises(SendException):
        sender.send(Message(body="without an address"))
    sender.send(Message(address=queue, body="the link goes on"))


def test_durable_subscription_gets_what_was_sent_while_it_was_away(port: int, queue: str) -> None:
    topic = f"topic://{queue}"

    def subscribe(connection: Client) -> Receiver:
        return connection.create_receiver(topic, name="news", credit=1, options=DurableSubscription())

    first = connected(port, container_id=queue)
    subscribe(first).detach()
    first.create_sender(topic).send(Message(body="while away"))
    first.close()
    second = connected(port, container_id=queue)
    receiver = subscribe(second)
    assert accepted(receiver).body == "while away"
    # Closing it ends the subscription.
    receiver.close()
    second.create_sender(topic).send(Message(body="nobody is subscribed"))
    assert is_empty(subscribe(second))
    second.close()


def test_shared_subscription_divides_the_messages(client: Client, port: int, queue: str) -> None:
    other = connected(port)
    topic, shared = f"topic://{queue}", Named("topic", "shared", "global")
    receivers = [
        connection.create_receiver(topic, name="team|global-volatile1", credit=50, options=shared)
        for connection in (client, other)
    ]
    sender = client.create_sender(topic)
    for number in range(20):
        sender.send(Message(body=number))
    deadline = time.monotonic() + SECONDS
    got: list[int] = []
    while len(got) < 20 and time.monotonic() < deadline:
        for receiver in receivers:
            receiver.connection.wait(lambda: True)
            while receiver.fetcher.has_message:
                got.append(accepted(receiver).body)
        other.create_sender("barrier").close()
        client.create_sender("barrier").close()
    assert sorted(got) == [*range(20)]
    other.close()


def test_unknown_subscription_is_not_found(client: Client) -> None:
    """A receiver without a source asks for a durable subscription by name, as Qpid JMS does to unsubscribe."""

    class NoSource(ReceiverOption):
        def apply(self, receiver: Receiver) -> None:
            receiver.source.type = Terminus.UNSPECIFIED

    with pytest.raises(LinkDetached) as refused:
        client.create_receiver(None, name="unknown", options=NoSource())
    assert refused.value.condition == "amqp:not-found"


class Transactions(MessagingHandler, TransactionHandler):
    """Sends two messages in each transaction, aborts the first and commits the second."""

    def __init__(self, url: str, queue: str) -> None:
        super().__init__()
        self.url, self.queue = url, queue
        self.ended: list[str] = []

    def on_start(self, event: Event) -> None:
        self.container = event.container
        self.connection = self.container.connect(self.url)
        self.sender = self.container.create_sender(self.connection, self.queue)
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Event) -> None:
        for number in range(2):
            event.transaction.send(self.sender, Message(body=f"{len(self.ended)}-{number}"))
        (event.transaction.commit if self.ended else event.transaction.abort)()

    def on_transaction_aborted(self, event: Event) -> None:  # noqa: ARG002 - Proton calls it
        self.ended.append("aborted")
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_committed(self, event: Event) -> None:  # noqa: ARG002 - Proton calls it
        self.ended.append("committed")
        self.connection.close()


def test_transaction_sends_all_or_nothing(client: Client, port: int, queue: str) -> None:
    handler = Transactions(f"amqp://127.0.0.1:{port}", queue)
    Container(handler).run()
    assert handler.ended == ["aborted", "committed"]
    receiver = client.create_receiver(queue, credit=5)
    assert [accepted(receiver).body for _ in range(2)] == ["1-0", "1-1"]
    assert is_empty(receiver)


class TransactedConsumer(MessagingHandler, TransactionHandler):
    """Accepts each message in a transaction; aborts the first transaction."""

    def __init__(self, url: str, queue: str) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.url, self.queue = url, queue
        self.bodies: list[tuple[str, int]] = []

    def on_start(self, event: Event) -> None:
        self.container = event.container
        self.connection = self.container.connect(self.url)
        self.receiver = self.container.create_receiver(self.connection, self.queue)
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Event) -> None:
        self.transaction = event.transaction
        self.receiver.flow(1)

    def on_message(self, event: Event) -> None:
        self.bodies.append((event.message.body, event.message.delivery_count))
        self.transaction.accept(event.delivery)
        (self.transaction.abort if len(self.bodies) == 1 else self.transaction.commit)()

    def on_transaction_aborted(self, event: Event) -> None:  # noqa: ARG002 - Proton calls it
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_committed(self, event: Event) -> None:  # noqa: ARG002 - Proton calls it
        self.connection.close()


def test_transaction_acknowledges_all_or_nothing(client: Client, port: int, queue: str) -> None:
    client.create_sender(queue).send(Message(body="x"))
    handler = TransactedConsumer(f"amqp://127.0.0.1:{port}", queue)
    Container(handler).run()
    assert [body for body, _ in handler.bodies] == ["x", "x"]
    assert is_empty(client.create_receiver(queue, credit=0))


@pytest.mark.parametrize(
    ("address", "condition"), [("$management", "amqp:not-found"), ("a\x01b", "amqp:invalid-field")]
)
def test_address_that_cannot_be_used_is_refused(client: Client, address: str, condition: str) -> None:
    opens: tuple[Callable[[str], object], ...] = (client.create_sender, client.create_receiver)
    for open_link in opens:
        with pytest.raises(LinkDetached) as refused:
            open_link(address)
        assert refused.value.condition == condition
    client.create_sender("still-usable").close()


def test_idle_client_stays_connected(port: int, queue: str) -> None:
    """The broker sends empty frames in time; Proton ends a connection whose peer is silent."""
    connection = connected(port, heartbeat=0.4)
    receiver = connection.create_receiver(queue, credit=1)
    with pytest.raises(Timeout):
        receiver.receive(timeout=1.5)
    connection.create_sender(queue).send(Message(body="x"))
    assert accepted(receiver).body == "x"
    connection.close()


def test_native_and_amqp_clients_exchange_messages(client: Client, port: int, queue: str) -> None:
    with connect(f"tcp:127.0.0.1:{port}") as native:
        session = native.session()
        receiver = client.create_receiver(queue, credit=1)
        session.producer(f"queue:{queue}").send(
            b"native", correlation_id="c", reply_to="topic:answers", type="t", priority=7, group="g", persistent=True,
            properties={"flag": True, "count": 3, "ratio": 0.5, "content_type": "text/plain"},
        )  # fmt: skip
        got = accepted(receiver)
        assert copied(got.body) == b"native"
        assert (got.correlation_id, got.reply_to, got.subject) == ("c", "topic://answers", "t")
        assert (got.priority, got.group_id, got.durable) == (7, "g", True)
        assert got.properties == {"flag": True, "count": 3, "ratio": 0.5}
        assert got.content_type == "text/plain"
        assert isinstance(got.id, UUID)
        receiver.close()
        client.create_sender(queue).send(
            Message(
                body="text",
                correlation_id="c2",
                reply_to="answers",
                subject="t2",
                priority=2,
                group_id="g2",
                properties={"x-y": "z", "n": int32(5)},
                content_type="text/plain",
                durable=True,
                annotations={symbol("x-opt-a"): 1},
            )
        )
        consumer = session.consumer(f"queue:{queue}")
        message = consumer.receive(timeout=SECONDS)
        assert message is not None
        assert message.body == b"text"
        assert (message.correlation_id, message.reply_to, message.type) == ("c2", "queue:answers", "t2")
        assert (message.priority, message.group, message.persistent) == (2, "g2", True)
        assert message.properties == {"x_HYPHEN_y": "z", "n": 5, "content_type": "text/plain"}


def test_forged_sections_of_a_native_client_do_not_reach_amqp_clients(client: Client, port: int, queue: str) -> None:
    with connect(f"tcp:127.0.0.1:{port}") as native:
        session = native.session()
        producer = session.producer(f"queue:{queue}")
        for forged in ("d\x00\x53\x73\xc0\xff", "s", "t", "d\u1234", "", "x\x00\x53\x75\xa0\x00"):
            producer.send(b"\xff\xfe", properties={"JMS_AMQP_SECTIONS": forged})
    receiver = client.create_receiver(queue, credit=10)
    for _ in range(6):
        message = accepted(receiver)
        assert copied(message.body) == b"\xff\xfe"


def test_client_id_is_refused_by_the_book(port: int) -> None:
    """A container id that is no name ends the connection with `open` and `close`, which may arrive apart."""
    with pytest.raises(ConnectionException) as refused:
        connected(port, container_id="x" * 300).create_sender("q")
    assert "amqp:invalid-field" in str(refused.value)


def test_connections_with_one_container_id_may_coexist(port: int) -> None:
    clients = [connected(port, container_id="same") for _ in range(2)]
    for client in clients:
        client.create_sender("coexist").send(Message(body="x"))
        client.close()
