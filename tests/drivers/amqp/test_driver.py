"""The AMQP 0-9-1 driver against a peer that does what a broker may do, and what it should not."""

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from drivers.amqp.null_server import AmqpNullServer
from drivers.answers import Answers
from drivers.null_servers import against, bodies, turns
from mqlab.drivers import DRIVERS, DriverConnection, DriverError, ReceiverOptions
from mqlab.drivers.api import MessageHeaders
from mqlab.wire.amqp.content import AmqpPublisher
from mqlab.wire.amqp.methods import METHOD, Method, frame, method, method_payload

Play = Callable[[DriverConnection], Awaitable[None]]


class FakeBroker(AmqpNullServer):
    """Delivers ten messages of 12 bytes at a time; says something in place of the answer to some methods."""

    connections: list["FakeBroker"]
    answers: dict[str, bytes]

    def __init__(self) -> None:
        super().__init__(12, 10)
        self.received_frames: list[Method] = []
        self.connections.append(self)

    def _answer(self, said: Method) -> None:
        self.received_frames.append(said)
        if said.name in self.answers:
            self.write(self.answers[said.name])
        else:
            super()._answer(said)

    def said(self, name: str) -> list[tuple[object, ...]]:
        return [one.arguments for one in self.received_frames if one.name == name]


@pytest.fixture
def fake_broker(monkeypatch: pytest.MonkeyPatch) -> type[FakeBroker]:
    monkeypatch.setattr(FakeBroker, "connections", [], raising=False)
    monkeypatch.setattr(FakeBroker, "answers", {}, raising=False)
    return FakeBroker


class SilentBroker(FakeBroker):
    """Delivers and confirms nothing by itself."""

    def next_messages(self) -> bytes | None:
        return None

    def handle_data(self, data: memoryview) -> None:
        super().handle_data(data)
        self._confirms = False


@pytest.fixture
def quiet(fake_broker: type[FakeBroker]) -> type[FakeBroker]:
    assert issubclass(SilentBroker, fake_broker)
    return SilentBroker


@pytest.mark.parametrize(("rows", "size"), [(1, 12), (70_000, 12), (5, 300_000), (3, 0)])
def test_every_message_of_a_batch_is_confirmed(fake_broker: type[FakeBroker], rows: int, size: int) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=True, transacted=False)
        await sender.send(bodies(rows, size), wait=True)
        assert FakeBroker.connections[-1]._published == rows
        await sender.send(bodies(1, size), wait=False)
        await sender.close()
        assert FakeBroker.connections[-1]._published == rows + 1

    against("amqp", fake_broker, play)


def test_what_was_received_is_acknowledged_with_the_next(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(10))
        first = await receiver.receive()
        assert [body[4] for body in first.bodies.tolist()] == list(range(10))
        await turns()
        assert FakeBroker.connections[-1].said("basic.ack") == []
        await receiver.receive()
        await turns()
        assert FakeBroker.connections[-1].said("basic.ack") == [(10, True)]
        assert FakeBroker.connections[-1].said("basic.qos") == [(0, 10, False)]

    against("amqp", fake_broker, play)


def test_lazy_acknowledgement_is_told_at_the_end(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(40, "dups_ok"))
        rows = 0
        while rows < 40:
            rows += len((await receiver.receive()).bodies)
        await turns()
        assert len(FakeBroker.connections[-1].said("basic.ack")) <= 2
        await receiver.close()
        tag = FakeBroker.connections[-1].said("basic.ack")[-1][0]
        assert isinstance(tag, int)
        assert tag >= 40

    against("amqp", fake_broker, play)


def test_a_receive_that_is_cancelled_loses_nothing(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(10))
        waiting = asyncio.ensure_future(receiver.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await turns()
        assert [body[4] for body in (await receiver.receive()).bodies.tolist()] == list(range(10))

    against("amqp", fake_broker, play)


@pytest.mark.parametrize(
    ("confirmations", "all_of_them"),
    [([(3, True)], True), ([(3, False), (1, False)], False), ([(3, False), (2, True)], True), ([(2, True)], False)],
)
def test_a_send_waits_for_all_its_confirmations(
    quiet: type[FakeBroker], confirmations: list[tuple[int, bool]], all_of_them: bool
) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=True, transacted=False)
        sending = asyncio.ensure_future(sender.send(bodies(3), wait=True))
        await turns()
        assert not sending.done()
        for tag, multiple in confirmations:
            FakeBroker.connections[-1].write(method(1, "basic.ack", tag, multiple))
        await turns()
        assert sending.done() is all_of_them
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    against("amqp", quiet, play)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (method(1, "channel.close", 404, "NOT_FOUND - no queue", 0, 0), "NOT_FOUND - no queue"),
        (method(0, "connection.close", 320, "CONNECTION_FORCED", 0, 0), "CONNECTION_FORCED"),
        (method(1, "basic.nack", 1, False, False), "refused a message"),
        (b"HTTP/1.1 400 Bad Request\r\n", "a frame of type 72"),
    ],
)
def test_a_broker_that_breaks_off_is_quoted(quiet: type[FakeBroker], said: bytes, why: str) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=True, transacted=False)
        sending = asyncio.ensure_future(sender.send(bodies(3), wait=True))
        await turns()
        FakeBroker.connections[-1].write(said)
        with pytest.raises(DriverError, match=why):
            await sending
        with pytest.raises(DriverError, match=why):
            await sender.send(bodies(3), wait=False)

    against("amqp", quiet, play)


