"""The MQTT driver against a peer that does what a broker may do, and what it should not."""

import asyncio

import pytest

from drivers.answers import Answers
from drivers.mqtt.null_server import MqttNullServer
from drivers.null_servers import against, bodies, turns
from mqlab.drivers import DRIVERS, DriverConnection, DriverError, ReceiverOptions
from mqlab.wire.mqtt.decoder import Packet
from mqlab.wire.mqtt.messages import MqttPublisher
from mqlab.wire.mqtt.packets import CONNECT, PINGREQ, SUBSCRIBE, packet

CONNACK = packet(0x20, b"\0\0\0")


class FakeBroker(MqttNullServer):
    """Delivers nothing by itself; says something in place of the answer to some packets."""

    connections: list["FakeBroker"]
    answers: dict[int, bytes]

    def __init__(self) -> None:
        super().__init__(12, 10)
        self.read = b""
        self.connections.append(self)

    def handle_data(self, data: memoryview) -> None:
        self.read += bytes(data)
        super().handle_data(data)

    def next_messages(self) -> bytes | None:
        return None

    def _answer(self, asked: Packet) -> None:
        if asked.kind in self.answers:
            self.write(self.answers[asked.kind])
        else:
            super()._answer(asked)


class Silent(FakeBroker):
    """Confirms no message."""

    def write(self, data: bytes) -> None:
        if not data.startswith(b"\x40"):
            super().write(data)

    def confirm(self, rows: int, reason: bytes = b"") -> None:
        for number in range(rows):
            super().write(packet(0x40, number.to_bytes(2, "big") + reason))


@pytest.fixture
def fake_broker(monkeypatch: pytest.MonkeyPatch) -> type[FakeBroker]:
    monkeypatch.setattr(FakeBroker, "connections", [], raising=False)
    monkeypatch.setattr(FakeBroker, "answers", {}, raising=False)
    return FakeBroker


@pytest.fixture
def silent(fake_broker: type[FakeBroker]) -> type[Silent]:
    assert issubclass(Silent, fake_broker)
    return Silent


def last() -> Silent:
    found = FakeBroker.connections[-1]
    assert isinstance(found, Silent)
    return found


@pytest.mark.parametrize("driver", ["mqtt", "mqtt3"])
@pytest.mark.parametrize(("rows", "size"), [(1, 12), (70_000, 12), (5, 300_000), (3, 0)])
def test_every_message_of_a_batch_is_confirmed(
    fake_broker: type[FakeBroker], driver: str, rows: int, size: int
) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=True, transacted=False)
        await sender.send(bodies(rows, size), wait=True)
        await sender.send(bodies(1, size), wait=False)
        await sender.close()

    against(driver, fake_broker, play)


@pytest.mark.parametrize("driver", ["mqtt", "mqtt3"])
def test_what_was_received_is_acknowledged_with_the_next(fake_broker: type[FakeBroker], driver: str) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("topic:t", ReceiverOptions(100))
        broker, publishing = FakeBroker.connections[-1], MqttPublisher(5 if driver == "mqtt" else 4, "topic/t", qos=1)
        before = broker.read
        broker.write(publishing.message(b"first", 7) + publishing.message(b"another", 8))
        assert (await receiver.receive()).bodies.tolist() == [b"first", b"another"]
        await turns()
        assert broker.read == before
        broker.write(publishing.message(b"third", 9))
        assert (await receiver.receive()).bodies.tolist() == [b"third"]
        await turns()
        assert broker.read == before + b"\x40\2\0\7\x40\2\0\10"

    against(driver, fake_broker, play)


def test_messages_sent_again_are_told_apart(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("topic:t", ReceiverOptions(100))
        new = MqttPublisher(5, "topic/t", qos=1).message(b"body", 1)
        FakeBroker.connections[-1].write(b"\x3a" + new[1:] + new)
        arrivals = [await receiver.receive(), await receiver.receive()]
        assert [(arrival.redelivered, len(arrival.bodies)) for arrival in arrivals] == [(True, 1), (False, 1)]

    against("mqtt", fake_broker, play)


def test_a_receive_that_is_cancelled_loses_nothing(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("topic:t", ReceiverOptions(100))
        waiting = asyncio.ensure_future(receiver.receive())
        await asyncio.sleep(0)
        FakeBroker.connections[-1].write(MqttPublisher(5, "topic/t", qos=0).message(b"body"))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await turns()
        assert (await receiver.receive()).bodies.tolist() == [b"body"]

    against("mqtt", fake_broker, play)


def test_no_more_is_unconfirmed_than_the_broker_takes(silent: type[Silent]) -> None:
    silent.answers = {CONNECT: packet(0x20, b"\0\0\3\x21\0\5")}

    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=True, transacted=False)
        broker = last()
        before = len(broker.read)
        sending = asyncio.ensure_future(sender.send(bodies(12), wait=True))
        size = len(MqttPublisher(5, "topic/t", qos=1).message(bytes(12), 1))
        for sent, confirmed in ((5, 3), (8, 5), (12, 3)):
            await turns()
            assert (len(broker.read) - before) / size == sent
            broker.confirm(confirmed)
        await turns()
        assert not sending.done()
        broker.confirm(1)
        await sending
        FakeBroker.answers = {}

    against("mqtt", silent, play)


@pytest.mark.parametrize(("requests", "acknowledged"), [(1, True), (2, False)])
def test_a_stopped_responder_acknowledges_when_all_replies_are_confirmed(
    silent: type[Silent], requests: int, acknowledged: bool
) -> None:
    """The broker accepts one unconfirmed message, so the second reply is never sent."""
    silent.answers = {CONNECT: packet(0x20, b"\0\0\3\x21\0\1")}
    puback = packet(0x40, b"\0\1")

    async def play(connection: DriverConnection) -> None:
        responder = await connection.responder("queue:q", prefetch=10, persistent=True)
        responder.start(Answers())
        broker, publisher = last(), MqttPublisher(5, "queue/q", qos=1)
        broker.write(b"".join(publisher.message(b"1", n + 1, b"%d" % n, "replies") for n in range(requests)))
        while b"re:1" not in broker.read:
            await turns()
        await responder.stop()
        closing = asyncio.ensure_future(responder.close())
        await turns()
        assert puback not in broker.read
        broker.confirm(1)
        await closing
        assert (puback in broker.read) is acknowledged
        FakeBroker.answers = {}

    against("mqtt", silent, play)


@pytest.mark.parametrize(
    ("destination", "reason", "why"),
    [
        ("topic:t", b"\x97\0", "refused a message: reason 0x97"),
        ("queue:q", b"\x10\0", "a queue without a consumer"),
        ("topic:t", b"\x10\0", ""),
    ],
)
def test_what_a_confirmation_says(silent: type[Silent], destination: str, reason: bytes, why: str) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender(destination, persistent=False, transacted=False)
        sending = asyncio.ensure_future(sender.send(bodies(1), wait=True))
        await turns()
        last().confirm(1, reason)
        if why:
            with pytest.raises(DriverError, match=why):
                await sending
        else:
            await sending

    against("mqtt", silent, play)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"\xe0\2\x8e\0", "ended the session: reason 0x8e"),
        (b"\x10\0", "packet of type 1"),
        (b"", "MQTT"),
    ],
)
def test_a_broker_that_breaks_off_ends_every_wait(silent: type[Silent], said: bytes, why: str) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=True, transacted=False)
        sending = asyncio.ensure_future(sender.send(bodies(1), wait=True))
        await turns()
        transport = last()._transport
        assert transport is not None
        if said:
            last().write(said)
        else:
            transport.abort()
        with pytest.raises(DriverError, match=why):
            await sending
        with pytest.raises(DriverError, match=why):
            await sender.send(bodies(1), wait=False)

    against("mqtt", silent, play)