def test_a_stopped_responder_acknowledges_when_its_replies_are_confirmed(quiet: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        responder = await connection.responder("queue:q", prefetch=10, persistent=True)
        responder.start(Answers())
        broker = FakeBroker.connections[-1]
        request = AmqpPublisher(1, "", "q", persistent=True, frame_max=0).message(b"1", "1-1", "replies")
        published = frame(METHOD, 1, method_payload("basic.publish", 0, "", "q", False, False))
        assert request.startswith(published)
        broker.write(method(1, "basic.deliver", "c", 1, False, "", "q") + request[len(published) :])
        while not broker._published:
            await turns()
        await responder.stop()
        closing = asyncio.ensure_future(responder.close())
        await turns()
        assert broker.said("basic.ack") == []
        broker.write(method(1, "basic.ack", 1, False))
        await closing
        assert broker.said("basic.ack") == [(1, True)]

    against("amqp", quiet, play)


def test_a_connection_that_is_lost_ends_every_wait(quiet: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=True, transacted=False)
        receiver = await connection.receiver("queue:q", ReceiverOptions(10))
        waiting = [asyncio.ensure_future(sender.send(bodies(3), wait=True)), asyncio.ensure_future(receiver.receive())]
        await turns()
        transport = FakeBroker.connections[-1]._transport
        assert transport is not None
        transport.abort()
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, DriverError)

    against("amqp", quiet, play)


@pytest.mark.parametrize(
    ("stop", "go"),
    [
        (method(0, "connection.blocked", "low on memory"), method(0, "connection.unblocked")),
        (method(1, "channel.flow", False), method(1, "channel.flow", True)),
    ],
)
def test_a_sender_waits_while_the_broker_wants_nothing(fake_broker: type[FakeBroker], stop: bytes, go: bytes) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        FakeBroker.connections[-1].write(stop)
        await turns()
        sending = asyncio.ensure_future(sender.send(bodies(3), wait=False))
        await turns()
        assert not sending.done()
        FakeBroker.connections[-1].write(go)
        await sending

    against("amqp", fake_broker, play)


def test_a_full_disk_is_not_waited_for(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=True, transacted=False)
        FakeBroker.connections[-1].write(method(0, "connection.blocked", "low on disk"))
        await turns()
        with pytest.raises(DriverError, match="the system accepts no more messages: low on disk"):
            await sender.send(bodies(3), wait=True)

    against("amqp", fake_broker, play)


def test_a_login_that_is_refused(fake_broker: type[FakeBroker]) -> None:
    fake_broker.answers = {"connection.start-ok": method(0, "connection.close", 403, "ACCESS_REFUSED - guest", 0, 0)}

    async def play(_: DriverConnection) -> None: ...

    with pytest.raises(DriverError, match="ACCESS_REFUSED - guest"):
        against("amqp", fake_broker, play)


def test_transactions_and_topics_are_asked_for(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=True, transacted=True)
        await sender.send(bodies(3), wait=False)
        await sender.commit()
        await sender.close()
        receiver = await connection.receiver("topic:t", ReceiverOptions(10, "transacted"))
        await receiver.receive()
        await receiver.commit()
        received_frames = FakeBroker.connections[-1]
        assert received_frames.said("exchange.declare")[0][:4] == (0, "t", "fanout", False)
        assert (len(received_frames.said("tx.select")), len(received_frames.said("tx.commit"))) == (2, 2)
        assert received_frames.said("basic.ack") == [(10, True)]
        assert received_frames.said("confirm.select") == []

    against("amqp", fake_broker, play)


def test_what_it_has_not_is_said(fake_broker: type[FakeBroker]) -> None:
    async def play(connection: DriverConnection) -> None:
        with pytest.raises(DriverError, match="gets all that is on its queue"):
            await connection.receiver("topic:t", ReceiverOptions(10, selector="seq > 5"))
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        with pytest.raises(DriverError, match="no message groups"):
            await sender.send(bodies(3), wait=False, headers=MessageHeaders(key=np.array(["a", "b", "c"])))

    against("amqp", fake_broker, play)


def test_a_sender_is_not_far_ahead_of_a_slow_system(fake_broker: type[FakeBroker]) -> None:
    fake_broker.answers = {"channel.flow": b""}

    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        sending = asyncio.ensure_future(sender.send(bodies(2000, 1024), wait=False))
        await turns()
        assert not sending.done()
        assert 256 < FakeBroker.connections[-1]._published < 1000
        fake_broker.answers = {}
        for _ in range(3):
            FakeBroker.connections[-1].write(method(1, "channel.flow-ok", True))
        await sending
        await sender.close()
        assert FakeBroker.connections[-1]._published == 2000

    against("amqp", fake_broker, play)


def test_a_question_tells_what_is_taken(fake_broker: type[FakeBroker]) -> None:
    fake_broker.answers = {"channel.flow": b""}

    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        await sender.send(bodies(10), wait=False)
        await sender.wait_accepted(10)
        await sender.send(bodies(5), wait=False)
        waiting = asyncio.ensure_future(sender.wait_accepted(5))
        await turns()
        assert FakeBroker.connections[-1].said("channel.flow") == [(True,), (True,)]
        assert not waiting.done()
        FakeBroker.connections[-1].write(method(1, "channel.flow-ok", True))
        await waiting
        FakeBroker.connections[-1].write(method(1, "channel.flow-ok", True))
        await sender.wait_accepted(0)

    against("amqp", fake_broker, play)


def test_a_system_that_says_nothing(fake_broker: type[FakeBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.drivers.amqp.client._OPEN_TIMEOUT_S", 0.05)
    fake_broker.answers = {"connection.start-ok": b""}

    async def play(_: DriverConnection) -> None: ...

    with pytest.raises(DriverError, match="sent no AMQP handshake"):
        against("amqp", fake_broker, play)


def test_nobody_there() -> None:
    with pytest.raises(DriverError, match=r"127\.0\.0\.1:1"):
        asyncio.run(DRIVERS["amqp"]("tcp:127.0.0.1:1").connect())