@pytest.mark.parametrize(
    ("driver", "answers", "why"),
    [
        ("mqtt", {CONNECT: packet(0x20, b"\0\x87\0")}, "refuses the connection: reason 0x87"),
        ("mqtt", {CONNECT: packet(0x20, b"\0\x86\7\x1f\0\4away")}, "refuses the connection: away"),
        ("mqtt3", {CONNECT: packet(0x20, b"\0\5")}, "not authorised"),
        ("mqtt", {SUBSCRIBE: packet(0x90, b"\0\1\0\x87")}, "refuses the subscription to topic/t: reason 0x87"),
        ("mqtt3", {SUBSCRIBE: packet(0x90, b"\0\1\x80")}, "refuses the subscription to topic/t: reason 0x80"),
        ("mqtt", {SUBSCRIBE: packet(0xD0, b"")}, "type 13 instead of 9"),
    ],
)
def test_a_broker_that_refuses_is_quoted(
    fake_broker: type[FakeBroker], driver: str, answers: dict[int, bytes], why: str
) -> None:
    fake_broker.answers = answers

    async def play(connection: DriverConnection) -> None:
        await connection.receiver("topic:t", ReceiverOptions(100))

    with pytest.raises(DriverError, match=why):
        against(driver, fake_broker, play)


def test_a_receiver_that_is_full_stops_reading(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("topic:t", ReceiverOptions(50))
        broker, message = FakeBroker.connections[-1], MqttPublisher(5, "topic/t", qos=0).message(bytes(100_000))
        for _ in range(300):
            broker.write(message)
        await turns()
        # Far more than the sockets hold.
        assert broker._paused
        rows = 0
        while rows < 300:
            rows += len((await receiver.receive()).bodies)
        assert rows == 300

    against("mqtt", fake_broker, play)


def test_a_session_with_more_than_it_has_room_for_still_hears_answers(fake_broker: type[FakeBroker]) -> None:
    many = MqttPublisher(4, "topic/t", qos=1).message(bytes(10_000), 1) * 1000
    fake_broker.answers = {SUBSCRIBE: many + packet(0x90, b"\0\1\1")}

    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("topic:t", ReceiverOptions(10, durable="lasting"))
        rows = 0
        while rows < 1000:
            rows += len((await receiver.receive()).bodies)
        assert rows == 1000

    against("mqtt3", fake_broker, play)


@pytest.mark.parametrize(
    ("driver", "destination", "how", "why"),
    [
        ("mqtt", "topic:t", ReceiverOptions(1, selector="a > 1"), "by topic only"),
        ("mqtt", "topic:t", ReceiverOptions(1, "transacted"), "has none"),
        ("mqtt", "topic:t", ReceiverOptions(1, "client"), "to the same session only"),
        ("mqtt3", "queue:q", ReceiverOptions(1), "no shared subscriptions"),
    ],
)
def test_what_it_has_not_is_said(
    fake_broker: type[FakeBroker], driver: str, destination: str, how: ReceiverOptions, why: str
) -> None:
    async def play(connection: DriverConnection) -> None:
        with pytest.raises(DriverError, match=why):
            await connection.receiver(destination, how)

    against(driver, fake_broker, play)


def test_a_sender_is_not_far_ahead_of_a_slow_system(fake_broker: type[FakeBroker]) -> None:
    fake_broker.answers = {PINGREQ: b""}

    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        sending = asyncio.ensure_future(sender.send(bodies(2000, 1024), wait=False))
        await turns()
        assert not sending.done()
        assert 256 * 1024 < len(FakeBroker.connections[-1].read) < 1000 * 1024
        fake_broker.answers = {}
        for _ in range(3):
            FakeBroker.connections[-1].write(packet(0xD0, b""))
        await sending
        await sender.close()
        assert len(FakeBroker.connections[-1].read) > 2000 * 1024

    against("mqtt", fake_broker, play)


def test_a_system_that_says_nothing(fake_broker: type[FakeBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.drivers.mqtt.client._OPEN_TIMEOUT_S", 0.05)
    fake_broker.answers = {CONNECT: b""}

    async def play(_: DriverConnection) -> None: ...

    with pytest.raises(DriverError, match="sent no MQTT CONNACK"):
        against("mqtt", fake_broker, play)


def test_nobody_there() -> None:
    with pytest.raises(DriverError, match=r"127\.0\.0\.1:1"):
        asyncio.run(DRIVERS["mqtt"]("tcp:127.0.0.1:1").connect())
